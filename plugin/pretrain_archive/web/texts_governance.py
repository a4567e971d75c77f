"""What pages say of how the platform is run and of what was learnt, in English and 简体中文."""

from __future__ import annotations

GOVERNANCE: dict[str, tuple[str, str]] = {
    "kind.experiment.concluded": ("Conclusion recorded", "实验结论已记录"),
    "kind.platform.proposed": ("Platform change proposed", "平台变更已提出"),
    "kind.platform.verified": ("Platform change verified", "平台变更已验证"),
    "kind.platform.widened": ("Platform change widened", "平台变更已扩大"),
    "kind.platform.accepted": ("Platform change accepted for a project", "项目已验收平台变更"),
    "kind.platform.rolled_back": ("Platform change rolled back", "平台变更已回退"),
    "kind.incident.opened": ("Incident opened", "事件已立案"),
    "kind.incident.reviewed": ("Incident reviewed", "事件已复盘"),
    "kind.incident.closed": ("Incident closed", "事件已关闭"),
    "kind.boundary.confirmed": ("Boundary confirmed by a team", "团队已确认边界"),
    "kind.runbook.drilled": ("Runbook walked through", "运行手册已演练"),
    "kind.service.labelled": ("Named a shared service", "已标记为共享服务"),
}
