"""Check the quality of a snapshot or a folder, keep the report, and record the result.

A check that looked at nothing has failed: no documents, or no rules, is never a pass. The report is strict
JSON, holds no text of the data and no time, so the same data gives the same report.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pretrain_archive.data import layout
from pretrain_archive.data.globs import Filter
from pretrain_archive.data.hashing import Progress
from pretrain_archive.data.quality.documents import Shard, read_units
from pretrain_archive.data.quality.suite import Limits, Rule, engine, read_rules, run_rules, standard_rules
from pretrain_archive.data.quality.tables import Tables
from pretrain_archive.data.shards import of_path, of_snapshot
from pretrain_archive.data.snapshots import snapshot_ref
from pretrain_archive.domain.identity import Ref, path_to_text
from pretrain_archive.domain.kinds import QualityGate, QualityReported, SnapshotCreated
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Relation
from pretrain_archive.ledger.canonical import canonical_bytes, digest_of
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.storage.port import ObjectStore

FORMAT = "pretrain-archive/quality-report/1"
STANDARD = "pretrain-archive standard suite 1"


@dataclass(frozen=True, kw_only=True, slots=True)
class QualityResult:
    """What to record and the whole report behind it."""

    payload: QualityReported
    report: dict[str, Any]
    subject: Ref | None = None

    def to_json(self) -> dict[str, Any]:
        """What ``quality check`` prints."""
        names = ("passed", "reason", "snapshot", "documents", "exact_duplicates", "near_duplicates", "gates")
        fields = self.payload.to_json()
        more = ("empty_documents", "format_errors", "not_read", "not_checked")
        return {name: fields[name] for name in names} | {name: self.report[name] for name in more}


def check_quality(
    store: ObjectStore | None,
    *,
    limits: Limits,
    snapshot: SnapshotCreated | None = None,
    path: str | bytes | None = None,
    source_root: str | bytes | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    suite_file: Path | None = None,
    text_field: str = "text",
    progress: Progress | None = None,
) -> QualityResult:
    """Read every document of ``snapshot`` (or of the files at ``path``) and judge the gates.

    ``suite_file`` replaces the standard gates by expectations over the documents table. The report is kept
    in ``store`` under its digest; without a store it is only returned. Raises ``InputError`` for a bad suite
    and ``SourceError`` for data that cannot be read; everything else is a gate that failed.
    """
    rules = standard_rules(limits) if suite_file is None else read_rules(suite_file)
    subject: Ref | None = None
    if snapshot is not None and store is not None:
        subject = snapshot_ref(snapshot)
        about = f"{subject.id}@{subject.version}"
        shards: Iterable[Shard] = (shard for _, shard in of_snapshot(store, snapshot, source_root))
    else:
        root = os.path.realpath(os.fsencode(path or "."))
        about = path_to_text(root)
        shards = of_path(root, Filter(include=tuple(include), exclude=tuple(exclude)))
    tables = _read(shards, text_field, progress)
    gates, reason = _judge(rules, tables)
    suite_name = STANDARD if suite_file is None else suite_file.name
    report = _report(about, suite_name, rules, tables) | {
        "passed": bool(gates) and all(gate.passed for gate in gates),
        "reason": reason,
        "gates": [gate.model_dump(mode="json") for gate in gates],
    }
    return QualityResult(payload=_payload(store, report, gates), report=report, subject=subject)


def record_quality(
    ledger: Ledger,
    result: QualityResult,
    *,
    actor: Actor,
    origin: Origin,
    stream: str,
    attempt: int = 0,
) -> QualityReported:
    """Append ``quality.reported``: the report rests on its snapshot, the run used the report."""
    payload = result.payload
    subject = Ref(type="quality", id=payload.report_digest)
    edges = []
    if result.subject is not None:
        edges.append(Edge(subject=subject, relation=Relation.WAS_DERIVED_FROM, object=result.subject))
    if stream.startswith("run_"):
        edges.append(Edge(subject=Ref(type="run", id=stream), relation=Relation.USED, object=subject))
    draft = Draft(
        stream=stream,
        kind="quality.reported",
        payload=payload.to_json(),
        actor=actor,
        origin=origin,
        attempt=attempt,
        edges=tuple(edges),
    )
    return QualityReported(**ledger.append([draft])[0].payload)


def _read(shards: Iterable[Shard], text_field: str, progress: Progress | None) -> Tables:
    tables, size = Tables(), 0
    for shard in shards:
        tables.add(read_units(shard, text_field=text_field))
        size += shard.size
        if progress is not None:
            progress(tables.shards, size)
    return tables


def _judge(rules: Sequence[Rule], tables: Tables) -> tuple[list[QualityGate], str]:
    """The gates and, if nothing could be judged, the reason."""
    if not rules:
        return [], "nothing was checked: the suite has no rules"
    if not tables.documents:
        reason = f"nothing was checked: no documents in {tables.shards} files"
        gates = [
            QualityGate(name=rule.name, passed=False, observed=None, limit=rule.limit, detail="no data")
            for rule in rules
        ]
        return gates, reason
    gates = run_rules(rules, tables)
    failed = [gate.name for gate in gates if not gate.passed]
    return gates, f"failed: {', '.join(failed)}" if failed else ""


def _report(about: str, suite_name: str, rules: Sequence[Rule], tables: Tables) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "snapshot": about,
        "engine": engine(),
        "suite": {"name": suite_name, "rules": [rule.to_dict() for rule in rules]},
        "files": tables.shards,
        "documents": tables.documents,
        "total_bytes": tables.total_bytes,
        "empty_documents": tables.empty,
        "exact_duplicates": tables.duplicates,
        "near_duplicates": None,
        "unclean_documents": tables.unclean,
        "format_errors": tables.broken,
        # Files without one document that could be read, by kind: they are in no split either.
        "files_read": tables.shards - sum(tables.not_read.values()),
        "not_read": dict(sorted(tables.not_read.items())),
        "domains": [
            {"domain": name, "bytes": tables.domains[name], "share": share}
            for name, share in tables.shares().items()
        ],
        # What was not looked at is told, never counted as passed.
        "not_checked": ["near_duplicates", *([] if _has_mixture(rules) else ["mixture"])],
        "examples": {
            "format_errors": tables.broken_examples,
            "exact_duplicates": tables.duplicate_examples,
            "unclean_documents": tables.unclean_examples,
        },
        "cleanliness": asdict(tables.rules),
    }


def _has_mixture(rules: Sequence[Rule]) -> bool:
    return any(rule.table == "mixture" for rule in rules)


def _payload(store: ObjectStore | None, report: dict[str, Any], gates: list[QualityGate]) -> QualityReported:
    raw = canonical_bytes(report)
    digest = digest_of(report)
    key = layout.content_key("reports", digest, ".json")
    if store is not None:
        store.put_if_absent(key, io.BytesIO(raw))
    return QualityReported(
        snapshot=report["snapshot"],
        suite_name=report["suite"]["name"],
        suite_digest=digest_of(report["suite"]),
        passed=report["passed"],
        documents=report["documents"],
        exact_duplicates=report["exact_duplicates"],
        near_duplicates=None,
        gates=gates,
        report_uri=store.location(key) if store is not None else "",
        report_digest=digest,
        engine=report["engine"],
        reason=report["reason"],
    )
