"""A model card's sections about the model itself: what it is for, why it was chosen, how it serves and ends."""

from __future__ import annotations

from pretrain_archive.domain import kinds
from pretrain_archive.domain.candidates import named_candidates
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.package.model_card_parts import Row, Said, Section, Table, listed, row

MOST_CANDIDATES = 100
"""Candidates that a card lists, the kept one first."""
UNSAID = ("the request does not say", "请求中未写明")
ASPECT = {
    "resources": ("Inference resources", "推理资源"),
    "latency": ("Latency", "时延"),
    "concurrency": ("Concurrency", "并发"),
    "safety_boundary": ("Safety boundary", "安全边界"),
    "monitoring": ("Monitoring", "监控"),
}
HOW = {"declared": ("declared", "声明"), "measured": ("measured", "实测")}


def stated(text: str) -> str | None:
    """A term of the release; the word that stands for an unsaid one is no value."""
    return None if text == "unrecorded" else text


def identity(view: RunView, record: Record, made: kinds.ReleaseMade) -> Section:
    """Name, version, moment, origin."""
    purpose = view.opened.purpose if view.opened else None
    account = made.account
    gap = ("the run's opening is not on record", "训练的发起未被记录")
    old = ("released before releases carried an account", "该发布早于发布说明的引入")
    return Section(
        title=("What it is", "模型信息"),
        rows=(
            row("Version", "版本", stated(made.version), UNSAID),
            row("Released", "发布时间", record.recorded_at, gap),
            row("Made by run", "来源训练", view.run_uid, gap, code=True),
            row("Objective", "目标", purpose.objective if purpose else None, gap),
            row("Training type", "训练类型", purpose.training_type if purpose else None, gap),
            row("Responsible", "负责人", account.responsible if account else None, old),
            row("Checkpoint", "检查点", made.checkpoint_digest, gap, code=True),
            row("Step", "步数", str(account.step) if account else None, old),
            row(
                "Tokens seen", "训练词元数",
                None if account is None or account.tokens is None else f"{account.tokens:,}",
                ("the training program told no number of tokens", "训练程序未报告词元数"),
            ),
            row(
                "Base model", "基础模型", account.dependencies.base_model if account else None,
                ("none is named: trained from the beginning, or nobody said", "未指明：从头训练，或无人说明"),
            ),
            row(
                "Licence of the model", "模型许可证", None,
                (
                    "the request has no field for it; the licences of the data are below",
                    "请求中没有该字段；数据的许可证见下文",
                ),
            ),
        ),
    )  # fmt: skip


def use(view: RunView, made: kinds.ReleaseMade) -> Section:
    """Where it may be used, where not, and what it cannot do."""
    purpose = view.opened.purpose if view.opened else None
    return Section(
        title=("Where it may be used", "适用范围"),
        rows=(
            row("Intended use", "预期用途", purpose.intended_use if purpose else None, UNSAID),
            row("May be used for", "适用场景", listed(made.applicable), UNSAID),
            row("Must not be used for", "不适用场景", listed(made.not_applicable), UNSAID),
            row("Known limits", "已知限制", listed(made.known_limits), UNSAID),
            row("Usage limits from the data", "数据带来的使用限制", listed(made.usage_scope), UNSAID),
        ),
    )


def choice(view: RunView) -> Section:
    """Which checkpoints were candidates, and why one was kept and the others not."""
    steps = {c.checkpoint_id: str(c.step) for _, c in view.all(kinds.CheckpointRegistered)}
    named = sorted((fact for _, fact in named_candidates(view)), key=lambda fact: not fact.kept)
    rows: list[tuple[Said | None, ...]] = []
    for fact in named[:MOST_CANDIDATES]:
        verdict: Said = ("kept", "保留") if fact.kept else ("dropped", "淘汰")
        rows.append((steps.get(fact.checkpoint_id), verdict, fact.reason))
    more = len(named) - len(rows)
    return Section(
        title=("Why this checkpoint", "为何选择该检查点"),
        tables=(Table(head=(("Step", "步数"), ("Decision", "决定"), ("Why", "理由")), rows=tuple(rows)),),
        notes=((f"And {more} more in the records.", f"另有 {more} 个，见记录。"),) if more > 0 else (),
    )


def serving(made: kinds.ReleaseMade) -> Section:
    """The checks before it serves (R114)."""
    title = ("Serving", "上线服务")
    account = made.account
    known: dict[str, kinds.ServingCheck] = {c.aspect: c for c in account.serving} if account else {}
    if not (account and account.serves) and not known:
        return Section(title=title, notes=(("Not meant to serve.", "不用于上线服务。"),))
    rows = []
    for aspect, label in ASPECT.items():
        check = known.get(aspect)
        reason = (account.unrecorded.get(f"serving.{aspect}") if account else None) or "nobody recorded it"
        how = HOW[check.how] if check else ("", "")
        value: Said | None = None
        if check is not None:
            value = (f"{check.value} ({how[0]} by {check.by})", f"{check.value}（{how[1]}：{check.by}）")
        rows.append(Row(label=label, value=value, gap=(reason, "无人声明或测量，或只有声明")))
    return Section(title=title, rows=tuple(rows))


def ending(made: kinds.ReleaseMade) -> Section:
    """How it is rolled back and taken down."""
    return Section(
        title=("Rollback and take-down", "回滚与下线"),
        rows=(
            row("Rollback", "回滚方式", stated(made.rollback), UNSAID),
            row("Take-down", "下线方式", stated(made.take_down), UNSAID),
        ),
    )
