"""What is said of the platform's stage, its teams and what somebody on call sees, in English and 简体中文."""

from __future__ import annotations

TEAMS: dict[str, tuple[str, str]] = {
    "training": ("Training", "训练团队"),
    "platform": ("Platform", "平台团队"),
    "storage": ("Storage", "存储团队"),
    "network": ("Network", "网络团队"),
}

LABELS: dict[str, tuple[str, str]] = {
    "controlled_project": ("controlled project", "受控项目"),
    "shared_service": ("shared service", "共享服务"),
    "unrecorded": ("unrecorded", "未记录"),
}

CONTROLLED = (
    "Controlled project: training depends on {experts}. It is no unattended shared service.",
    "受控项目：训练依赖 {experts}，不属于无人值守的共享服务。",
)

STAGE: dict[str, tuple[str, str]] = {
    "stage.drill": ("Representative recovery drill", "代表性恢复演练"),
    "stage.runbook": ("Runbook", "运行手册"),
    "stage.runbook_drilled": ("Runbook walked through by somebody else", "由他人演练运行手册"),
    "stage.boundaries": ("Boundaries confirmed by the teams", "各团队已确认边界"),
    "stage.history": ("History governed", "历史可治理"),
    "stage.permissions": ("Permissions governed", "权限可治理"),
    "stage.experts": ("Does not depend on a few experts", "不依赖少数专家"),
    "stage.incidents": ("No major incident open", "没有未关闭的重大事件"),
    "boundary.training": ("Boundary of the training team", "训练团队的边界"),
    "boundary.platform": ("Boundary of the platform team", "平台团队的边界"),
    "boundary.storage": ("Boundary of the storage team", "存储团队的边界"),
    "boundary.network": ("Boundary of the network team", "网络团队的边界"),
}

HINTS: dict[str, tuple[str, str]] = {
    "stage.drill": (
        "Name drill_valid_days and drill_projects in [platform], and run: pretrain-archive drill run.",
        "在 [platform] 中写明 drill_valid_days 与 drill_projects，并执行 pretrain-archive drill run。",
    ),
    "stage.runbook": (
        "Write the sections that are missing, and name runbook_authors in [platform].",
        "补写缺少的章节，并在 [platform] 中写明 runbook_authors。",
    ),
    "stage.runbook_drilled": (
        "Let somebody who did not write it walk through it on a drill: pretrain-archive platform walk.",
        "请非作者在演练中走一遍：pretrain-archive platform walk。",
    ),
    "stage.boundaries": (
        "Name the teams in [platform.teams]; each confirms: pretrain-archive platform confirm.",
        "在 [platform.teams] 中写明各团队，并由其确认：pretrain-archive platform confirm。",
    ),
    "stage.history": (
        "Set anchors outside of the database, and [retention] in the policy.",
        "在数据库之外设置锚点，并在策略中写明 [retention]。",
    ),
    "stage.permissions": (
        'Set separation_of_duties = "required" in [gates].',
        "在 [gates] 中设置 separation_of_duties 为 required。",
    ),
    "stage.experts": (
        "Say in [platform] who the experts are; an empty list says that there are none.",
        "在 [platform] 中写明 experts；空列表表示没有。",
    ),
    "stage.incidents": (
        "Review and close it: pretrain-archive incident close.",
        "请复盘并关闭：pretrain-archive incident close。",
    ),
}

SYMPTOMS: dict[str, tuple[str, str]] = {
    "gate": ("a gate waits, or the run failed before it was launched", "关口在等待，或运行在启动前失败"),
    "waiting": ("a launch waits for accelerators", "启动在等待加速卡"),
    "stopped": ("a stop rule ended the newest attempt", "最近一次尝试被停止规则终止"),
    "failed": ("the newest attempt failed", "最近一次尝试失败"),
    "lost": ("the newest attempt was lost", "最近一次尝试失联"),
    "interrupted": ("the newest attempt was interrupted", "最近一次尝试被中断"),
    "checkpoint": ("the newest checkpoint was refused", "最新的检查点被拒绝"),
    "support": ("a supplier's support ended or ends soon", "供应方支持已结束或即将结束"),
    "change": ("a platform change is under way that touches this run", "正在进行的平台变更涉及该运行"),
    "incident": ("an open incident names this run", "有未关闭的事件涉及该运行"),
    "ledger": ("the archive itself cannot be trusted as it stands", "归档本身目前不可信"),
    "nothing": ("nothing stands out", "没有异常"),
}


def pair(table: dict[str, tuple[str, str]], key: str) -> dict[str, str]:
    """Both languages of a text; a key that is not there stands for itself."""
    en, zh = table.get(key, (key, key))
    return {"en": en, "zh": zh}


def boundary_hint(item_id: str) -> tuple[str, str]:
    """What to do about an item of this module."""
    return HINTS.get("stage.boundaries" if item_id.startswith("boundary.") else item_id, ("", ""))
