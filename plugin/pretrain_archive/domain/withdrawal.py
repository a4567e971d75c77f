"""What a source's withdrawal touches, and whom to tell: pure, from what the ledger reached and its records.

Everything is named at its pinned version, with the thing through which it rests on the source (``because``).
Details come from records; what was reached and has no readable record is still listed by its reference.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pretrain_archive.domain import kinds
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import STATE_KINDS, RunView
from pretrain_archive.domain.source_rights import Standing

LISTED = {
    "snapshot": "snapshots", "split": "splits", "run": "runs", "checkpoint": "checkpoints",
    "evaluation": "evaluations", "candidate": "candidates", "release": "releases", "package": "packages",
    "decision": "decisions",
}  # fmt: skip
"""Type of a reference → the list it stands in, in reading order."""

RUN_KINDS = (
    *STATE_KINDS, "split.created", "checkpoint.registered", "evaluation.reported", "candidate.named", "release.made",
    "tombstone.written",
)  # fmt: skip
"""The kinds whose records tell the details of what belongs to a run."""

Entry = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Touched:
    """The lists by name (the values of :data:`LISTED`), people by what they are, and whether all was followed.

    ``beside`` are other sources that are registered at the same address: they are not withdrawn with this one.
    """

    source: Standing
    lists: Mapping[str, list[Entry]]
    people: Mapping[str, list[str]]
    truncated: bool = False
    beside: tuple[Standing, ...] = ()

    def everybody(self) -> list[str]:
        """Each person once."""
        return sorted({name for names in self.people.values() for name in names})

    def to_json(self, *, dry_run: bool) -> dict[str, Any]:
        """The report as plain JSON; ``withdrawn`` is null where the source is not withdrawn."""
        return {
            "source": source_document(self.source),
            **{name: self.lists.get(name, []) for name in LISTED.values()},
            "people": dict(self.people),
            "withdrawn": withdrawal_document(self.source),
            "same_address": [
                {"source_id": other.source_id, "name": other.name, "withdrawn": other.withdrawal is not None}
                for other in self.beside
            ],
            "truncated": self.truncated,
            "dry_run": dry_run,
        }


def source_document(source: Standing) -> dict[str, Any]:
    """A source with its newest registration, who may read it, and in which runs it was registered."""
    fact = source.registered
    return {
        "source_id": source.source_id,
        **(fact.to_json() if fact else {}),
        "registered_at": source.registrations[-1][0].recorded_at if source.registrations else None,
        "registered_in": [record.stream for record, _ in source.registrations],
        "granted_at": source.granted_at(),
        "permitted": source.permitted() or None,
        "access": [{**fact.to_json(), "record_id": record.record_id} for record, fact in source.accesses],
        "revoked": source.revoked() or None,
    }


def withdrawal_document(source: Standing) -> dict[str, Any] | None:
    """When, why and by whom the source was withdrawn; None if it was not."""
    if source.withdrawal is None:
        return None
    record, fact = source.withdrawal
    return {"at": fact.at, "by": fact.by, "reason": fact.reason, "record_id": record.record_id}


@dataclass(slots=True)
class _Details:
    """What the records say of each reference."""

    of: dict[str, Entry] = field(default_factory=lambda: defaultdict(dict))

    def put(self, ref: str, **facts: Any) -> None:
        self.of[ref] |= facts


def touched(
    source: Standing, *, reached: Mapping[Ref, Ref], records: Iterable[Record], truncated: bool
) -> Touched:
    """Build the report: ``reached`` maps each thing to the one before it, ``records`` are all that may tell details."""
    by_stream: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_stream[record.stream].append(record)
    details = _Details()
    for stream, found in by_stream.items():
        _read(details, RunView.of(stream, sorted(found, key=lambda r: r.position)))
    lists: dict[str, list[Entry]] = {name: [] for name in LISTED.values()}
    for ref, before in reached.items():
        if (name := LISTED.get(ref.type)) is not None:
            lists[name].append({"id": str(ref), "because": str(before), **details.of.get(str(ref), {})})
    runs = {ref.id for ref in reached if ref.type == "run"}
    views = [RunView.of(uid, by_stream.get(uid, ())) for uid in sorted(runs)]
    people = _people(source, views)
    return Touched(source=source, lists=lists, people=people, truncated=truncated)


def _read(details: _Details, view: RunView) -> None:
    """Collect what one stream tells."""
    for _, snapshot in view.all(kinds.SnapshotCreated):
        details.put(f"snapshot:{snapshot.name}@{snapshot.version}", name=snapshot.name, version=snapshot.version,
                    manifest_digest=snapshot.manifest_digest, files=snapshot.file_count,
                    total_bytes=snapshot.total_bytes, mode=snapshot.mode)  # fmt: skip
    for _, split in view.all(kinds.SplitCreated):
        details.put(f"split:{split.split_digest}", snapshot=split.snapshot, train_documents=split.train_documents,
                    validation_documents=split.validation_documents)  # fmt: skip
    if (opened := view.opened) is not None:
        details.put(f"run:{view.run_uid}", run=view.run_uid, project=opened.project, submitter=opened.submitter,
                    objective=opened.purpose.objective if opened.purpose else None, state=view.state,
                    dag_run_id=opened.dag_run_id)  # fmt: skip
        _read_artifacts(details, view)


def _read_artifacts(details: _Details, view: RunView) -> None:
    gone = {fact.ref for _, fact in view.all(kinds.TombstoneWritten) if not fact.parts}
    run = view.run_uid
    for _, checkpoint in view.all(kinds.CheckpointRegistered):
        ref = f"checkpoint:{checkpoint.checkpoint_id}"
        details.put(ref, run=run, step=checkpoint.step, digest=checkpoint.digest, deleted=ref in gone,
                    location=checkpoint.location)  # fmt: skip
    for _, report in view.all(kinds.EvaluationReported):
        details.put(f"evaluation:{report.evaluation_id}", run=run, data_set=report.data_set)
    for _, candidate in view.all(kinds.CandidateNamed):
        details.put(f"candidate:{candidate.candidate_id}", run=run, digest=candidate.checkpoint_digest)
    for record, release in view.all(kinds.ReleaseMade):
        for edge in record.edges:
            if edge.subject.type == "release":
                details.put(str(edge.subject), run=run, name=release.name, version=release.version)
    for _, package in view.all(kinds.PackageWritten):
        details.put(str(Ref(type="package", id=run, version=package.digest)), run=run, digest=package.digest,
                    location=package.location)  # fmt: skip
    for _, decision in view.all(kinds.GateDecision):
        this = Ref(type="decision", id=f"{run}/{decision.gate}", version=decision.dossier_digest[7:])
        details.put(str(this), run=run, gate=decision.gate, decision=decision.decision, person=decision.person_name,
                    at=decision.responded_at)  # fmt: skip


def _people(source: Standing, views: list[RunView]) -> dict[str, list[str]]:
    """Whom to tell, by what they are: for the source, for the runs, at the gates, in the recorded policies."""
    groups: dict[str, set[str]] = defaultdict(set)
    for _, fact in source.registrations:
        groups["owner"].add(fact.owner)
        groups["responsible"].add(fact.responsible)
    for view in views:
        if (opened := view.opened) is None:
            continue
        groups["submitter"].add(opened.submitter or "")
        groups["approver"] |= {decision.person_name for _, decision in view.all(kinds.GateDecision)}
        for role, name in opened.people.items():
            groups[role].add(name)
    return {group: sorted(names - {""}) for group, names in groups.items() if names - {""}}
