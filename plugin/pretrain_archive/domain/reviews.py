"""When a person has to look before a run goes on, and what each choice then means: pure over a run's records.

Rules:
* what was stopped by a rule is never resumed without a review; neither is what failed again without coming further,
  nor what failed after its last attempt (R094, R135);
* a review that was asked must be answered, whatever it was asked about;
* a review is about one attempt: a later attempt is another question;
* a run that is resumed keeps its inputs; with other inputs it is a new run.
"""

from __future__ import annotations

from dataclasses import dataclass

from pretrain_archive.domain import kinds
from pretrain_archive.domain.kinds import AttemptEnded, CheckpointRegistered, StopConditions, StopFired
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.training import charged_seconds

REVIEW_OUTCOMES = ("resume", "resume_changed", "stop")
"""What an approval of a review chooses; a rejection ends the run as rejected."""

CLOSING = {"stop": "stopped", "resume_changed": "superseded"}
"""The outcomes with which a review closes the run, and what the close is then called."""

NOT_ITS_FAULT = frozenset({"preempted", "evicted", "requeued", "node_lost"})
"""Ends that the machines brought about: the same twice says nothing about the program."""

FAILING = frozenset({"failed", "stopped"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """Why a person has to look: a stop rule with what it saw, or the end itself.

    ``rule`` is a stop rule's name, or the state in which the attempt ended; ``limit`` is empty for the latter.
    """

    attempt: int
    rule: str
    observed: str
    limit: str
    evidence: tuple[Record, ...]

    def text(self) -> str:
        """One line: which rule, what it saw, and its limit."""
        return f"{self.rule}: {self.observed}" + (f", limit {self.limit}" if self.limit else "")


def last_end(view: RunView) -> tuple[Record, AttemptEnded] | None:
    """How the newest attempt ended; None before any, and while an attempt has no end."""
    ends = {ended.attempt: (record, ended) for record, ended in view.all(AttemptEnded)}
    launched = {record.attempt for record in view.records if record.kind == "launch.intended"}
    if not ends or launched - ends.keys():
        return None
    return ends[max(ends)]


def conditions(view: RunView) -> StopConditions | None:
    """The stop conditions that were signed."""
    declared = view.latest(kinds.ConfigurationDeclared)
    return declared.stop if declared else None


def attempts_left(view: RunView) -> int | None:
    """How many further attempts the signed stop conditions allow; ends that do not count use none up."""
    stop = conditions(view)
    if stop is None:
        return None
    free = {ended.attempt for _, ended in view.all(AttemptEnded) if not ended.counted}
    return max(0, stop.max_attempts - (view.attempts - len(free)))


def kept_checkpoint(view: RunView) -> tuple[Record, CheckpointRegistered] | None:
    """The verified checkpoint that a next attempt would start from: of the latest attempt, its highest step."""
    gone = {stone.ref for _, stone in view.all(kinds.TombstoneWritten) if not stone.parts}
    kept = [
        found
        for found in view.all(CheckpointRegistered)
        if f"checkpoint:{found[1].checkpoint_id}" not in gone
    ]
    return max(kept, key=lambda found: (found[0].attempt, found[1].step, found[0].sequence), default=None)


def repeated_failure(view: RunView, stop: StopConditions) -> StopFired | None:
    """The rule against repetition: all attempts are used, or the last two failed and came no further (R094).

    Attempts that do not count, and ends that the machines brought about, are passed over.
    """
    ends = [end for _, end in view.all(AttemptEnded)]
    if not ends or ends[-1].state == "completed":
        return None
    last, counted = ends[-1], [end for end in ends if end.counted]

    def fired(observed: str, limit: str) -> StopFired:
        return StopFired(
            attempt=last.attempt, rule="repeated_failure", observed=observed, limit=limit,
            last_step=last.last_step, last_checkpoint_step=last.last_checkpoint_step,
        )  # fmt: skip

    if len(counted) >= stop.max_attempts:
        states = ", ".join(end.state for end in counted)
        return fired(f"{len(counted)} attempts ({states})", f"{stop.max_attempts} attempts")
    own = [end for end in counted if end.exit_class not in NOT_ITS_FAULT]
    if len(own) < 2 or own[-1] is not last or not all(_fails(end) for end in own[-2:]):
        return None
    before = max((end.last_step or 0 for end in own[:-1]), default=0)
    if (last.last_step or 0) > before:
        return None
    how = "ended like the one before and " if _kind(own[-1]) == _kind(own[-2]) else ""
    return fired(f"attempt {last.attempt} {how}came no further than step {before}", "a higher step")


def _fails(end: AttemptEnded) -> bool:
    """Whether the program itself is to blame: also where it left early with exit code 0."""
    return end.state in FAILING or (end.state == "interrupted" and end.exit_code == 0)


def _kind(end: AttemptEnded) -> tuple[object, ...]:
    return end.state, end.exit_class, end.exit_code, end.signal


def cause_of(view: RunView) -> Cause | None:
    """Why the newest attempt is to be looked at: the rule that stopped it, the repetition, or its own end."""
    found = last_end(view)
    if found is None or found[1].state == "completed":
        return None
    record, ended = found
    stops = [(r, s) for r, s in view.all(StopFired) if s.attempt == ended.attempt]
    told = [s for _, s in stops]
    stop = conditions(view)
    again = repeated_failure(view, stop) if stop else None
    if again is not None and again not in told:
        told.append(again)
    if told:
        return Cause(
            attempt=ended.attempt,
            rule=", ".join(dict.fromkeys(s.rule for s in told)),
            observed="; ".join(s.observed for s in told),
            limit="; ".join(s.limit for s in told),
            evidence=(record, *(r for r, _ in stops)),
        )
    named = f"{ended.exit_class}, {ended.reason}" if ended.exit_class else ended.reason
    return Cause(attempt=ended.attempt, rule=ended.state, observed=named, limit="", evidence=(record,))


def needs_review(view: RunView) -> Cause | None:
    """What forbids a further attempt until a person chose to resume; None if nothing does."""
    found, cause = last_end(view), cause_of(view)
    if found is None or cause is None:
        return None
    record, ended = found
    asked = any(r.position > record.position for r, d in view.all(kinds.GateDossier) if d.gate == "review")
    ruled = any(stop.attempt == ended.attempt for _, stop in view.all(StopFired))
    stop = conditions(view)
    # Where no attempt is left nothing can be launched at all: the ceiling says so, and a review changes nothing.
    again = stop is not None and attempts_left(view) != 0 and repeated_failure(view, stop) is not None
    return cause if ended.state == "stopped" or ruled or again or asked else None


def may_resume(view: RunView) -> bool:
    """Whether a person chose to resume after the newest end; whether that still counts is for the gates to say."""
    found, decided = last_end(view), view.decision("review")
    return (
        found is not None
        and decided is not None
        and decided[0].position > found[0].position
        and (decided[1].decision, decided[1].outcome) == ("approve", "resume")
    )


def _plain(amount: float) -> str:
    """Two decimals; of what would be 0.00, two digits that count."""
    return f"{amount:.2f}" if amount >= 0.01 or amount == 0 else f"{amount:.2g}"


def figures(view: RunView) -> dict[str, str]:
    """What a choice costs and leaves, in numbers: text, so that the same records give the same dossier."""
    declared, kept, found = view.latest(kinds.ConfigurationDeclared), kept_checkpoint(view), last_end(view)
    minutes = sum(charged_seconds(view).values()) / 60
    told = {"attempts_used": str(view.attempts), "minutes_spent": _plain(minutes)}
    if declared is not None:
        share = declared.budget.accelerators
        left = max(0.0, declared.budget.minutes - minutes)
        told |= {
            "minutes_left": _plain(left),
            "accelerator_hours_spent": _plain(share * minutes / 60),
            "accelerator_hours_left": _plain(share * left / 60),
            "attempts_remaining": str(attempts_left(view)),
        }
    step = kept[1].step if kept else 0
    told["resume_step"] = str(step)
    last = found[1].last_step if found else None
    if last is not None:
        told["steps_to_repeat"] = str(max(0, last - step))
    if kept is not None:
        told["kept_bytes"] = str(sum(file.size for file in kept[1].files))
    return told


def choice_words(outcome: str, told: dict[str, str]) -> tuple[str, str]:
    """What a choice does, in words and numbers: English and 简体中文."""
    told = {key: told.get(key, "?") for key in (
        "minutes_spent", "minutes_left", "accelerator_hours_spent", "accelerator_hours_left", "attempts_remaining",
        "resume_step", "steps_to_repeat",
    )}  # fmt: skip
    english, chinese = WORDS[outcome]
    step = told["resume_step"]
    start = ("from the start (no verified checkpoint)", "从头开始（没有已核验的检查点）")
    kept = ("none was verified", "没有已核验的检查点")
    if step not in {"0", "?"}:
        start = f"from the checkpoint of step {step}", f"自第 {step} 步的检查点"
        kept = f"last verified: step {step}", f"最后已核验：第 {step} 步"
    return english.format(start=start[0], kept=kept[0], **told), chinese.format(
        start=start[1], kept=kept[1], **told
    )


WORDS = {
    "resume": (
        (
            "One further attempt with exactly the signed inputs, {start}: {steps_to_repeat} steps are done again; left "
            "are {minutes_left} min ({accelerator_hours_left} accelerator hours) and {attempts_remaining} attempts."
        ),
        (
            "以完全相同的已签署输入再尝试一次，{start}：重做 {steps_to_repeat} 步；剩余 {minutes_left} 分钟"
            "（{accelerator_hours_left} 加速卡小时）、{attempts_remaining} 次尝试。"
        ),
    ),
    "resume_changed": (
        (
            "This run closes with what it took ({minutes_spent} min); you trigger a new run with other inputs that "
            "names this one as its origin. It has a budget and a prepare gate of its own."
        ),
        (
            "本运行连同已用成本（{minutes_spent} 分钟）结项；由您以修改后的输入触发新运行，并注明源自本运行。"
            "新运行有自己的预算和准备关口。"
        ),
    ),
    "stop": (
        (
            "The run closes as stopped after {minutes_spent} min ({accelerator_hours_spent} accelerator hours). "
            "Checkpoints are kept by the retention policy ({kept}); there is no release."
        ),
        (
            "运行在用时 {minutes_spent} 分钟（{accelerator_hours_spent} 加速卡小时）后以“已停止”结项。"
            "检查点按保留策略保存（{kept}）；不产生发布。"
        ),
    ),
}
"""What each choice does; the numbers are those of :func:`figures`."""
