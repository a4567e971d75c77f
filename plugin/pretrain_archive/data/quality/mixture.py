"""How much of each domain the data hold, against what a policy declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

NAMED = 1000
"""Domains that a report names, the largest ones and those that are declared."""

UNITS = {"bytes": 1, "tokens": 2}


def domains_of(
    domains: Mapping[str, Sequence[int]], declared: Sequence[tuple[str, float, float]], unit: str
) -> list[dict[str, Any]]:
    """Each domain with its documents, bytes, tokens, its share by ``unit``, and what was declared, by name."""
    place = UNITS[unit]
    everything = sum(counts[place] for counts in domains.values())
    asked = {name: (share, tolerance) for name, share, tolerance in declared}
    rows = []
    for name, counts in sorted(domains.items()):
        share, tolerance = asked.get(name, (None, None))
        rows.append(
            {
                "domain": name,
                "documents": counts[0],
                "bytes": counts[1],
                "tokens": counts[2],
                "share": counts[place] / everything if everything else None,
                "declared": share,
                "tolerance": tolerance,
                "low": None if share is None or tolerance is None else share - tolerance,
                "high": None if share is None or tolerance is None else share + tolerance,
            }
        )
    return rows


def named_domains(rows: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], dict[str, int]]:
    """The rows that a report names, by name, and the sums of all others with their number."""
    largest = sorted(rows, key=lambda row: (row["declared"] is None, -(row["share"] or 0), row["domain"]))
    declared = sum(row["declared"] is not None for row in rows)
    end = max(NAMED, declared)
    sums = {name: sum(row[name] for row in largest[end:]) for name in ("documents", "bytes", "tokens")}
    return sorted(largest[:end], key=lambda row: str(row["domain"])), {"domains": len(largest[end:]), **sums}
