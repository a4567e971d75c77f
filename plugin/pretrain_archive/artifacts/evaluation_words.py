"""Words of an evaluation report in English and simplified Chinese."""

from __future__ import annotations

FLAGS: dict[str, tuple[str, str]] = {
    "no_baseline": ("No baseline: no effect can be claimed.", "无基线：不能声称效果。"),
    "no_samples": ("No samples: a change cannot be explained.", "无样本记录：变化无法解释。"),
    "not_finite": ("Not a finite number.", "不是有限数值。"),
    "no_value": ("Not measured.", "未测得数值。"),
    "repeated_metric": ("One name for two values.", "同一名称有两个数值。"),
    "contradictory": ("Contradictory.", "自相矛盾。"),
    "no_direction": ("It is not said which way is better.", "未说明优劣方向。"),
    "baseline_same_as_candidate": ("A baseline is the candidate itself.", "基线就是候选本身。"),
    "baseline_unknown": ("A baseline that the ledger does not know.", "账本中没有该基线。"),
    "definition_differs": ("Measured by another definition.", "测量定义不同。"),
    "definition_changed": ("The definition changed within its group.", "组内测量定义发生变化。"),
    "missing_metric": ("A required metric is missing.", "缺少必需的指标。"),
    "bad_step": ("A line whose step cannot be read.", "步数无法读取的行。"),
    "imported": ("Measured elsewhere.", "在别处测得。"),
    "late_rule": ("Limits that were not fixed before the launch.", "阈值未在启动前确定。"),
}

WAYS = {"lower": "↓", "higher": "↑"}
NO_WAY = ("no direction declared", "未声明方向")

TOLD: dict[str, tuple[str, str]] = {
    "better": ("better", "更好"),
    "worse": ("worse", "更差"),
    "not told apart": ("not told apart", "不能区分"),
    "no interval": ("no interval", "无区间"),
}

HOW: dict[str, tuple[str, str]] = {
    "stated": ("stated by the program", "由程序给出"),
    "wilson": ("Wilson, from counts", "Wilson，按计数"),
    "normal": ("normal, from the standard error", "正态，按标准误"),
}
