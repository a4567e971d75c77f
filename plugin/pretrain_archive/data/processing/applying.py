"""Apply rules to a snapshot: each makes the next snapshot, with its account in the ledger."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pretrain_archive.data import layout
from pretrain_archive.data.hashing import Progress
from pretrain_archive.data.processing.engine import Outcome, Work, forget, run_step
from pretrain_archive.data.processing.rewriting import memo_folder
from pretrain_archive.data.processing.rules import code_version, declare, require_in_force, rule_of, rule_ref
from pretrain_archive.data.processing.versions import publish
from pretrain_archive.data.snapshots import manifest_key, snapshot_ref
from pretrain_archive.data.tree import Place
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.kinds import DroppedCount, ProcessingApplied, RuleDeclared, SnapshotCreated
from pretrain_archive.domain.processing import output_of
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Relation
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.storage.port import ObjectInfo, ObjectStore


@dataclass(frozen=True, kw_only=True, slots=True)
class Applied:
    """One application: the new snapshot and its account."""

    snapshot: SnapshotCreated
    account: ProcessingApplied


@dataclass(frozen=True, kw_only=True)
class Applier:
    """Who applies rules, for which project, and where it is recorded.

    ``stream`` is the run's uid or ``data/NAME``; ``ledger`` None records nothing (a rebuild in a scratch store).
    With ``recipe`` the snapshots are recipes: it is given rule and manifest digest of each, in order, and returns the
    fields that name its recipe. ``folder`` is for large working files; None is the system's own.
    """

    ledger: Ledger | None
    actor: Actor
    origin: Origin
    stream: str = ""
    project: str = ""
    attempt: int = 0
    progress: Progress | None = None
    recipe: Callable[[RuleDeclared, str], dict[str, Any]] | None = None
    folder: Path | None = None


def apply_steps(
    store: ObjectStore, snapshot: SnapshotCreated, steps: Sequence[Any], applier: Applier, *,
    name: str = "", source_root: Place | None = None,
) -> list[Applied]:  # fmt: skip
    """Apply ``steps`` (without a split) one after another; return what each made, in order.

    Snapshots are called ``NAME.OUTPUT``, by default after the input. All rules must be in force before the first
    byte is read. A step that was killed leaves no version; the next try uses its finished lists of documents.
    """
    rules = [rule_of(step, project=applier.project) for step in steps]
    for rule, step in zip(rules, steps, strict=True):
        require_in_force(rule)
        layout.check_name(f"{name or snapshot.name}.{output_of(step)}")
    made: list[Applied] = []
    now, root = snapshot, source_root
    for number, (rule, step) in enumerate(zip(rules, steps, strict=True)):
        work = Work(
            store=store, snapshot=now, source_root=root, progress=applier.progress, folder=applier.folder
        )
        applied = _apply(
            work, step, rule, applier, name=f"{name or snapshot.name}.{output_of(step)}", ordinal=number
        )
        made.append(applied)
        # What a step made lies in ``store``, also where it will be kept as a recipe only.
        now, root = applied.snapshot.model_copy(update={"mode": "copy"}), None
    return made


def _apply(
    work: Work, step: Any, rule: RuleDeclared, applier: Applier, *, name: str, ordinal: int
) -> Applied:
    source = work.snapshot
    application = application_of(rule, source)
    first = None
    if applier.ledger is not None:
        first = declare(applier.ledger, rule, actor=applier.actor, origin=applier.origin)
    outcome = run_step(work, step, application=application)
    with outcome.built.file:
        made = publish(
            work.store, _wish(work.store, applier, source, rule, outcome, name), outcome.built.file
        )
    forget(work, application)
    account = _account(work.store, source, made, rule, outcome, first)
    if applier.ledger is not None:
        made = _record(applier, source, made, account, ordinal)
    return Applied(snapshot=made, account=account)


def _wish(  # noqa: PLR0917 - one call
    store: ObjectStore,
    applier: Applier,
    source: SnapshotCreated,
    rule: RuleDeclared,
    outcome: Outcome,
    name: str,
) -> SnapshotCreated:
    header = outcome.built.header
    recipe: dict[str, Any] = {"mode": "copy"}
    if applier.recipe is not None:
        recipe = {"mode": "recipe", **applier.recipe(rule, outcome.built.digest)}
    return SnapshotCreated(
        name=name, version=1, manifest_digest=outcome.built.digest,
        manifest_uri=store.location(manifest_key(outcome.built.digest)), file_count=header.files,
        total_bytes=header.total_bytes, parent=None, unchanged=False, source_id=source.source_id,
        source_uri=str(snapshot_ref(source)), check="made from its input by the rule; new bytes hashed with SHA-256",
        derived_from=str(snapshot_ref(source)), rule=str(rule_ref(rule)), **recipe,
    )  # fmt: skip


def _account(  # noqa: PLR0917 - one call
    store: ObjectStore, source: SnapshotCreated, made: SnapshotCreated, rule: RuleDeclared, outcome: Outcome,
    first: str | None,
) -> ProcessingApplied:  # fmt: skip
    counts = outcome.counts
    return ProcessingApplied(
        rule=rule, first_applied_at=first, code_version=code_version(), codecs=outcome.codecs,
        input=str(snapshot_ref(source)), input_digest=source.manifest_digest, output=str(snapshot_ref(made)),
        output_digest=made.manifest_digest, files_in=outcome.files_in, files_out=outcome.built.header.files,
        documents_in=counts.documents_in, documents_out=counts.documents_out, bytes_in=counts.bytes_in,
        bytes_out=counts.bytes_out, bytes_rewritten=counts.bytes_rewritten,
        changed_documents=counts.changed_documents,
        dropped=[
            DroppedCount(reason=reason, documents=counts.dropped[reason], bytes=size)
            for reason, size in sorted(counts.dropped_bytes.items())
        ],
        dropped_uri=store.location(outcome.dropped_key), dropped_digest=outcome.dropped_digest,
        observed=outcome.observed,
    )  # fmt: skip


def application_of(rule: RuleDeclared, source: SnapshotCreated) -> str:
    """What an application of ``rule`` to ``source`` is called while it is under way."""
    return digest_of({"rule": rule.rule_digest, "input": source.manifest_digest})


def unfinished(store: ObjectStore, rule: RuleDeclared, source: SnapshotCreated) -> list[ObjectInfo]:
    """The work files that an application left which has not come to its end."""
    return list(store.list(memo_folder(application_of(rule, source))))


def edges_of(account: ProcessingApplied, stream: str) -> tuple[Edge, ...]:
    """The output rests on its input and on the rule; a run used both."""
    output, given, rule = Ref.parse(account.output), Ref.parse(account.input), rule_ref(account.rule)
    found = [
        Edge(subject=output, relation=Relation.WAS_DERIVED_FROM, object=thing) for thing in (given, rule)
    ]
    if stream.startswith("run_"):
        found += [Edge(subject=Ref(type="run", id=stream), relation=Relation.USED, object=rule)]
    return tuple(found)


def _record(
    applier: Applier, source: SnapshotCreated, made: SnapshotCreated, account: ProcessingApplied, ordinal: int
) -> SnapshotCreated:
    """Append snapshot and account in one transaction; a retried try finds what it wrote before."""
    assert applier.ledger is not None
    stream = applier.stream or f"data/{made.name}"
    for record in applier.ledger.records(streams=[stream], kinds=["snapshot.created"]):
        same = (record.origin, record.attempt, record.ordinal) == (applier.origin, applier.attempt, ordinal)
        if same and snapshot_ref(before := SnapshotCreated(**record.payload)) == snapshot_ref(made):
            made = before
    subject = snapshot_ref(made)
    edges = [Edge(subject=subject, relation=Relation.WAS_DERIVED_FROM, object=snapshot_ref(source))]
    if stream.startswith("run_"):
        edges.append(Edge(subject=Ref(type="run", id=stream), relation=Relation.USED, object=subject))
    draft = partial(
        Draft,
        stream=stream,
        actor=applier.actor,
        origin=applier.origin,
        attempt=applier.attempt,
        ordinal=ordinal,
    )
    applier.ledger.append([
        draft(kind="snapshot.created", payload=made.to_json(), edges=tuple(edges)),
        draft(kind="processing.applied", payload=account.to_json(), edges=edges_of(account, stream)),
    ])  # fmt: skip
    return made
