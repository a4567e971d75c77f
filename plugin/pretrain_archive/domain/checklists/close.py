"""The close gate: the last file is not the model (R138–R142)."""

from __future__ import annotations

from pretrain_archive.domain import kinds
from pretrain_archive.domain.candidates import chosen_candidate, chosen_evaluation
from pretrain_archive.domain.checklists.common import item, last, names_snapshot, short, stated
from pretrain_archive.domain.checklists.conclusion import conclusion
from pretrain_archive.domain.checklists.human import human_caveats, human_evaluation
from pretrain_archive.domain.checklists.release import RELEASE
from pretrain_archive.domain.evaluations import last_failure, scope_text
from pretrain_archive.domain.exploration import REASON, is_exploration
from pretrain_archive.domain.policy import Policy
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item


def _chosen(view: RunView) -> tuple[Record | None, kinds.CandidateNamed | None]:
    return chosen_candidate(view) or (None, None)


def _checkpoint_of(
    view: RunView, candidate: kinds.CandidateNamed | None
) -> tuple[Record | None, kinds.CheckpointRegistered | None]:
    if candidate is not None:
        for record, checkpoint in view.all(kinds.CheckpointRegistered):
            if checkpoint.checkpoint_id == candidate.checkpoint_id:
                return record, checkpoint
    return None, None


def candidate(view: RunView, policy: Policy) -> Item:
    """A candidate is named, with its reason, and its checkpoint was verified (R138); an exploration has none."""
    if is_exploration(view):
        return _refused_exploration(view, policy)
    record, chosen = _chosen(view)
    checkpoint_record, checkpoint = _checkpoint_of(view, chosen)
    holds: bool | None = None
    if chosen is not None and checkpoint is not None:
        holds = chosen.checkpoint_digest == checkpoint.digest and bool(chosen.reason)
    return item(
        "close.candidate",
        "artifact",
        evidence=(record, checkpoint_record),
        holds=holds,
        found=f"step {checkpoint.step}, {short(checkpoint.digest)}: {chosen.reason}"
        if chosen and checkpoint
        else "",
        expected="one candidate whose digest is that of a verified checkpoint",
        check="the candidate names a registered checkpoint of this run by digest, and why it is kept",
        owner=policy.people.model_owner,
        requirement="R138",
        hint="Evaluate a checkpoint so that a candidate is named.",
    )


def _refused_exploration(view: RunView, policy: Policy) -> Item:
    """No candidate can come from an exploration: changed evidence, so that nothing is handed over."""
    record, _ = last(view, kinds.RunOpened)
    launches = [found for found, _ in view.all(kinds.LaunchIntended)]
    return item(
        "close.candidate",
        "artifact",
        evidence=(record, *launches),
        holds=False,
        found=REASON,
        expected="a run that was launched with a full sign-off",
        check="no launch of the run was an exploration",
        owner=policy.people.model_owner,
        requirement="R138",
        hint="Trigger a full run with the same inputs and have it signed.",
    )


def evaluation(view: RunView, policy: Policy) -> Item:
    """The evaluation's scope is recorded; its rules, fixed before launch, are met by the signed program (R123, R138).

    Numbers that another program measured than the one in the prepare dossier are changed evidence.
    """
    record, report = chosen_evaluation(view) or (None, None)
    failure = last_failure(view)
    config = view.latest(kinds.ConfigurationDeclared)
    signed = config.evaluate_code_digest if config else None
    other = report is not None and signed is not None and report.evaluator_digest != signed
    found = ""
    if report is not None:
        failed = [str(rule.get("name", rule)) for rule in report.rules if not rule.get("passed")]
        found = f"on {report.data_set}: " + (
            "all rules passed" if report.passed else f"not passed: {', '.join(failed + report.flags)}"
        )
        if scope := scope_text(report):
            found += f"; {scope}"
        if other:
            found += f"; measured by {short(report.evaluator_digest or 'an unrecorded program')}"
    return item(
        "close.evaluation",
        "artifact",
        evidence=(record,),
        holds=None if report is None else _holds(report) and not other,
        found=found,
        expected="acceptance rules of the request passed"
        + (f", measured by {short(signed)}" if other and signed else ""),
        check="the rules fixed before launch hold on the recorded evaluation, measured by the signed program",
        owner=policy.people.acceptance,
        requirement="R123",
        hint=f"The last try failed: {failure[1].detail}"
        if failure
        else "Evaluate again, or choose continue or clean up.",
    )


def _holds(report: kinds.EvaluationReported) -> bool:
    """Whether a report passed, by its own word (which no flag allows) and by what it says of each rule."""
    return report.passed and all(rule.get("passed") for rule in report.rules)


def limits(view: RunView, policy: Policy) -> Item:
    """Known limits are stated (R138)."""
    record, opened = last(view, kinds.RunOpened)
    known = stated(opened.conf.get("known_limits")) if opened else ""
    return item(
        "close.limits",
        "artifact",
        evidence=(record,),
        holds=True if known else None,
        found=known,
        expected="at least one known limit",
        check="the request states known limits",
        owner=policy.people.model_owner,
        requirement="R138",
        hint="State known limits in the form; an honest model has some.",
    )


def links(view: RunView, policy: Policy) -> Item:
    """The candidate's checkpoint leads back to this data and this configuration (R138)."""
    _, chosen = _chosen(view)
    record, checkpoint = _checkpoint_of(view, chosen)
    snapshot_record, snapshot = last(view, kinds.SnapshotCreated)
    config_record, config = last(view, kinds.ConfigurationDeclared)
    holds: bool | None = None
    found = ""
    if checkpoint is not None and snapshot is not None and config is not None:
        holds = (
            names_snapshot(checkpoint.snapshot, snapshot)
            and checkpoint.configuration_digest == config.configuration_digest
        )
        found = f"{checkpoint.snapshot}, configuration {short(checkpoint.configuration_digest)}"
    return item(
        "close.links",
        "artifact",
        evidence=(record, snapshot_record, config_record),
        holds=holds,
        found=found,
        check="the checkpoint names the snapshot and configuration that the prepare gate signed",
        expected="the signed snapshot and configuration",
        owner=policy.people.model_owner,
        requirement="R138",
        hint="Register the checkpoint again from this run.",
    )


def further_use(view: RunView, policy: Policy) -> Item:
    """What the output is to be used for is stated, so that an outcome can be chosen (R139)."""
    record, opened = last(view, kinds.RunOpened)
    use = opened.purpose.intended_use if opened and opened.purpose else ""
    return item(
        "close.further_use",
        "gates",
        evidence=(record,),
        holds=True if use else None,
        found=use,
        check="the intended use is recorded; the approver chooses register, continue or clean up",
        expected="an intended use",
        owner=policy.people.model_owner,
        requirement="R139",
        hint="Trigger again.",
    )


def walkthrough(view: RunView, policy: Policy) -> Item:
    """A person who took no part walked through the archive (R140): advisory until an exam is recorded.

    A walk-through of the closed run is a later fact: it does not change what was signed.
    """
    closed = view.last(kinds.RunClosed)
    done = next(
        (
            f
            for f in view.all(kinds.NoteAdded)
            if f[1].topic == "note"
            and f[1].text.startswith("walk-through")
            and not (closed and f[0].position > closed[0].position)
        ),
        None,
    )
    return item(
        "close.walkthrough",
        "gates",
        evidence=(done[0],) if done else (),
        holds=True if done else None,
        found=done[1].text if done else "",
        check="a non-participant answered questions from the archive alone",
        expected="a recorded walk-through",
        blocking=False,
        owner=policy.people.acceptance,
        requirement="R140",
        hint="Let a colleague answer: pretrain-archive package exam DIR.",
    )


def gates_signed(view: RunView, policy: Policy) -> Item:
    """Prepare and run gate were signed, each by itself (R141)."""
    signed = [(gate, view.decision(gate)) for gate in ("prepare", "run")]
    missing = [gate for gate, found in signed if found is None]
    holds: bool | None = None
    if not missing:
        holds = all(found is not None and found[1].decision == "approve" for _, found in signed)
    return item(
        "close.gates_signed",
        "gates",
        evidence=tuple(found[0] for _, found in signed if found),
        holds=holds,
        found=", ".join(f"{gate} by {found[1].person_name}" for gate, found in signed if found),
        expected="prepare and run approved",
        check="each earlier gate has an approval of its own in the log",
        owner=policy.people.platform_owner,
        requirement="R141",
        hint=f"Not signed: {', '.join(missing)}." if missing else "",
    )


def tracks(view: RunView, policy: Policy) -> Item:
    """No track is missing (R142)."""
    present = {
        "data": view.last(kinds.SnapshotCreated),
        "compute": view.last(kinds.AttemptEnded),
        "artifact": view.last(kinds.CheckpointRegistered),
    }
    missing = [name for name, found in present.items() if found is None]
    return item(
        "close.tracks",
        "gates",
        evidence=tuple(found[0] for found in present.values() if found),
        holds=None if missing else True,
        found="data, compute, artifact",
        expected="data, compute, artifact",
        check="each of the three tracks has its closing record",
        owner=policy.people.platform_owner,
        requirement="R142",
        hint=f"Missing track: {', '.join(missing)}." if missing else "",
    )


CHECKS = (
    candidate,
    evaluation,
    human_evaluation,
    human_caveats,
    limits,
    links,
    further_use,
    gates_signed,
    tracks,
    walkthrough,
    conclusion,
    *RELEASE,
)
