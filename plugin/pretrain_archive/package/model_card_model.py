"""A model card's sections about the model itself: what it is for, how it was judged, how it serves and ends."""

from __future__ import annotations

from pretrain_archive.domain import kinds
from pretrain_archive.domain.candidates import chosen_evaluation, named_candidates
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


def evaluation(view: RunView) -> Section:
    """Metrics with baselines, by which the candidate was chosen."""
    found = chosen_evaluation(view)
    gap = ("no evaluation of the candidate is on record", "候选检查点的评估未被记录")
    if found is None:
        return Section(title=("Evaluation", "评估"), rows=(row("Result", "结果", None, gap),))
    report = found[1]
    passed: Said = ("passed", "通过") if report.passed else ("not passed", "未通过")
    rules = listed(str(rule.get("name", "")) for rule in report.rules)
    bare = ("no baseline was measured: no effect can be claimed", "未测量基线：不能声称有效果")
    baselines = listed(f"{b.name} ({b.kind})" for b in report.baselines)
    rows: tuple[Row, ...] = (
        row("Result", "结果", passed, gap),
        row("Rules, fixed before launch", "启动前确定的规则", rules, ("no rule was fixed", "未确定规则")),
        row("Data set", "数据集", report.data_set, gap),
        row("Digest of the data set", "数据集摘要", report.data_set_digest, gap, code=True),
        row("Baselines", "基线", baselines, bare),
        row("Report", "报告", report.report_digest, gap, code=True),
    )
    flags = tuple(f"⚑ {flag}" for flag in report.flags)
    return Section(title=("Evaluation", "评估"), rows=rows, tables=(_metrics(report),), notes=flags)


def _metrics(report: kinds.EvaluationReported) -> Table:
    head = (
        ("Metric", "指标"), ("Value", "数值"), ("Unit", "单位"), ("Better", "更优方向"), ("Samples", "样本数"),
        ("95% interval", "95% 区间"), ("Of", "对象"),
    )  # fmt: skip
    candidate: Said = ("the model", "本模型")
    subjects: list[tuple[Said, list[kinds.MetricResult]]] = [(candidate, report.metrics)]
    subjects += [(baseline.name, baseline.metrics) for baseline in report.baselines]
    rows = [(*_metric(metric), of) for of, metrics in subjects for metric in metrics]
    return Table(head=head, rows=tuple(rows))


def _metric(metric: kinds.MetricResult) -> tuple[Said | None, ...]:
    value = metric.not_finite or None if metric.value is None else f"{metric.value:g}"
    interval = None if metric.low is None or metric.high is None else f"{metric.low:g} … {metric.high:g}"
    better = ("lower", "越低越好") if metric.direction == "lower" else ("higher", "越高越好")
    samples = None if metric.samples is None else f"{metric.samples:,}"
    return metric.name, value, metric.unit or None, better, samples, interval


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
