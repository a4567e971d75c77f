"""The prepare gate's item on processing: the chain of snapshots against the policy's steps (R042–R044)."""

from __future__ import annotations

from typing import Any

from pretrain_archive.domain import kinds
from pretrain_archive.domain.chains import chain_of, name_of, pool_of, told
from pretrain_archive.domain.checklists.common import item, last, names_snapshot
from pretrain_archive.domain.policy import Policy
from pretrain_archive.domain.processing import asked_sample
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item


def processing(view: RunView, policy: Policy) -> Item:
    """Every step of the policy was applied, in order, from the pool to this snapshot, and it was split (R042–R044)."""
    snapshot_record, snapshot = last(view, kinds.SnapshotCreated)
    record, split = last(view, kinds.SplitCreated)
    chain = chain_of(view)
    holds: bool | None = None
    found = ""
    if split is not None and snapshot is not None:
        problem = _steps_missed(view, policy)
        holds = names_snapshot(split.snapshot, snapshot) and split.train_documents > 0 and not problem
        parts = f"{split.train_documents:,} train, {split.validation_documents:,} validation documents"
        if split.left_out:
            left = ", ".join(f"{count:,} {kind}" for kind, count in sorted(split.left_out.items()))
            parts += f" (in neither: {left})"
        found = ". ".join([*(told(account) for _, account in chain), parts, *([problem] if problem else [])])
    return item(
        "prepare.processing",
        "data",
        evidence=(snapshot_record, *(link for link, _ in chain), record),
        holds=holds,
        found=found,
        check="the policy's steps lead by recorded rules from the pool to this snapshot, of which the split was made",
        expected="; ".join(
            [
                *(f"{step.kind} {step.name} v{step.version}" for step in _steps(view, policy)),
                "split by document",
            ]
        ),
        owner=policy.people.data_owner,
        requirement="R044",
        hint="Run the tasks snapshot and process again.",
    )


def _steps(view: RunView, policy: Policy) -> list[Any]:
    """The sample that the run's form asked for, then the policy's steps without the split."""
    steps = [step for step in policy.data.steps if step.kind != "split"]
    conf = view.opened.conf if view.opened is not None else {}
    if (share := conf.get("sample_share")) is None:
        return steps
    return [asked_sample(float(share), int(conf.get("sample_seed") or 0)), *steps]


def _steps_missed(view: RunView, policy: Policy) -> str:
    """What is wrong with the chain of snapshots, as a sentence; empty if it is what policy and form ask for."""
    pool, chain = pool_of(view), [account for _, account in chain_of(view)]
    if pool is None:
        return "the snapshot that the steps began with is unrecorded"
    if chain and (chain[0].input, chain[0].input_digest) != (name_of(pool[1]), pool[1].manifest_digest):
        return f"the steps began with {chain[0].input}, the run took {name_of(pool[1])}"
    wanted = [(step.kind, step.name, step.version, step.parameters()) for step in _steps(view, policy)]
    applied = [(r.kind, r.name, r.version, r.parameters) for r in (account.rule for account in chain)]
    if applied != wanted:
        names = ", ".join(f"{kind} {name} v{version}" for kind, name, version, _ in applied) or "none"
        return f"the applied steps ({names}) are not those of the policy and the form"
    return ""
