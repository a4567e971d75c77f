"""Items of the run gate about recoveries and about what the members of a job said; None where they do not apply."""

from __future__ import annotations

from pretrain_archive.domain import kinds
from pretrain_archive.domain.checklists.common import item
from pretrain_archive.domain.members import Reported, data_read, loaded_checkpoint
from pretrain_archive.domain.policy import Policy
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item


def reconciled(view: RunView, policy: Policy) -> Item | None:
    """After each recovery progress, duplicates and results were compared (R195); None if nothing was recovered."""
    ends = sorted(end.attempt for _, end in view.all(kinds.AttemptEnded))
    took_over = ends[1:]
    if not took_over:
        return None
    done = {found.attempt: (record, found) for record, found in view.all(kinds.AttemptReconciled)}
    missing = [number for number in took_over if number not in done]
    open_ones = [
        f"attempt {number}, {check['name']} {check['verdict']}: {check['found']}"
        for number, (_, found) in sorted(done.items())
        for check in found.checks
        if check["verdict"] != "verified" and check["name"] not in {"loaded", "data"}
    ]
    changed = any(
        c["verdict"] == "changed" and c["name"] not in {"loaded", "data"}
        for _, f in done.values()
        for c in f.checks
    )
    lost = sum(found.steps_lost or 0 for _, found in done.values())
    repeated = sum(found.steps_repeated or 0 for _, found in done.values())
    return item(
        "run.reconciled", "compute", evidence=tuple(record for record, _ in done.values()),
        holds=None if missing else False if changed else None if open_ones else True,
        expected="steps go on without gap, jump or double counting",
        found="; ".join([f"{len(done)} recoveries, {lost} steps lost, {repeated} done again", *open_ones[:5]]),
        check="after each recovery progress, repeated steps, checkpoints and results are compared with those before",
        blocking=False, owner=policy.people.platform_owner, requirement="R195",
        hint="Register checkpoints again: that reconciles what is missing." if missing
        else "Read the differences on the run's page; they are part of what you sign.",
    )  # fmt: skip


def members_loaded(view: RunView, policy: Policy) -> Item | None:
    """Every worker loaded the checkpoint of the last resume (R235); None if nothing was resumed."""
    resumed = [s.attempt for _, s in view.all(kinds.AttemptStarted) if s.resume_step is not None]
    if not resumed:
        return None
    return _members(
        "run.members_loaded", loaded_checkpoint(view, resumed[-1]), policy, "R235",
        "each worker says which checkpoint it loaded; number and digest are compared",
        "Let the program report 'checkpoint_loaded' in every worker.",
    )  # fmt: skip


def data_path(view: RunView, policy: Policy) -> Item | None:
    """Every worker read the same data on the target topology (R236); None for one worker that reports nothing."""
    last = max((s.attempt for _, s in view.all(kinds.AttemptStarted)), default=0)
    said = data_read(view, last)
    declared = view.latest(kinds.ConfigurationDeclared)
    several = declared is not None and declared.budget.nodes > 1
    if last == 0 or not (several or (said.size or 0) > 1):
        return None
    return _members(
        "run.data_path", said, policy, "R236",
        "each worker says which list of files and which bytes it read; all are compared",
        "Let the program report 'data_read' with the list's digest in every worker.",
    )  # fmt: skip


def _members(  # noqa: PLR0917
    name: str, said: Reported, policy: Policy, requirement: str, check: str, hint: str
) -> Item:
    return item(
        name, "compute", evidence=said.records, holds=said.holds, expected=said.expected, found=said.found,
        check=check, blocking=False, owner=policy.people.platform_owner, requirement=requirement, hint=hint,
    )  # fmt: skip


RECOVERY = (reconciled, members_loaded, data_path)
