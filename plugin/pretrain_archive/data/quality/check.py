"""Check the quality of a snapshot or a folder, keep report, page and evidence, and record the result.

A check that looked at nothing has failed: no documents, or no rules, is never a pass. The report is strict
JSON, holds no text of the data and no time, so the same data gives the same report.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, BinaryIO

from pretrain_archive.data import layout
from pretrain_archive.data.globs import Filter
from pretrain_archive.data.hashing import Progress, expect
from pretrain_archive.data.quality.asking import (
    Source,
    asked_suite,
    expect_files,
    files_at,
    folders_of,
    measures_of,
    present_of,
)
from pretrain_archive.data.quality.documents import Shard
from pretrain_archive.data.quality.facts import Inputs
from pretrain_archive.data.quality.judging.expectations import check_rules
from pretrain_archive.data.quality.judging.gates import payload_gates
from pretrain_archive.data.quality.labels import Definition
from pretrain_archive.data.quality.reporting import Asked, judge, moved, report_of, validation_of
from pretrain_archive.data.quality.suite import Limits
from pretrain_archive.data.shards import of_snapshot
from pretrain_archive.data.snapshots import snapshot_ref
from pretrain_archive.data.tree import Place, Tree
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.kinds import QualityReported, SnapshotCreated
from pretrain_archive.domain.policy import Quality
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Relation
from pretrain_archive.ledger.canonical import canonical_bytes
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.storage.port import ObjectStore


@dataclass(frozen=True, kw_only=True, slots=True)
class QualityResult:
    """What to record, the whole report behind it, its page and the library's own result."""

    payload: QualityReported
    report: dict[str, Any]
    page: bytes = b""
    validation: dict[str, Any] | None = None
    subject: Ref | None = None

    def to_json(self) -> dict[str, Any]:
        """What ``quality check`` prints; ``examples`` locate what was found, a bounded number of each kind."""
        names = ("passed", "reason", "snapshot", "documents", "exact_duplicates", "near_duplicates", "gates")
        fields = self.payload.to_json()
        more = ("empty_documents", "format_errors", "not_read", "not_checked", "warnings", "examples")
        return {name: fields[name] for name in names} | {name: self.report[name] for name in more}


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """What the data are held against beside the suite's limits.

    ``others`` are sets that must not be in the data and ``parent`` is an earlier version, each as a function that lists
    its files; ``validation`` is the part that the data hold out; ``before`` is the report of the earlier version;
    ``labels`` define what the data's label field may say. ``numbers`` are aggregates that were counted elsewhere and
    ``present`` what rules may need because of them.
    """

    others: Mapping[str, Source] | None = None
    parent: Source | None = None
    before: Mapping[str, Any] | None = None
    validation: Source | None = None
    labels: Definition | None = None
    label_field: str = "label"
    numbers: Mapping[str, float] | None = None
    present: frozenset[str] = frozenset()


def check_quality(
    store: ObjectStore | None,
    *,
    limits: Limits,
    snapshot: SnapshotCreated | None = None,
    path: str | bytes | Tree | None = None,
    source_root: Place | None = None,
    read_from: ObjectStore | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    suite_file: Path | None = None,
    quality: Quality | None = None,
    compared: Compared = Compared(),
    language: str = "en",
    work: Path | None = None,
    progress: Progress | None = None,
) -> QualityResult:
    """Read every document of ``snapshot`` (or at ``path``: a folder, a file or a tree) and judge the gates.

    ``quality`` is the policy's section; ``suite_file`` replaces its suite. Report, page and evidence are kept in
    ``store`` under their digests; without a store they are only returned. The snapshot's bytes are those of ``store``
    too, or of ``read_from``. ``work`` is a folder for what is measured,
    from which a killed check goes on. Raises ``InputError`` for a bad suite and ``SourceError`` for data that cannot be
    read; everything else is a gate that failed.
    """
    settings = quality or Quality()
    suite = asked_suite(settings, limits, suite_file)
    check_rules(suite.rules, suite.thresholds)
    subject: Ref | None = None
    if snapshot is not None and store is not None:
        subject = snapshot_ref(snapshot)
        about = f"{subject.id}@{subject.version}"
        expect(progress, snapshot.file_count, snapshot.total_bytes)
        shards: Source = partial(_of_snapshot, read_from or store, snapshot, source_root, settings.engine)
    else:
        chosen = Filter(include=tuple(include), exclude=tuple(exclude))
        about, shards = files_at("." if path is None else path, chosen)
        expect_files(progress, shards)
    others = {**folders_of(settings.benchmarks), **(compared.others or {})}
    has = present_of(settings, others=bool(others), parent=compared.parent is not None)
    measures = measures_of(settings, compared.label_field)
    asked = Asked(
        about=about,
        suite=suite,
        mixture=limits.mixture,
        unit=settings.mixture_unit,
        present=has
        | compared.present
        | ({"labels"} if compared.labels is not None else set())
        | ({"split"} if compared.validation is not None else set()),
        labels=compared.labels,
        computed_on=settings.engine,
        numbers=compared.numbers or {},
        settings={} if measures.sensitive is None else {"sensitive": measures.sensitive.to_json()},
    )
    with _folder(work) as folder:
        inputs = Inputs(
            shards=shards, measures=measures, suite=suite, work=folder,
            others=others,
            parent=compared.parent, validation=compared.validation, progress=progress, master=settings.spark_master,
        )  # fmt: skip
        report, validation = _judged(inputs, asked, compared.before)
    return _kept(store, report, validation, language, subject)


def _judged(
    inputs: Inputs, asked: Asked, before: Mapping[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The report and the library's own result; what was measured is read from the working folder."""
    if asked.computed_on == "spark":
        from pretrain_archive.data.quality.engines.spark import measure_spark as measure  # noqa: PLC0415
    else:
        from pretrain_archive.data.quality.engines.local import measure_local as measure  # noqa: PLC0415
    with measure(inputs) as (facts, plan):
        gates, unasked, answers = judge(facts, asked, plan)
        report = report_of(facts, asked, plan, gates, unasked)
    if before is not None:
        report["moved"] = moved(before, report)
    return report, validation_of(answers, report["suite_digest"])


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


def _of_snapshot(
    store: ObjectStore, snapshot: SnapshotCreated, source_root: Place | None, engine: str
) -> Iterator[Shard]:
    url = store.location("x")[:-1]
    for entry, shard in of_snapshot(store, snapshot, source_root):
        if engine == "spark" and snapshot.mode != "reference":
            # A store cannot be sent to another machine, its address can.
            yield replace(shard, open=partial(_opened_at, url, layout.blob_key(entry.sha256)))
        else:
            yield shard


def _opened_at(url: str, key: str) -> BinaryIO:
    return _store_at(url).open(key)


@cache
def _store_at(url: str) -> ObjectStore:
    from pretrain_archive.storage.factory import open_store  # noqa: PLC0415

    return open_store(url)


@contextmanager
def _folder(work: Path | None) -> Iterator[Path]:
    """The working folder: the given one stays for the next try, else one that is taken away."""
    if work is not None:
        work.mkdir(parents=True, exist_ok=True)
        yield work
        return
    with tempfile.TemporaryDirectory(prefix="pretrain-archive-quality-") as name:
        yield Path(name)


def _kept(
    store: ObjectStore | None,
    report: dict[str, Any],
    validation: dict[str, Any],
    language: str,
    subject: Ref | None,
) -> QualityResult:
    from pretrain_archive.data.quality.report.page import render_page  # noqa: PLC0415

    page = render_page(report, language=language)
    report_uri, report_digest = _put(store, canonical_bytes(report), ".json")
    html_uri, html_digest = _put(store, page, ".html")
    validation_uri, validation_digest = _put(store, canonical_bytes(validation), ".json")
    found = report["contamination"]
    payload = QualityReported(
        snapshot=report["snapshot"],
        suite_name=report["suite"]["name"],
        suite_version=report["suite"]["version"],
        suite_digest=report["suite_digest"],
        passed=report["passed"],
        documents=report["documents"],
        exact_duplicates=report["exact_duplicates"],
        near_duplicates=report["near_duplicates"],
        contamination=None if found is None else sum(one["documents"] for one in found),
        warnings=report["warnings"],
        gates=payload_gates(report["gates"]),
        report_uri=report_uri,
        report_digest=report_digest,
        html_uri=html_uri,
        html_digest=html_digest,
        validation_uri=validation_uri,
        validation_digest=validation_digest,
        engine=report["engine"],
        reason=report["reason"],
    )
    return QualityResult(payload=payload, report=report, page=page, validation=validation, subject=subject)


def _put(store: ObjectStore | None, raw: bytes, ending: str) -> tuple[str, str]:
    """Keep bytes under their digest; where they are (empty without a store) and the digest."""
    digest = "sha256:" + hashlib.sha256(raw).hexdigest()
    key = layout.content_key("reports", digest, ending)
    if store is None:
        return "", digest
    store.put_if_absent(key, io.BytesIO(raw))
    return store.location(key), digest
