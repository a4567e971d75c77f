"""Words of reviews after a stop and of manual changes: English, 简体中文."""

from __future__ import annotations

REVIEWS: dict[str, tuple[str, str]] = {
    # -- review
    "gate.approve.review": (
        "Carries out the choice that you make below; it counts for exactly this attempt.",
        "执行您在下方作出的选择；仅对这一次尝试有效。",
    ),
    "gate.choice": ("{title}: {words}", "{title}：{words}"),
    "gate.choice.not": ("{title}: not possible ({names})", "{title}：不可选（{names}）"),
    "gate.answer.impossible": ("Not possible:", "不可选："),
    "gate.changed.how": (
        (
            "Trigger the new run in Airflow with the values that you change; it is tied to this one by the field "
            "“Replaces the run”. The values of this run, ready to paste into “Advanced options”:"
        ),
        "在 Airflow 中以修改后的值触发新运行，并通过“取代的运行”字段与本运行关联。本运行的值（可粘贴到“高级选项”）：",
    ),
    "gate.changed": ("Go on with changes", "修改后继续"),
    "gate.changed.dag": ("Trigger it in Airflow", "在 Airflow 中触发"),
    "gate.reject.review": (
        "Nothing is resumed; the run ends as rejected, with your reason.",
        "不再恢复；训练以“已拒绝”结束，并记录您的理由。",
    ),
    # -- manual changes
    "change.title": ("Manual changes", "人工变更"),
    "change.about": (
        "Whatever a person changes by hand while a run is open is recorded here: what, where, why and by whom.",
        "运行期间由人手动所做的变更都记录在此：内容、范围、理由和人员。",
    ),
    "change.none": ("No manual change is recorded.", "没有已记录的人工变更。"),
    "change.unexplained": (
        "Drift between attempts that no recorded change explains",
        "尝试之间未由已记录变更解释的漂移",
    ),
    "change.record": ("Record a change", "记录变更"),
    "change.what": ("What was changed", "变更内容"),
    "change.scope": ("Scope", "范围"),
    "change.scope.hint": (
        "Which queue, node, file or setting it concerns.",
        "涉及哪个队列、节点、文件或设置。",
    ),
    "change.reason": ("Reason (required)", "理由（必填）"),
    "change.before": ("Before (where known)", "变更前（如已知）"),
    "change.after": ("After (where known)", "变更后（如已知）"),
    "change.attempt": ("Attempt (empty: the whole run)", "尝试（留空：整个运行）"),
    "change.by": ("It is recorded under your name: {name}.", "将以您的名字记录：{name}。"),
    "change.closed": (
        "The run is closed and frozen: what you enter is added as a later note.",
        "训练已结项并冻结：您填写的内容将作为事后备注添加。",
    ),
    "change.may_not": (
        "Your Airflow role may not edit runs of this Dag, so you cannot record a change.",
        "您的 Airflow 角色不能编辑此 Dag 的运行，因此不能记录变更。",
    ),
    "change.send": ("Record", "记录"),
    "change.who": ("Person", "人员"),
    "change.known_by": ("known by", "身份依据"),
    "change.at": ("At", "时间"),
    "change.fault": ("Not recorded. {why}", "未记录。{why}"),
    "change.foreign": (
        "The form was not sent from this page, so nothing was recorded. Open the page and send it again.",
        "表单不是从本页面提交的，未记录任何内容。请打开本页后重新提交。",
    ),
    "change.moved": (
        "The ledger could not take it now: {why} What you typed is still here; try again.",
        "账本暂时无法写入：{why} 您填写的内容仍在，请重试。",
    ),
    "change.missing": ("Fill in: {names}.", "请填写：{names}。"),
    "change.number": ("The attempt must be a number from 1 to {most}.", "尝试须为 1 到 {most} 的数字。"),
    "change.too_long": ("{name}: at most {most} characters.", "{name}：至多 {most} 个字符。"),
    "change.what.quota": ("quota", "配额"),
    "change.what.priority": ("priority", "优先级"),
    "change.what.configuration": ("configuration", "配置"),
    "change.what.patch": ("patch", "补丁"),
    "change.what.node": ("node", "节点"),
    "change.what.network": ("network", "网络"),
    "change.what.storage": ("storage", "存储"),
    "change.what.other": ("something else", "其他"),
    "run.changes": ("Manual changes", "人工变更"),
    "run.changes.all": ("Record a change, or see all", "记录变更或查看全部"),
}
