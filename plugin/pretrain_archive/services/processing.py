"""The processing of a run's data: the policy's steps and the sample that was asked for, then the split."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pretrain_archive import config
from pretrain_archive.data.processing.applying import Applied, Applier, apply_steps, unfinished
from pretrain_archive.data.processing.chooser import NEAR
from pretrain_archive.data.processing.rules import declare, require_in_force, rule_of, rule_ref
from pretrain_archive.data.rebuilding import content_of
from pretrain_archive.data.recipes import Growing
from pretrain_archive.data.scratch import owned, sweep
from pretrain_archive.data.splits import create_split
from pretrain_archive.domain.chains import pool_of
from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.kinds import SnapshotCreated, SplitCreated, TemporaryRemoved
from pretrain_archive.domain.policy import Policy
from pretrain_archive.domain.processing import SplitStep, asked_sample
from pretrain_archive.domain.records import Draft
from pretrain_archive.domain.request import RunRequest
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.progress import every
from pretrain_archive.services.runs import policy_of, request_of, run_of
from pretrain_archive.storage.port import ObjectStore

CONTENT = "pretrain-archive-content-"
"""Temporary folders with a recipe's content."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Processed:
    """What the steps made, in order, the snapshot that goes in, and its split."""

    steps: tuple[Applied, ...]
    snapshot: SnapshotCreated
    split: SplitCreated


def steps_of(policy: Policy, request: RunRequest) -> list[Any]:
    """The steps of a run, without the split: first the sample that the form asks for, then the policy's."""
    steps = [step for step in policy.data.steps if not isinstance(step, SplitStep)]
    if request.sample_share is None:
        return steps
    return [asked_sample(request.sample_share, request.sample_seed), *steps]


def split_step(policy: Policy) -> SplitStep:
    """The rule of the split: the policy's own, completed by its data section."""
    named = next((step for step in policy.data.steps if isinstance(step, SplitStep)), None)
    data = policy.data
    step = named or SplitStep(name="split", version=1, kind="split")
    seed = data.split_seed if step.seed is None else step.seed
    fraction = data.validation_fraction if step.validation_fraction is None else step.validation_fraction
    told = named is not None and "text_field" in named.model_fields_set
    text_field = step.text_field if told else data.quality.text_field
    return step.model_copy(update={"seed": seed, "validation_fraction": fraction, "text_field": text_field})


def process(ledger: Ledger, store: ObjectStore, caller: Caller, run_uid: str) -> Processed:
    """Apply the run's steps to its snapshot and split what comes out.

    A run without steps was split when its snapshot was made: then nothing is done. Steps that were finished by an
    earlier try give the same versions again.
    """
    view = run_of(ledger, caller, run_uid)
    policy, request = policy_of(view), request_of(view)
    found, steps = pool_of(view), steps_of(policy, request)
    if found is None:
        raise RefusedError(f"run {run_uid} has no data snapshot", hint="Run the task 'snapshot' first.")
    pool = found[1]
    if not steps:
        split = view.latest(SplitCreated)
        if split is None:
            raise RefusedError(f"run {run_uid} has no split", hint="Run the task 'snapshot' again.")
        caller.say("the project's policy has no steps of processing: the snapshot goes in as it is")
        return Processed(steps=(), snapshot=pool, split=split)
    applier = Applier(
        ledger=ledger, actor=caller.actor, origin=caller.origin, stream=run_uid, project=policy.project,
        progress=every(caller.say, "processed"), folder=_work(NEAR),
        recipe=Growing(store, pool) if pool.mode == "recipe" else None,
    )  # fmt: skip
    with content(store, pool, caller) as (place, shown):
        made = apply_steps(place, shown, steps, applier, name=request.source_name)
        _tell(caller, made)
        last = made[-1].snapshot
        split = make_split(ledger, place, caller, run_uid, policy, last.model_copy(update={"mode": "copy"}))
    return Processed(steps=tuple(made), snapshot=last, split=split)


@contextmanager
def content(
    store: ObjectStore, snapshot: SnapshotCreated, caller: Caller
) -> Iterator[tuple[ObjectStore, SnapshotCreated]]:
    """A store that holds the snapshot's content while the context lasts: of a recipe it is made for that time.

    What a killed process left of a recipe's content is removed by the next one on the same machine.
    """
    if snapshot.mode != "recipe":
        yield store, snapshot
        return
    with tempfile.TemporaryDirectory(prefix=owned(CONTENT), dir=_work(CONTENT)) as folder:
        yield content_of(store, snapshot, Path(folder), progress=every(caller.say, "rebuilt"))


def _work(prefix: str) -> Path:
    """The folder for large working files, without what killed processes left there under ``prefix``."""
    folder = config.work_folder()
    folder.mkdir(parents=True, exist_ok=True)
    sweep(folder, prefix)
    return folder


def _tell(caller: Caller, made: Sequence[Applied]) -> None:
    for applied in made:
        account = applied.account
        caller.say(
            f"{account.rule.kind} {account.rule.name} v{account.rule.version}: {account.documents_in:,} → "
            f"{account.documents_out:,} documents"
        )


def make_split(  # noqa: PLR0917 - what a run consists of
    ledger: Ledger,
    store: ObjectStore,
    caller: Caller,
    run_uid: str,
    policy: Policy,
    snapshot: SnapshotCreated,
) -> SplitCreated:
    """Split ``snapshot`` by the policy's rule, which is recorded like every other."""
    step = split_step(policy)
    rule = rule_of(step, project=policy.project)
    require_in_force(rule)
    declare(ledger, rule, actor=caller.actor, origin=caller.origin)
    return create_split(
        store, ledger, snapshot=snapshot, seed=step.seed or 0, validation_fraction=step.validation_fraction or 0.0,
        stream=run_uid, actor=caller.actor, origin=caller.origin, rule=str(rule_ref(rule)),
        text_field=step.text_field,
    )  # fmt: skip


def drop_unfinished(
    ledger: Ledger, store: ObjectStore, caller: Caller, run_uid: str
) -> TemporaryRemoved | None:
    """Drop the work files of steps that the run did not bring to their end, and record it; None if there are none."""
    view = run_of(ledger, caller, run_uid, open_only=False)
    if view.opened is None or not view.opened.policy:
        return None
    policy, sources = policy_of(view), [found for _, found in view.all(SnapshotCreated)]
    rules = [rule_of(step, project=policy.project) for step in steps_of(policy, request_of(view))]
    left = {
        info.key: info.size
        for rule in rules
        for source in sources
        for info in unfinished(store, rule, source)
    }
    if not left:
        return None
    for key in left:
        store.delete(key)
    payload = TemporaryRemoved(
        paths=sorted({store.location(key).rpartition("/")[0] for key in left}), bytes_released=sum(left.values()),
        verified_absent=all(store.stat(key) is None for key in left),
    )  # fmt: skip
    before = ledger.records(streams=[run_uid], kinds=["temporary.removed"])
    ledger.append([
        Draft(stream=run_uid, kind="temporary.removed", payload=payload.to_json(), actor=caller.actor,
              origin=caller.origin, ordinal=sum(record.origin == caller.origin for record in before))
    ])  # fmt: skip
    return payload
