"""Words of the evaluation by persons, in English and 简体中文: categories, severities and flags."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pretrain_archive.domain import kinds

PROBLEMS: dict[str, tuple[str, str]] = {
    "incorrect": ("incorrect", "内容有误"),
    "incomplete": ("incomplete", "不完整"),
    "off_task": ("does not do what was asked", "未按要求完成"),
    "invented": ("invented facts or sources", "虚构事实或来源"),
    "unsafe": ("unsafe or harmful", "不安全或有害"),
    "personal_data": ("shows personal data", "泄露个人数据"),
    "memorised": ("repeats training data", "复述训练数据"),
    "language": ("wrong or broken language", "语言错误或不通"),
    "form": ("wrong form or layout", "格式不符"),
    "item": ("the item itself is faulty", "题目本身有问题"),
    "other": ("something else", "其他"),
}
"""What kind of problem a reviewer can log."""

SEVERITIES: dict[str, tuple[str, str]] = {
    "minor": ("minor", "轻微"),
    "major": ("major", "严重"),
    "critical": ("critical", "致命"),
}
"""How bad it is, mildest first."""

WHOSE: dict[str, tuple[str, str]] = {"A": ("A", "A"), "B": ("B", "B"), "both": ("both", "两者")}
"""In pairs, which output has the problem."""

FLAGS: dict[str, tuple[str, str]] = {
    "too_few_answers": ("too few answers", "答复过少"),
    "agreement_below": ("reviewers agree too little", "评审人一致性不足"),
    "agreement_unrecorded": ("no item that both reviewers scored", "没有两位评审人均评分的题目"),
    "kappa_below": ("kappa below the limit", "kappa 低于要求"),
    "kappa_unrecorded": ("kappa has no value", "kappa 无法计算"),
    "mean_below": ("mean below the limit", "平均分低于要求"),
    "mean_unrecorded": ("no mean", "无平均分"),
    "win_rate_below": ("win rate below the limit", "胜率低于要求"),
    "win_rate_unrecorded": ("nothing was won or lost", "没有分出胜负的题目"),
    "critical_problems": ("critical problems", "存在致命问题"),
    "one_reviewer_only": ("one reviewer only", "仅有一位评审人"),
    "subject_unproven": ("nothing proves whose outputs these are", "无法证明输出属于该检查点"),
    "no_threshold": ("nothing says what is good enough", "未规定合格标准"),
    "baseline_unnamed": ("the baseline has no name", "基线未命名"),
    "sampled_again": ("another sample was scored before", "此前已对另一样本评分"),
}
"""What speaks against the numbers, by the code before the colon."""

CAVEATS = frozenset(
    {"one_reviewer_only", "subject_unproven", "no_threshold", "baseline_unnamed", "sampled_again"}
)
"""Flags that an approver may acknowledge; every other one forbids a release."""


def flag_code(flag: str) -> str:
    """The code of a flag (``code: detail``)."""
    return flag.partition(":")[0]


def told(report: kinds.HumanEvaluationReported) -> str:
    """The result in one line."""
    parts = [f"{report.scored} of {report.items} items by {', '.join(report.reviewers)}"]
    if report.mean is not None:
        between = f" ({report.mean_low:.2f} to {report.mean_high:.2f})" if report.mean_low is not None else ""
        parts.append(f"mean {report.mean:.2f}{between}")
    if report.wins is not None:
        parts.append(f"{report.wins} won, {report.ties} tied, {report.losses} lost")
    if report.win_rate is not None:
        parts.append(f"win rate {report.win_rate:.3f} ({report.win_low:.3f} to {report.win_high:.3f})")
    if report.agreement is not None:
        parts.append(f"agreement {report.agreement:.3f}")
    if report.kappa is not None:
        parts.append(f"kappa {report.kappa:.3f}")
    if ours := sum(problem.of_candidate for problem in report.problems):
        parts.append(f"{ours} problems")
    if others := len(report.problems) - ours:
        parts.append(f"{others} problems of the baseline")
    return "; ".join([*parts, *report.flags])
