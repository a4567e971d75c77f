"""A model card's sections about how the model was judged: by numbers, by persons, and against what."""

from __future__ import annotations

from collections import Counter

from pretrain_archive.domain import kinds
from pretrain_archive.domain.evaluations import direction_of
from pretrain_archive.domain.human_texts import FLAGS, PROBLEMS, SEVERITIES, flag_code
from pretrain_archive.domain.releases import human_reports, other_evaluations, released_evaluation
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.package.model_card_parts import Row, Said, Section, Table, Words, listed, row

NOTHING = ("no evaluation of the candidate is on record", "候选检查点的评估未被记录")
NO_PERSON = (
    "no evaluation of these bytes by persons is on record",
    "没有针对该检查点的人工评估记录",
)
BOTH_NEEDED = ("no item was scored by both reviewers", "没有两位评审人均评分的题目")
TITLE: Words = ("Evaluation", "评估")
BY_PERSONS: Words = ("Evaluation by persons", "人工评估")
METRIC = (
    ("Metric", "指标"), ("Value", "数值"), ("Unit", "单位"), ("Better", "更优方向"), ("Samples", "样本数"),
    ("95% interval", "95% 区间"),
)  # fmt: skip

BETTER: dict[str, Words] = {"lower": ("lower", "越低越好"), "higher": ("higher", "越高越好")}


def verdict(passed: bool) -> Said:
    """Passed or not, in both languages."""
    return ("passed", "通过") if passed else ("not passed", "未通过")


def evaluation(view: RunView, made: kinds.ReleaseMade) -> Section:
    """Metrics with baselines, by which the candidate was chosen; then every other evaluation of the same bytes."""
    report = released_evaluation(view, made)
    others = other_evaluations(view, made)
    if report is None:
        return Section(title=TITLE, rows=(row("Result", "结果", None, NOTHING),), tables=_others(others))
    rules = listed(str(rule.get("name", "")) for rule in report.rules)
    bare = ("no baseline was measured: no effect can be claimed", "未测量基线：不能声称有效果")
    baselines = listed(f"{_baseline(b)} ({b.kind})" for b in report.baselines)
    scope = report.scope or {}
    unsaid = ("the evaluation does not say", "评估未说明")
    rows: tuple[Row, ...] = (
        row("Result", "结果", verdict(report.passed), NOTHING),
        row("Rules, fixed before launch", "启动前确定的规则", rules, ("no rule was fixed", "未确定规则")),
        row("Data set", "数据集", report.data_set, NOTHING),
        row("Digest of the data set", "数据集摘要", report.data_set_digest, NOTHING, code=True),
        row("Not evaluated", "未评估的内容", listed(map(str, scope.get("not_evaluated") or ())), unsaid),
        row("Baselines", "基线", baselines, bare),
        row("Report", "报告", report.report_digest, NOTHING, code=True),
    )
    flags = tuple(f"⚑ {flag}" for flag in report.flags)
    return Section(title=TITLE, rows=rows, tables=(_metrics(report), *_others(others)), notes=flags)


def _baseline(baseline: kinds.Baseline) -> str:
    return baseline.name if baseline.counted else f"{baseline.name} [not counted: {baseline.reason}]"


def _metrics(report: kinds.EvaluationReported) -> Table:
    candidate: Said = ("the model", "本模型")
    subjects: list[tuple[Said, list[kinds.MetricResult]]] = [(candidate, report.metrics)]
    subjects += [(_baseline(baseline), baseline.metrics) for baseline in report.baselines]
    rows = [(*_metric(metric, report.flags), of) for of, metrics in subjects for metric in metrics]
    return Table(head=(*METRIC, ("Of", "对象")), rows=tuple(rows))


def _metric(metric: kinds.MetricResult, flags: list[str]) -> tuple[Said | None, ...]:
    value = metric.not_finite or None if metric.value is None else f"{metric.value:g}"
    interval = None if metric.low is None or metric.high is None else f"{metric.low:g} … {metric.high:g}"
    better = BETTER.get(direction_of(flags, metric.name, metric.direction) or "")
    samples = None if metric.samples is None else f"{metric.samples:,}"
    return metric.name, value, metric.unit or None, better, samples, interval


def _others(reports: list[kinds.EvaluationReported]) -> tuple[Table, ...]:
    """The evaluations that did not choose the candidate, as one table; what speaks against them stands beside."""
    rows: list[tuple[Said | None, ...]] = []
    for report in reports:
        elsewhere = ("measured elsewhere", "在别处测量")
        own = report.program or "the request's program"
        by: Said = elsewhere if report.imported else own
        rows += [
            (*_metric(metric, report.flags), report.data_set, by, listed(report.flags) or "—")
            for metric in report.metrics
        ]
    head = (*METRIC, ("Data set", "数据集"), ("Measured by", "测量程序"), ("Flags", "异议"))
    return (Table(head=head, rows=tuple(rows)),) if rows else ()


def persons(view: RunView, made: kinds.ReleaseMade) -> Section:
    """What reviewers said of outputs of exactly the released bytes, how far they agree, and what they found."""
    found = human_reports(view, made)
    if not found:
        return Section(title=BY_PERSONS, rows=(row("Result", "结果", None, NO_PERSON),))
    report = found[-1]
    drawn = [s for _, s in view.all(kinds.HumanEvaluationSampled) if s.sample_digest == report.sample_digest]
    sample = drawn[-1] if drawn else None
    scored = (f"{report.scored:,} of {report.items:,}", f"{report.scored:,} / {report.items:,}")
    standard = (sample.standard_en, sample.standard_zh) if sample else None
    unsampled = ("the sample is not on record", "抽样未被记录")
    rows = (
        row("Result", "结果", verdict(report.passed), NO_PERSON),
        row("Reviewers", "评审人", listed(report.reviewers), NO_PERSON),
        row("Items scored", "已评题目", scored, NO_PERSON),
        row("Standard", "评判标准", standard, unsampled),
        row("Scale", "量表", _scale(sample), unsampled),
        row("Answers", "答复", listed(f"{label}: {count}" for label, count in report.points.items()), NO_PERSON),
        *_scores(report, sample),
        row("Agreement", "一致率", _number(report.agreement), BOTH_NEEDED),
        row("Cohen's kappa", "Cohen's kappa", _number(report.kappa), ("kappa has no value", "kappa 无法计算")),
    )  # fmt: skip
    notes = tuple(_flag(flag) for flag in report.flags)
    return Section(title=BY_PERSONS, rows=rows, tables=_problems(report), notes=notes)


def _scale(sample: kinds.HumanEvaluationSampled | None) -> Words | None:
    if sample is None:
        return None
    points = [(point.label, point.en, point.zh) for point in sample.scale]
    return listed(f"{name}: {en}" for name, en, _ in points), listed(
        f"{name}：{zh}" for name, _, zh in points
    )


def _scores(
    report: kinds.HumanEvaluationReported, sample: kinds.HumanEvaluationSampled | None
) -> tuple[Row, ...]:
    """The mean, or what was won and lost; with its interval where counts allow one."""
    if report.mode == "single":
        mean = _between(report.mean, report.mean_low, report.mean_high)
        return (row("Mean score", "平均分", mean, ("the scale has no values", "量表没有分值")),)
    name = (sample.baseline_name if sample else None) or None
    none = ("nothing was won or lost", "没有分出胜负的题目")
    counts = (f"{report.wins} / {report.ties} / {report.losses}") if report.wins is not None else None
    rate = _between(report.win_rate, report.win_low, report.win_high)
    return (
        row("Compared with", "对照", name, ("the baseline has no name", "基线未命名")),
        row("Won / tied / lost", "胜 / 平 / 负", counts, none),
        row("Win rate of the decided", "胜率（分出胜负的题目）", rate, none),
    )


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f}"


def _between(value: float | None, low: float | None, high: float | None) -> Said | None:
    if value is None:
        return None
    if low is None or high is None:
        return f"{value:.3f} (no interval: too few items)", f"{value:.3f}（题目过少，无区间）"
    return f"{value:.3f} (95%: {low:.3f} … {high:.3f})", f"{value:.3f}（95%：{low:.3f} … {high:.3f}）"


def _problems(report: kinds.HumanEvaluationReported) -> tuple[Table, ...]:
    """The model's problems by kind and severity; what reviewers wrote stays in the records."""
    counts = Counter((one.category, one.severity) for one in report.problems if one.of_candidate)
    rows: list[tuple[Said | None, ...]] = [
        (PROBLEMS.get(category, category), SEVERITIES.get(severity, severity), str(count))
        for (category, severity), count in sorted(counts.items())
    ]
    head = (("Problem", "问题"), ("Severity", "严重程度"), ("Count", "次数"))
    return (Table(head=head, rows=tuple(rows)),) if rows else ()


def _flag(flag: str) -> Words:
    detail = flag.partition(":")[2].strip()
    english, chinese = FLAGS.get(flag_code(flag), (flag_code(flag), flag_code(flag)))
    return f"⚑ {english}: {detail}".rstrip(": "), f"⚑ {chinese}：{detail}".rstrip("： ")
