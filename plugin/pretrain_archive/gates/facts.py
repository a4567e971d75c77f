"""The short facts that head a dossier, in reading order: what is asked and what it would cost."""

from __future__ import annotations

from pretrain_archive.domain import kinds
from pretrain_archive.domain.candidates import chosen_candidate, chosen_evaluation
from pretrain_archive.domain.chains import chain_of, told
from pretrain_archive.domain.checklists.common import short
from pretrain_archive.domain.evaluations import last_deciding
from pretrain_archive.domain.gates import Difference
from pretrain_archive.domain.governance_service import service_fact
from pretrain_archive.domain.reviews import cause_of, figures, last_end
from pretrain_archive.domain.run_view import RunView

Facts = tuple[tuple[str, str], ...]

COMPARED = (
    "objective", "training_type", "intended_use", "snapshot", "snapshot_digest", "processing", "split",
    "configuration_digest",
    "code_digest", "environment_digest", "command", "evaluate_code_digest", "evaluate_command", "evaluations", "budget",
    "stop",
    "checkpoints", "policy",
)  # fmt: skip
"""Facts that are compared with the last approved run of the project."""


def _request(view: RunView) -> list[tuple[str, str]]:
    opened = view.opened
    if opened is None:
        return []
    facts = [("project", opened.project), ("submitter", opened.submitter or "")]
    if opened.purpose is not None:
        facts += [
            ("objective", opened.purpose.objective),
            ("training_type", opened.purpose.training_type),
            ("intended_use", opened.purpose.intended_use),
        ]
    return [
        *facts,
        *service_fact(view),
        ("policy", f"{opened.policy_name} {short(opened.policy_digest or '')}"),
    ]


def _data(view: RunView) -> list[tuple[str, str]]:
    snapshot, split = view.latest(kinds.SnapshotCreated), view.latest(kinds.SplitCreated)
    facts: list[tuple[str, str]] = []
    if snapshot is not None:
        facts += [
            ("snapshot", f"{snapshot.name}@{snapshot.version}"),
            ("snapshot_digest", snapshot.manifest_digest),
        ]
    if chain := chain_of(view):
        facts.append(("processing", "; ".join(told(account) for _, account in chain)))
    if split is not None:
        facts.append(("split", f"{split.split_digest} seed {split.seed}"))
    return facts


def _compute(view: RunView) -> list[tuple[str, str]]:
    config, environment = view.latest(kinds.ConfigurationDeclared), view.latest(kinds.EnvironmentDeclared)
    facts: list[tuple[str, str]] = []
    if config is not None:
        budget, stop, plan = config.budget, config.stop, config.checkpoints
        facts += [
            ("configuration_digest", config.configuration_digest),
            ("code_digest", config.code_digest or ""),
            ("command", " ".join(config.command)),
            *_evaluator(config),
            (
                "budget",
                f"{budget.accelerators} × {budget.accelerator}, {budget.minutes:g} min, {budget.owner}",
            ),
            (
                "stop",
                (
                    f"wall {stop.wall_minutes:g} min, no progress {stop.no_progress_minutes:g} min, "
                    f"NaN {stop.stop_on_nan}, max loss {stop.max_loss}, attempts {stop.max_attempts}"
                )
                + further_limits(stop),
            ),
            ("checkpoints", f"every {plan.every_steps} steps; {plan.retention_rule}; {plan.restore_owner}"),
        ]
    if environment is not None:
        facts.append(("environment_digest", environment.environment_digest))
    return facts


def further_limits(stop: kinds.StopConditions) -> str:
    """The limits that a form may leave empty, where they are set; so a dossier without them is as it always was."""
    told = []
    if stop.start_minutes is not None:
        told.append(f"first step within {stop.start_minutes:g} min")
    if stop.loss_factor is not None:
        told.append(f"loss {stop.loss_factor:g} × its best for {stop.loss_points} points")
    if not stop.stop_on_bad_data:
        told.append("bad data do not stop")
    if stop.max_read_errors is not None:
        told.append(f"read errors {stop.max_read_errors:g}")
    if stop.max_empty_reads is not None:
        told.append(f"empty reads {stop.max_empty_reads:g}")
    return "".join(f", {text}" for text in told)


def _evaluator(config: kinds.ConfigurationDeclared) -> list[tuple[str, str]]:
    """The program that will measure; nothing for a run that was opened before it was bound."""
    if not config.evaluate_command:
        return []
    return [
        ("evaluate_code_digest", config.evaluate_code_digest or ""),
        ("evaluate_command", " ".join(config.evaluate_command)),
        *([("evaluations", "; ".join(map(_measured, config.evaluations)))] if config.evaluations else []),
    ]


def _measured(planned: kinds.EvaluationPlanned) -> str:
    """A program that will measure, with the suites that it is held to."""
    suites = ", ".join(f"{suite.name}@{suite.version} {short(suite.digest)}" for suite in planned.suites)
    own = f"{planned.program} {short(planned.code_digest or '')}" if planned.program else "evaluate_command"
    return f"{own}: {suites or 'no suite'}"


def _training(view: RunView) -> list[tuple[str, str]]:
    facts = [("attempts", str(view.attempts))]
    ended = view.latest(kinds.AttemptEnded)
    if ended is not None:
        facts.append(("last_step", str(ended.last_step)))
        if ended.seconds is not None:
            facts.append(("seconds", f"{ended.seconds:.1f}"))
    checkpoint = view.latest(kinds.CheckpointRegistered)
    if checkpoint is not None:
        facts.append(("checkpoint", f"step {checkpoint.step} {checkpoint.digest}"))
    return facts


def _review(view: RunView) -> list[tuple[str, str]]:
    """The attempt that is looked at: what binds a review to it."""
    cause, found = cause_of(view), last_end(view)
    if cause is None or found is None:
        return []
    numbers = figures(view)
    hours = numbers.get("accelerator_hours_spent")
    return [
        ("attempt", str(cause.attempt)),
        ("stopped_by", cause.text()),
        ("last_step", str(found[1].last_step)),
        ("steps_lost", str(found[1].steps_lost)),
        ("cost", f"{numbers['minutes_spent']} min" + (f", {hours} accelerator hours" if hours else "")),
        ("attempts", str(view.attempts)),
    ]


def _result(view: RunView) -> list[tuple[str, str]]:
    facts: list[tuple[str, str]] = []
    chosen, judged = chosen_candidate(view), chosen_evaluation(view) or last_deciding(view)
    if chosen is not None:
        facts.append(("candidate", f"{chosen[1].candidate_id} {chosen[1].checkpoint_digest}"))
    if judged is not None:
        report = judged[1]
        shown = [
            f"{m.name} {m.value:.4f}" if m.value is not None else f"{m.name} {m.not_finite}"
            for m in report.metrics
        ]
        for baseline in report.baselines:
            shown += [f"{baseline.name} {m.value:.4f}" for m in baseline.metrics if m.value is not None]
        facts.append(("evaluation", "; ".join(shown)))
    conf = view.opened.conf if view.opened else {}
    if conf.get("release_name"):
        facts.append(("release", f"{conf['release_name']} {conf.get('release_version', '')}".strip()))
    return facts


def facts_of(gate: str, view: RunView) -> Facts:
    """The facts that ``gate`` shows, from the run's records alone."""
    facts = _request(view) + _data(view) + _compute(view)
    if gate in {"run", "close"}:
        facts += _training(view)
    if gate == "review":
        facts += _review(view)
    if gate == "close":
        facts += _result(view)
    return tuple(facts)


def consequences_of(gate: str, view: RunView) -> Facts:
    """What the choice costs: numbers only, pages put them into words."""
    config = view.latest(kinds.ConfigurationDeclared)
    if gate == "prepare" and config is not None:
        hours = config.budget.accelerators * config.budget.minutes / 60
        return (
            ("accelerator_hours", f"{hours:g}"),
            ("wall_minutes", f"{config.stop.wall_minutes:g}"),
            ("attempts_left", str(config.stop.max_attempts)),
        )
    if gate == "review":
        return tuple(figures(view).items())
    if gate == "close":
        size = sum(sum(file.size for file in c.files) for _, c in view.all(kinds.CheckpointRegistered))
        return (("recovery_bytes", str(size)),)
    return ()


def differences(previous: RunView, view: RunView) -> tuple[Difference, ...]:
    """What this run asks for differently from ``previous``, configuration keys one by one."""
    before, now = dict(facts_of("prepare", previous)), dict(facts_of("prepare", view))
    found = [
        Difference(field=key, left=before.get(key, ""), right=now.get(key, ""))
        for key in COMPARED
        if before.get(key, "") != now.get(key, "")
    ]
    old, new = previous.latest(kinds.ConfigurationDeclared), view.latest(kinds.ConfigurationDeclared)
    left, right = (c.configuration if c else {} for c in (old, new))
    found.extend(
        Difference(
            field=f"configuration.{key}",
            left=repr(left[key]) if key in left else "",
            right=repr(right[key]) if key in right else "",
        )
        for key in sorted(left.keys() | right.keys())
        if repr(left.get(key)) != repr(right.get(key)) or (key in left) != (key in right)
    )
    return tuple(found)
