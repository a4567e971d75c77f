"""The run's lineage as OpenLineage events, one JSON document a line: derived from records, the same every time.

Specification: https://openlineage.io/spec/2-0-2/OpenLineage.json (a run has one START and then one of COMPLETE,
ABORT and FAIL) and its facets ParentRunFacet 1-0-1, DatasetVersionDatasetFacet 1-0-1, ErrorMessageRunFacet 1-0-1.

Each try of a task is a lineage run of its own: its id is a UUID (RFC 9562 version 5) over the DAG run, the task, the
map index and the number of the try, so that a retry or a clear never adds to what has ended, and an export that is
made again names the same. Its parent is the DAG run. A try gets its end only once it can write nothing more: a
later try of the same task began, its failure was recorded, or the run is closed; what it wrote after that is left
out. So a later export holds every event of an earlier one, and further ones.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pretrain_archive.domain import kinds
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.records import Record, Relation
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.package.tries import AirflowTry, by_tasks

SPEC = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
FACETS = "https://openlineage.io/spec/facets/1-0-1"
PRODUCER = "https://openlineage.io/spec/producer/pretrain-archive"
"""Names the program that made the events; no page is behind it."""
NAMESPACE = "pretrain-archive"
"""Of data sets; jobs stand in that of their project."""
IDS = uuid.UUID("6f0c2f0e-3b7a-5d0e-9a52-1d8c1f6a7be4")
"""The name space of our version 5 UUIDs: any fixed value; another one would make other ids."""

DATA = {
    "source",
    "snapshot",
    "split",
    "rule",
    "checkpoint",
    "evaluation",
    "sample",
    "release",
    "candidate",
    "package",
}
"""What counts as a data set of a task: things with a version, and no persons, decisions or runs."""

UNFINISHED = {
    "attempt.started", "change.recorded", "environment.observed", "evaluation.failed", "evaluation.started",
    "event.recorded", "gate.dossier", "gate.refused", "human_evaluation.refused", "human_evaluation.sampled",
    "job.created", "labels.refused", "labels.sampled", "launch.intended", "member.observed", "metrics.recorded",
    "note.added", "stop.fired", "wait.observed",
}  # fmt: skip
"""Kinds that a task writes on its way: a try with nothing else did not come to its end."""

Event = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Run:
    """A lineage run: a task's try with its records, or one that only Airflow's list tells of."""

    task_id: str
    map_index: int
    try_number: int
    records: tuple[Record, ...] = ()
    listed: AirflowTry | None = None
    over: bool = False

    @property
    def span(self) -> tuple[str, str]:
        """From its first to its last record, or as Airflow's list says; empty where nobody knows."""
        if self.records:
            return self.records[0].recorded_at, self.records[-1].recorded_at
        return (self.listed.started or "", self.listed.ended or "") if self.listed else ("", "")


def lineage_id(*parts: str | int) -> str:
    """The lineage id of a DAG run (namespace, ``dag_id``, ``dag_run_id``) or of a try (and task, map index, number)."""
    return str(uuid.uuid5(IDS, "\x1f".join(map(str, parts))))


def lineage_lines(view: RunView, *, closing: bool = False, history: Sequence[AirflowTry] = ()) -> bytes:
    """The events as JSON Lines; empty for a run that was never opened.

    ``closing`` says that the run is being closed: every other task has written what it will write. ``history`` is
    Airflow's own list of tries, for those that left no record here.
    """
    told = (
        json.dumps(event, sort_keys=True) for event in lineage_events(view, closing=closing, history=history)
    )
    return "".join(line + "\n" for line in told).encode()


def lineage_events(
    view: RunView, *, closing: bool = False, history: Sequence[AirflowTry] = ()
) -> list[Event]:
    """The events, by time; the START of a lineage run stands before its end."""
    if view.opened is None:
        return []
    versions = dict(_versions(view))
    found = [*_of_dag_run(view)]
    for run in _runs(view, history, closing=closing):
        found += _of_try(view, run, versions)
    return sorted(found, key=lambda event: (event["eventTime"], event["eventType"] != "START"))


def _runs(view: RunView, history: Sequence[AirflowTry], *, closing: bool) -> list[_Run]:
    """Tries by task and number: those with records, and those that Airflow lists with a start."""
    records: dict[tuple[str, int, int], list[Record]] = {}
    for record in by_tasks(view):
        origin = record.origin
        records.setdefault((origin.task_id, origin.map_index, origin.try_number), []).append(record)
    rows = {(row.task_id, row.map_index, row.try_number): row for row in history if row.started}
    closed = next((r.position for r in view.records if r.kind == "run.closed"), None)
    found, later = list[_Run](), dict[tuple[str, int], int | None]()
    for key in sorted({*records, *rows}, reverse=True):
        mine, row, task = records.get(key, []), rows.get(key), key[:2]
        closes = any(record.kind == "release.made" for record in mine)
        until = [r.position for r in mine if r.kind == "run.failed"][:1]
        until += [at - 1 for at in [later.get(task)] if at is not None]
        until += [closed] if closed is not None and mine and mine[0].position <= closed else []
        until += [mine[-1].position] if closing and mine and not closes else []
        over = bool(until) or (not mine and row is not None and row.ended is not None)
        kept = tuple(record for record in mine if not until or record.position <= min(until))
        found.append(
            _Run(
                task_id=key[0], map_index=key[1], try_number=key[2], records=kept or tuple(mine), listed=row, over=over
            )
        )  # fmt: skip
        later[task] = mine[0].position if mine else later.get(task)
    return found[::-1]


def _of_dag_run(view: RunView) -> Iterator[Event]:
    """START when the run was opened, COMPLETE when it was closed: a failed DAG run may still be cleared and go on."""
    opened = view.opened
    assert opened is not None
    place = f"{NAMESPACE}/{opened.project}"
    run = {"runId": lineage_id(place, opened.dag_id, opened.dag_run_id), "facets": {}}
    job = {"namespace": place, "name": opened.dag_id, "facets": {}}
    for kind, state in (("run.opened", "START"), ("run.closed", "COMPLETE")):
        record = next((r for r in view.records if r.kind == kind), None)
        if record is not None:
            yield _event(state, record.recorded_at, run, job, ([], []))


def _of_try(view: RunView, run: _Run, versions: dict[str, str]) -> Iterator[Event]:
    """START and, once it can write nothing more, the end of one try with what it read and made."""
    opened = view.opened
    assert opened is not None
    place = f"{NAMESPACE}/{opened.project}"
    parent = {
        **_facet("ParentRunFacet"),
        "run": {"runId": lineage_id(place, opened.dag_id, opened.dag_run_id)},
        "job": {"namespace": place, "name": opened.dag_id},
    }
    task = (opened.dag_id, opened.dag_run_id, run.task_id, run.map_index, run.try_number)
    named = {"runId": lineage_id(place, *task), "facets": {"parent": parent}}
    job = {"namespace": place, "name": f"{opened.dag_id}.{run.task_id}", "facets": {}}
    first, last = run.span
    yield _event("START", first, named, job, ([], []))
    if not run.over or not last:
        return
    state, message = _end(run)
    if message:
        told = {**_facet("ErrorMessageRunFacet"), "message": message, "programmingLanguage": "PYTHON"}
        named = {**named, "facets": {"parent": parent, "errorMessage": told}}
    yield _event(state, last, named, job, _data_sets(run.records, versions))


def _end(run: _Run) -> tuple[str, str]:
    """How a try that is over ended, and the message of a failure."""
    failure = next((r for r in run.records if r.kind == "run.failed"), None)
    if failure is not None:
        return "FAIL", str(failure.payload.get("reason") or "unrecorded")
    if not run.records:
        state = run.listed.state if run.listed else "unrecorded"
        return (
            ("COMPLETE", "") if state == "success" else ("FAIL", f"{state}: nothing was recorded by this try")
        )
    last = next(
        (r for r in reversed(run.records) if r.kind in {"attempt.ended", "gate.decision", "gate.expired"}),
        None,
    )
    if last is not None and last.kind == "attempt.ended" and last.payload.get("state") != "completed":
        return "FAIL", str(last.payload.get("reason") or "unrecorded")
    if last is not None and (
        last.kind == "gate.expired" or last.payload.get("decision", "approve") != "approve"
    ):
        return "FAIL", str(last.payload.get("reason") or last.kind)
    if all(record.kind in UNFINISHED for record in run.records):
        told = next((r.payload for r in reversed(run.records) if r.kind == "evaluation.failed"), None)
        return ("FAIL", str(told.get("detail"))) if told else ("ABORT", "the try left no result")
    return "COMPLETE", ""


def _data_sets(records: Sequence[Record], versions: dict[str, str]) -> tuple[list[Event], list[Event]]:
    """What a try read and what it made, from the edges of its own records."""
    read: dict[str, Ref] = {}
    made: dict[str, Ref] = {}
    for edge in (edge for record in records for edge in record.edges):
        if edge.relation is Relation.USED:
            read[str(edge.object)] = edge.object
        elif edge.relation is Relation.WAS_DERIVED_FROM:
            made[str(edge.subject)] = edge.subject
            read[str(edge.object)] = edge.object
        elif edge.relation is Relation.WAS_GENERATED_BY:
            made[str(edge.subject)] = edge.subject
    inputs = [
        _data_set(ref, versions)
        for name, ref in sorted(read.items())
        if ref.type in DATA and name not in made
    ]
    return inputs, [_data_set(ref, versions) for _, ref in sorted(made.items()) if ref.type in DATA]


def _data_set(ref: Ref, versions: dict[str, str]) -> Event:
    """A thing as a data set; its version is the digest that our records name, and is left out where none does."""
    digest = versions.get(str(ref)) or (ref.version if ref.version.startswith("sha256:") else "")
    if not digest and ref.id.startswith("sha256:"):
        digest = ref.id
    facets = {"version": {**_facet("DatasetVersionDatasetFacet"), "datasetVersion": digest}} if digest else {}
    name = f"{ref.type}/{ref.id}" + (
        f"@{ref.version}" if ref.version and not ref.version.startswith("sha256:") else ""
    )
    return {"namespace": NAMESPACE, "name": name, "facets": facets}


def _versions(view: RunView) -> Iterator[tuple[str, str]]:
    """The digest behind each thing that the run's records pin by a name."""
    for _, snapshot in view.all(kinds.SnapshotCreated):
        yield f"snapshot:{snapshot.name}@{snapshot.version}", snapshot.manifest_digest
    for _, checkpoint in view.all(kinds.CheckpointRegistered):
        yield f"checkpoint:{checkpoint.checkpoint_id}", checkpoint.digest
    for record, report in view.all(kinds.EvaluationReported):
        yield from (
            (str(e.subject), report.report_digest) for e in record.edges if e.subject.type == "evaluation"
        )


def _facet(name: str) -> Event:
    return {"_producer": PRODUCER, "_schemaURL": f"{FACETS}/{name}.json#/$defs/{name}"}


def _event(state: str, at: str, run: Event, job: Event, data: tuple[list[Event], list[Event]]) -> Event:
    return {
        "eventType": state, "eventTime": at, "run": run, "job": job, "inputs": data[0], "outputs": data[1],
        "producer": PRODUCER, "schemaURL": SPEC,
    }  # fmt: skip
