"""What pages say of how the platform is run and of what was learnt, in English and 简体中文."""

from __future__ import annotations

GOVERNANCE: dict[str, tuple[str, str]] = {
    "kind.experiment.concluded": ("Conclusion recorded", "实验结论已记录"),
    "run.controlled": ("How the project is run", "项目的运行方式"),
    "run.conclusion": ("Conclusion", "结论"),
    "run.conclusion.none": (
        "Nobody has written down what this run taught. Record it with: pretrain-archive run conclude.",
        "尚未记录该训练的结论。请用 pretrain-archive run conclude 记录。",
    ),
    "run.conclusion.late": (
        "Written after the close: it changes nothing that was signed.",
        "写于结项之后，不改变已签署的内容。",
    ),
    "run.oncall": ("On call", "值班"),
    "run.oncall.about": (
        "Whom to call, why it waits, how attempts ended and where to read, in one answer:",
        "联系谁、为何等待、各次尝试如何结束、查阅何处，一条命令即可得知：",
    ),
    "run.oncall.read": ('runbook, section "{section}"', "运行手册“{section}”一节"),
}
