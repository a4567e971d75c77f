"""The report of a check as plain JSON: gates, counts, distributions, where faults lie, what moved, what was left out.

It holds no text of the data and no time: the same data under the same suite give the same report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pretrain_archive.data.quality.aggregates import Plan
from pretrain_archive.data.quality.facts import Facts
from pretrain_archive.data.quality.judging.expectations import Answer, engine
from pretrain_archive.data.quality.judging.gates import NOT_ASKED, gate_of
from pretrain_archive.data.quality.labels import Definition, LabelCheck
from pretrain_archive.data.quality.labels import check as check_labels
from pretrain_archive.data.quality.mixture import domains_of, named_domains
from pretrain_archive.data.quality.sensitive.scoring import detector_scores
from pretrain_archive.data.quality.suite import Rule, Suite
from pretrain_archive.ledger.canonical import digest_of

FORMAT = "pretrain-archive/quality-report/2"
VALIDATION = "pretrain-archive/quality-validation/1"

BLAMED = 10
"""Shards and domains that a report names for a gate."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What a check was asked: about what, by which suite, and what it has to compare with."""

    about: str
    suite: Suite
    mixture: tuple[tuple[str, float, float], ...] = ()
    unit: str = "tokens"
    present: frozenset[str] = frozenset()
    computed_on: str = "local"
    numbers: Mapping[str, float] = field(default_factory=dict)
    labels: Definition | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


def aggregates_of(facts: Facts, asked: Asked) -> dict[str, float]:
    """The one row of numbers of the whole data set; what was not measured is not in it."""
    documents, broken = facts.documents, facts.broken
    units = documents + broken + facts.empty
    numbers: dict[str, float] = {"documents": documents, "units": units, **facts.numbers, **asked.numbers}
    if documents + broken:
        numbers["format_error_rate"] = broken / (documents + broken)
    if units:
        numbers["empty_rate"] = facts.empty / units
    if facts.files:
        numbers["not_read_rate"] = sum(facts.not_read.values()) / facts.files
    if documents:
        numbers["exact_duplicate_rate"] = facts.exact_duplicates / documents
        if facts.near is not None:
            numbers["near_duplicate_rate"] = facts.near["documents"] / documents
        numbers |= {f"{group}_rate": counts[0] / documents for group, counts in facts.summary.exposed.items()}
    numbers |= {f"sensitive:{kind}": count for kind, count in facts.sensitive.items()}
    if (checked := labels_of(facts, asked)) is not None:
        numbers |= checked.numbers()
    numbers |= facts.contaminated()
    # Without the unit's column there are no shares: a share of 0 would be made up.
    shares = {row["domain"]: row["share"] for row in _domains(facts, asked) if row["share"] is not None}
    if shares:
        declared = {domain for domain, _, _ in asked.mixture}
        # A declared domain without a byte has share 0.
        numbers |= {f"share:{name}": shares.get(name, 0.0) for name in {*shares, *declared}}
        numbers["undeclared_share"] = sum(share for name, share in shares.items() if name not in declared)
    return numbers


def labels_of(facts: Facts, asked: Asked) -> LabelCheck | None:
    """How the labels of the data stand to their definition, None without one."""
    if asked.labels is None:
        return None
    counts: dict[str | None, int] = {label: count for label, count in facts.summary.labels.items()}  # noqa: C416 - None is a key too
    counts[None] = facts.documents - sum(facts.summary.labels.values())
    return check_labels(asked.labels, counts)


def judge(
    facts: Facts, asked: Asked, plan: Plan
) -> tuple[list[dict[str, Any]], list[dict[str, str]], list[Answer]]:
    """The gates, what was not asked and why, and the library's answers."""
    rules = [rule for rule in asked.suite.rules if rule.needs in {"", "rows"} or rule.needs in asked.present]
    left = [rule for rule in asked.suite.rules if rule not in rules]
    # Without a document there is nothing to judge but what records themselves carry.
    empty = not facts.documents
    judged = [rule for rule in rules if rule.table == "fields"] if empty else rules
    answers = facts.judge(judged, aggregates_of(facts, asked)) if judged else {}
    gates, unasked = (
        [],
        [{"name": rule.id, "reason": NOT_ASKED.get(rule.needs, "not_measured")} for rule in left],
    )
    absent = plan.absent_groups()
    for rule in rules:
        answer = answers.get(rule.id)
        if rule.needs == "rows" and not empty and (answer is None or not (answer.judged or answer.error)):
            unasked.append({"name": rule.id, "reason": NOT_ASKED["rows"]})
            continue
        reason = "no_data" if empty and answer is None else ""
        if rule.column.removeprefix("faults_") in absent:
            answer, reason = None, "not_measured"
        gates.append(gate_of(rule, answer, reason))
    return gates, unasked, list(answers.values())


def report_of(
    facts: Facts,
    asked: Asked,
    plan: Plan,
    gates: Sequence[Mapping[str, Any]],
    unasked: Sequence[Mapping[str, str]],
) -> dict[str, Any]:
    """The whole report."""
    suite = asked.suite.to_dict()
    passed, reason = verdict(facts, gates)
    unasked = [*unasked, *_not_looked_at(asked)]
    return {
        "format": FORMAT,
        "snapshot": asked.about,
        "engine": engine(),
        "computed_on": asked.computed_on,
        "suite": suite,
        "suite_digest": digest_of(suite),
        "passed": passed,
        "reason": reason,
        "warnings": [g["name"] for g in gates if not g["passed"] and g["severity"] == "advisory"],
        "gates": list(gates),
        **_numbers(facts, asked, plan),
        "contributors": contributors(facts, gates),
        # What was not looked at is told, never counted as passed.
        "not_asked": list(unasked),
        "not_checked": [
            *(one["name"] for one in unasked),
            *(gate["name"] for gate in gates if not gate["checked"]),
        ],
        "settings": dict(asked.settings),
        "examples": {name: list(found) for name, found in sorted(facts.examples.items())},
        "moved": None,
    }


def _numbers(facts: Facts, asked: Asked, plan: Plan) -> dict[str, Any]:
    """What was counted and measured."""
    named, rest = named_domains(_domains(facts, asked))
    return {
        "files": facts.files,
        # Files without one document that could be read, by kind: they are in no split either.
        "files_read": facts.files - sum(facts.not_read.values()),
        "not_read": dict(sorted(facts.not_read.items())),
        "documents": facts.documents,
        "total_bytes": facts.total_bytes,
        "empty_documents": facts.empty,
        "format_errors": facts.broken,
        "unclean_documents": facts.summary.unclean,
        "exact_duplicates": facts.exact_duplicates,
        "near_duplicates": None if facts.near is None else facts.near["documents"],
        "near": facts.near,
        "contamination": None if facts.contamination is None else list(facts.contamination),
        "domains": named,
        # What a corpus declares as domains can be as many as its documents.
        "domains_not_named": rest,
        "mixture_unit": asked.unit,
        "languages": dict(sorted(facts.summary.languages.items())),
        "sensitive": dict(sorted(facts.sensitive.items())),
        # How far the counts above can be believed.
        "sensitive_detector": detector_scores(tuple(sorted(facts.sensitive))),
        "labels": None if (checked := labels_of(facts, asked)) is None else checked.to_json(),
        "distributions": dict(sorted(facts.summary.histograms.items())),
        "thresholds": [
            {**threshold.to_dict(), "judged": judged, "beyond": beyond}
            for threshold in plan.thresholds
            for judged, beyond in [facts.summary.faults.get(threshold.id, (0, 0))]
        ],
    }


def _domains(facts: Facts, asked: Asked) -> list[dict[str, Any]]:
    return domains_of(facts.summary.domains, asked.mixture, asked.unit)


def verdict(facts: Facts, gates: Sequence[Mapping[str, Any]]) -> tuple[bool, str]:
    """Whether the data pass, and if not why: every blocking gate passed, and something was judged."""
    if not gates:
        return False, "nothing was checked: the suite has no rules"
    if not facts.documents and not any(gate["checked"] for gate in gates):
        return False, f"nothing was checked: no documents in {facts.files} files"
    failed = [gate["name"] for gate in gates if gate["severity"] == "blocking" and not gate["passed"]]
    if failed:
        return False, f"failed: {', '.join(failed)}"
    if not any(gate["checked"] for gate in gates):
        return False, "nothing was checked: no rule could be judged"
    return True, ""


def contributors(facts: Facts, gates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """For each gate the shards and domains with most of the rows that it counted (R061)."""
    found = {}
    for gate in gates:
        shards, domains = (
            counters.get(gate["name"]) for counters in (facts.summary.shards, facts.summary.regions)
        )
        if shards:
            found[gate["name"]] = {
                "rows": sum(shards.values()),
                "shards": _top(shards),
                "domains": _top(domains or {}),
                "more": max(0, len(shards) - BLAMED),
            }
    return found


def validation_of(answers: Sequence[Answer], suite_digest: str) -> dict[str, Any]:
    """The library's own answers, numbers only, with the expectation behind each."""
    return {
        "format": VALIDATION,
        "engine": engine(),
        "suite_digest": suite_digest,
        "results": [
            {
                "rule": answer.rule.id,
                "type": answer.rule.expectation,
                "kwargs": answer.rule.arguments(),
                "batches": answer.results,
            }
            for answer in sorted(answers, key=lambda one: one.rule.id)
        ],
    }


def moved(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """What changed against the report of an earlier snapshot: gates whose number moved, and by which domains."""
    old = {gate["name"]: gate for gate in before.get("gates", [])}
    rows = []
    for gate in now["gates"]:
        earlier = old.get(gate["name"])
        if earlier is None or earlier["observed"] == gate["observed"]:
            continue
        regions = [
            dict(report.get("contributors", {}).get(gate["name"], {}).get("domains", []))
            for report in (before, now)
        ]
        change = {
            name: regions[1].get(name, 0) - regions[0].get(name, 0) for name in {*regions[0], *regions[1]}
        }
        rows.append(
            {
                "name": gate["name"],
                "family": gate["family"],
                "form": gate["form"],
                "before": earlier["observed"],
                "now": gate["observed"],
                "domains": sorted(
                    ([name, count] for name, count in change.items() if count),
                    key=lambda p: (-abs(p[1]), p[0]),
                )[:5],
            }
        )
    return {"snapshot": before["snapshot"], "gates": rows}


def _top(counter: Mapping[str, int]) -> list[list[Any]]:
    return [
        [name, count]
        for name, count in sorted(counter.items(), key=lambda pair: (-pair[1], pair[0]))[:BLAMED]
    ]


def _not_looked_at(asked: Asked) -> list[dict[str, str]]:
    """Families of the standard that no rule asked, so that a short suite does not look like a whole one."""
    families = {rule.gate for rule in asked.suite.rules}
    missing = []
    if "near_duplicates" not in families:
        missing.append({"name": "near_duplicates", "reason": "not_asked"})
    if not asked.mixture:
        missing.append({"name": "mixture", "reason": "no_mixture"})
    return missing


def rules_over_rows(suite: Suite) -> tuple[Rule, ...]:
    """The rules whose failing rows are located."""
    return tuple(rule for rule in suite.rules if rule.table == "documents" and rule.rows)
