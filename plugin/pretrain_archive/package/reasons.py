"""Why an item is unrecorded: not reached, not captured, refused, failed, expired, not applicable, deleted.

A gap without a reason invites a guess. Each reason follows from records; where none speaks of it, nobody captured
the item, and that is what is said.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pretrain_archive.domain import kinds
from pretrain_archive.domain.exploration import is_exploration
from pretrain_archive.domain.releases import standing_release
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item, Verdict
from pretrain_archive.package.evidence import Reference
from pretrain_archive.package.sentences import GATE_ZH

MOST_TOLD = 3
"""Problems of one reason; the records hold the rest."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """A code for programs and the same in English and 简体中文."""

    code: str
    en: str
    zh: str

    def to_dict(self) -> dict[str, str]:
        """Plain JSON."""
        return {"code": self.code, "en": self.en, "zh": self.zh}


CODES = (
    "not_captured", "not_reached", "not_applicable", "refused", "rejected", "expired", "unanswered", "failed",
    "not_finite", "no_baseline", "open_attempt", "unreadable", "deleted", "some_items",
)  # fmt: skip


def why(view: RunView, item: Item) -> Reason | None:
    """The reason of an unrecorded item; None for any other verdict."""
    if item.verdict is not Verdict.UNRECORDED:
        return None
    family = item.id.partition(".")[0]
    own = SPECIFIC.get(item.id) or SPECIFIC.get(family)
    return (own(view, item) if own else None) or _general(view, item)


def why_reference(view: RunView, reference: Reference) -> Reason | None:
    """The reason of a reference whose bytes were not read."""
    if reference.verdict is not Verdict.UNRECORDED:
        return None
    names = {reference.digest, reference.location}
    for _, gone in view.all(kinds.TombstoneWritten):
        if gone.digest in names or (gone.location and gone.location in names):
            return Reason(
                code="deleted",
                en=f"deleted with a tombstone: {gone.reason}; approved by {gone.approved_by}",
                zh=f"已删除并留有墓碑：{gone.reason}；由 {gone.approved_by} 批准",
            )
    return Reason(
        code="unreadable",
        en="its location could not be read when the package was written",
        zh="写入归档包时无法读取其位置",
    )


def _general(view: RunView, item: Item) -> Reason:
    """What holds for every item: the run failed before it, was never launched, or nobody captured it."""
    failed = view.latest(kinds.RunFailed)
    if failed is not None and view.state != "closed" and item.track != "gates":
        return Reason(
            code="failed",
            en=f"the run failed at {failed.task_id} before this was recorded: {failed.reason}",
            zh=f"运行在 {failed.task_id} 失败，此前未记录：{failed.reason}",
        )
    if item.track in {"compute", "artifact"} and not view.attempts and item.id != "compute.configuration":
        return Reason(code="not_reached", en="the run was never launched", zh="运行从未启动")
    return Reason(code="not_captured", en="nobody captured it", zh="未采集")


def _gate(view: RunView, item: Item) -> Reason:
    gate = item.id.partition(".")[2]
    name = GATE_ZH.get(gate, gate)
    if is_exploration(view) and view.dossier(gate) is None:
        return Reason(
            code="not_applicable", en="an exploration ends without this gate", zh="探索训练不经过此关口"
        )
    if view.dossier(gate) is None:
        return Reason(code="not_reached", en=f"the {gate} gate was never asked", zh=f"{name}关口从未提问")
    decision, dossier = view.decision(gate), view.dossier(gate)
    if decision and dossier and decision[0].sequence > dossier[0].sequence:
        said = decision[1]
        return Reason(
            code="rejected",
            en=f"rejected by {said.person_name}: {said.reason}",
            zh=f"{said.person_name} 已拒绝：{said.reason}",
        )
    expired = [fact for _, fact in view.all(kinds.GateExpired) if fact.gate == gate]
    if expired:
        return Reason(code="expired", en="the deadline passed without an answer", zh="截止前无人作答")
    refused = [fact for _, fact in view.all(kinds.GateRefused) if fact.gate == gate]
    if refused:
        return Reason(
            code="refused",
            en=f"an answer did not count: {refused[-1].detail}",
            zh=f"作答无效：{refused[-1].detail}",
        )
    return Reason(code="unanswered", en="it was asked and nobody answered", zh="已提问但无人作答")


def _events(view: RunView, item: Item) -> Reason | None:
    if not view.attempts:
        return None
    return Reason(code="open_attempt", en=item.hint, zh="有尝试没有结束记录")


def _checkpoints(view: RunView, _item: Item) -> Reason | None:
    refused = [fact for _, fact in view.all(kinds.CheckpointRefused)]
    if not refused:
        return None
    problems = "; ".join(dict.fromkeys(p for fact in refused for p in fact.problems[:1]))
    return Reason(
        code="refused",
        en=f"{len(refused)} checkpoints were refused: {problems}",
        zh=f"{len(refused)} 个检查点被拒绝：{problems}",
    )


def _candidate(view: RunView, _item: Item) -> Reason | None:
    dropped = [fact for _, fact in view.all(kinds.CandidateNamed) if not fact.kept]
    if is_exploration(view):
        return Reason(
            code="not_applicable", en="an exploration makes no candidate", zh="探索训练不产生候选模型"
        )
    if not dropped:
        return None
    told = "; ".join(fact.reason for fact in dropped[:MOST_TOLD])
    return Reason(
        code="refused",
        en=f"all of {len(dropped)} candidates were dropped: {told}",
        zh=f"{len(dropped)} 个候选均被放弃：{told}",
    )


def _evaluation(view: RunView, _item: Item) -> Reason | None:
    report = view.latest(kinds.EvaluationReported)
    if report is not None and any(metric.value is None for metric in report.metrics):
        return Reason(code="not_finite", en="a metric is not a finite number", zh="某项指标不是有限数值")
    if report is not None:
        return Reason(code="no_baseline", en="it was measured without a baseline", zh="测量时没有基线对照")
    failed = view.latest(kinds.EvaluationFailed)
    if failed is not None:
        return Reason(
            code="failed", en=f"the evaluation failed: {failed.detail}", zh=f"评估失败：{failed.detail}"
        )
    return None


def _limits(view: RunView, _item: Item) -> Reason | None:
    if standing_release(view) is not None:
        return None
    decision = view.decision("close")
    if is_exploration(view) or (decision and decision[1].outcome not in {None, "register"}):
        return Reason(
            code="not_applicable",
            en="nothing is released: no limits are stated",
            zh="没有发布，因此未说明局限",
        )
    return Reason(code="not_reached", en="no release was made", zh="没有发布")


def _track(_view: RunView, item: Item) -> Reason:
    return Reason(code="some_items", en=f"unrecorded: {item.found}", zh=f"未记录：{item.found}")


SPECIFIC: dict[str, Callable[[RunView, Item], Reason | None]] = {
    "gate": _gate,
    "track": _track,
    "compute.events": _events,
    "artifact.checkpoints": _checkpoints,
    "artifact.candidate": _candidate,
    "artifact.evaluation": _evaluation,
    "artifact.limits": _limits,
}
"""By item id, or by the part before its point."""
