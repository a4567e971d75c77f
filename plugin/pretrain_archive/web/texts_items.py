"""How each item is checked and how a gap is closed, in 简体中文; the English words come with the item itself.

An item that is not listed here (of a later release) keeps its English words in both languages: nothing is left
out, and a test compares this list with every item there is.
"""

from __future__ import annotations

import re

from pretrain_archive.data.quality.report.words import FAMILIES, RULES
from pretrain_archive.domain.verdicts import Item
from pretrain_archive.web.texts import Text, say

CHINESE: dict[str, tuple[str, str]] = {
    "prepare.confirmed": (
        "数据、规则、配置、环境、预算、检查点、停止规则和责任人均有记录",
        "补齐尚未记录的内容。",
    ),
    "prepare.data_scope": (
        "预期用途在快照数据源和项目的使用范围之内",
        "登记覆盖该用途的数据源范围，或更改预期用途。",
    ),
    "prepare.source_rights": (
        "没有数据源被撤回，读取者的权限也未被撤销",
        "改用仍可使用的数据源重新触发，或请数据负责人重新授权。",
    ),
    "prepare.quality": ("该快照通过了每一项阻断性质量检查", "查看质量报告并修正数据。"),
    "prepare.quality_advice": (
        "该快照没有未通过的提示性质量检查",
        "查看质量报告；批准人须知悉其中的提示。",
    ),
    "prepare.label_review": (
        "该快照的标签已由人员抽样复核",
        "答复标签复核的问题，或修正标签。",
    ),
    "prepare.processing": (
        "策略的各步骤按已记录的规则由数据池得到该快照，并据此切分",
        "重新执行 snapshot 与 process 任务。",
    ),
    "prepare.config_environment": (
        "配置、训练与评估的代码以及环境均已连同摘要记录",
        "在命令中写明程序的脚本，或以解释器写明模块，然后重新触发。",
    ),
    "prepare.budget": ("请求在项目配额之内，并写明预算负责人", "降低请求，或申请提高配额。"),
    "prepare.checkpoints": (
        "检查点的位置、间隔、保留规则和恢复负责人均有记录",
        "在项目策略中添加 [retention] 一节，或重新触发。",
    ),
    "prepare.run_id": ("数据和配置记录在同一个运行标识之下", "从表单重新触发该训练。"),
    "prepare.stop_conditions": (
        "时长、预算、NaN 和无进展规则均在配额之内",
        "在触发表单中设置停止条件。",
    ),
    "prepare.retention": ("项目策略文件包含保留一节", "在策略中添加 [retention] 一节。"),
    "prepare.masking": ("脱敏方式已记录", "在表单中说明如何对个人数据脱敏，或说明没有个人数据。"),
    "prepare.collected_at": ("采集时间已记录", "在表单中填写采集时间。"),
    "prepare.access_identity": ("读取数据的身份已记录", "使用具名的服务身份读取数据。"),
    "prepare.access_granted": (
        "读取权限的授予时间，或无需授权的原因，已记录",
        "在表单中填写授予时间，或执行 pretrain-archive source grant 记录授权。",
    ),
    "run.completed": (
        "最后一次尝试以退出码 0 结束，并有结束标记或到达配置的最后一步",
        "等待训练结束，或拒绝。",
    ),
    "run.changes": (
        "每次人工变更都记录了理由、人员和范围；尝试之间的每处漂移都有已记录的变更",
        "补录所做的变更：pretrain-archive run change。",
    ),
    "review.cause": ("尝试的结束连同理由已记录，停止规则连同观测值和限值已记录", "查看该尝试的日志。"),
    "review.checkpoint": (
        "最新登记的检查点已读回并计算摘要，且其字节未被删除",
        "没有检查点时，再次尝试将从第一步开始。",
    ),
    "review.lost": ("已统计该尝试最后一个已核验检查点之后的步数", "训练程序未报告步数。"),
    "review.budget": ("所有尝试的计费时间低于所签署的预算", "本运行不能追加预算：以更大的预算触发新运行。"),
    "review.attempts": ("已启动的尝试少于所签署停止条件允许的次数", "本运行不能追加次数：修改后触发新运行。"),
    "review.environment": ("该尝试的工作进程观测到的环境与签署的一致", "修复机器，或以现有环境触发新运行。"),
    "review.data": (
        "训练程序报告了所读数据，没有不可读的分片、其他摘要或空读",
        "让训练程序报告 data_read；核验快照的字节。",
    ),
    "review.sources": (
        "没有数据源被撤回，读取者的权限也未被撤销",
        "改用仍可使用的数据源重新触发，或请数据负责人重新授权。",
    ),
    "review.changes": ("列出人工变更；尝试之间的漂移有已记录的变更", "补录：pretrain-archive run change。"),
    "review.prepare": ("准备关口正是针对当前输入获得批准", "以当前输入触发新运行。"),
    "run.resources": ("最后一次尝试的 CPU 秒数除以实际秒数", "查看日志：进程在等待什么？"),
    "run.moving": ("最后五分之一数据点的平均损失低于最初五分之一", "查看训练页面上的曲线。"),
    "run.explainable": ("每次启动都有带原因的结束记录和步数统计", "补齐缺少的结束记录。"),
    "run.evidence_location": ("每次尝试的日志都有位置和摘要", "补齐缺少的日志。"),
    "run.reconciled": (
        "每次恢复后，将进度、重复的步、检查点和结果与之前的记录核对",
        "查看训练页面上的差异；它们也是您签署的内容。",
    ),
    "run.members_loaded": (
        "每个工作进程报告其加载的检查点；核对数量与摘要",
        "让程序在每个工作进程中报告 checkpoint_loaded。",
    ),
    "run.data_path": (
        "每个工作进程报告其读取的文件清单与字节；逐一核对",
        "让程序在每个工作进程中报告带清单摘要的 data_read。",
    ),
    "run.environment": ("工作进程中观测到的环境与声明一致", "查看训练页面上的差异；它们也是您签署的内容。"),
    "run.metrics": ("训练中报告了损失，且结束时为有限值", "让训练程序报告 loss 指标。"),
    "run.checkpoints": ("每个登记的检查点都已读回、计算摘要并检查张量", "登记一个完整的检查点。"),
    "run.evaluated": ("评估包含样本、有限的指标和同一定义的基线", "对检查点进行评估。"),
    "run.signed_apart": (
        "日志中准备关口的决定早于启动；本关口另行签署",
        "没有签署启动的训练无法签署。",
    ),
    "close.candidate": ("候选以摘要指明本训练已登记的检查点，并说明保留理由", "评估一个检查点以选定候选。"),
    "close.evaluation": (
        "启动前确定的规则在记录的评估上成立，且由所签署的程序测得",
        "重新评估，或选择继续实验或清理。",
    ),
    "close.human_evaluation": (
        "指定的评审人阅读了候选模型输出的已记录样本，且无异议",
        "答复人工评估的问题；否则不得登记发布。",
    ),
    "close.human_caveats": (
        "两人评阅了唯一的样本，规定了合格标准，且输出的来源已知",
        "在策略中指定两位评审人和合格标准，并由评估程序写出输出。",
    ),
    "close.limits": ("请求中写明了已知限制", "在表单中写明已知限制；诚实的模型总会有一些。"),
    "close.links": ("检查点指明准备关口签署的快照和配置", "由此训练重新登记检查点。"),
    "close.further_use": ("预期用途已记录；审批人选择登记、继续或清理", "重新触发。"),
    "close.gates_signed": ("此前每道关口在日志中都有各自的批准", "签署尚未签署的关口。"),
    "close.tracks": ("三条轨道都有收尾记录", "补齐缺少的轨道。"),
    "close.conclusion": (
        "由人员记录了结论，所附证据均已查到",
        "请记录：pretrain-archive run conclude RUN。",
    ),
    "close.walkthrough": (
        "非参与者仅凭档案回答了问题",
        "请一位同事回答：pretrain-archive package exam DIR。",
    ),
    "release.version": ("请求中写明了发布版本", "在表单中填写版本。"),
    "release.origin": ("数据的来源已连同许可证登记", "登记数据源。"),
    "release.rights": (
        "模型所依据的每个数据源仍可用于此用途",
        "不要登记模型：选择清理，或向数据负责人了解。",
    ),
    "release.evaluation": ("评估报告以其摘要保存在存储中", "对检查点进行评估。"),
    "release.applicable": ("请求中写明了适用场景", "说明模型可用于何处。"),
    "release.not_applicable": ("请求中写明了不适用场景", "说明模型不得用于何处。"),
    "release.scope": ("本训练经完整签批后启动", "以相同输入触发一次完整训练并签批。"),
    "release.rollback": ("请求中写明了回滚方式", "说明如何回滚和下线该模型。"),
    "release.serving": (
        "策略所要求的各项上线服务检查均已针对候选检查点记录",
        "补齐缺少的项：pretrain-archive release check RUN。",
    ),
    "release.registry": ("注册表中有该发布", "若已配置注册表，关闭训练时导出该发布。"),
    "gate.prepare": ("决定指明所示卷宗的摘要，并由有权的人签署", "签署准备关口。"),
    "gate.run": ("决定指明所示卷宗的摘要，并由有权的人签署", "签署执行关口。"),
    "gate.close": ("决定指明所示卷宗的摘要，并由有权的人签署", "签署结项关口。"),
    "run.summary": ("表单所提交的内容与一并记录的摘要一致", "写明目的后触发该训练。"),
    "run.people": ("六个角色和提交人都是具名人员", "在策略中填写缺少的角色。"),
    "data.source": ("数据源已连同许可证和授权登记", "登记数据源及其许可证。"),
    "data.processing": ("每一步的账目平衡，并由数据池通向被切分的快照", "处理并切分该快照。"),
    "data.rebuilding": (
        "已记录数据如何重建；若仅保留配方，已记录由谁允许、保留多久",
        "在策略中添加 [data.recipe] 一节。",
    ),
    "data.rights": (
        "没有数据源被撤回，没有读取权限被撤销，且用途在每个数据源的范围之内",
        "查询账本对每个数据源的记录。",
    ),
    "data.access": (
        "已记录读取每个数据源的身份，及授权时间或无需授权的原因",
        "记录由谁读取、自何时起：pretrain-archive source grant。",
    ),
    "data.quality": ("质量报告针对该快照且全部通过", "对该快照执行质量检查。"),
    "data.snapshot": ("逐字节读取并计算 SHA-256；检查点指明该快照", "为数据源创建快照。"),
    "compute.configuration": (
        "配置和环境与其标识一致，工作进程观测到的相同",
        "声明配置和环境；工作进程须报告其环境。",
    ),
    "compute.events": ("每次开始的尝试都有结束记录", "启动一次尝试，并等待其结束。"),
    "artifact.checkpoints": ("登记时每个文件都已读取并计算摘要", "登记一个检查点。"),
    "artifact.candidate": ("候选以摘要指明已登记的检查点", "选定可能成为模型的检查点。"),
    "artifact.evaluation": ("已登记检查点的有限指标，并有基线对照", "评估候选，并提供基线。"),
    "artifact.limits": ("已写明限制，以及发现限制所用的数据集", "在结项关口写明已知限制。"),
    "artifact.retention": ("训练所附摘要的策略中，每类产物都有规则", "在策略中写明保留规则。"),
}


def check_text(item: Item) -> Text:
    """What was compared with what, in both languages."""
    return Text(item.check, CHINESE.get(item.id, (item.check, ""))[0]) if item.check else Text("", "")


def hint_text(item: Item) -> Text:
    """How the gap is closed, in both languages."""
    return Text(item.hint, CHINESE.get(item.id, ("", item.hint))[1]) if item.hint else Text("", "")


def found_text(item: Item) -> Text:
    """What was found: the names of quality gates in words, everything else as it is recorded."""
    told = _FAILED.fullmatch(item.found) if item.id == "prepare.quality" else None
    if told is not None:
        names = _gates(told["names"])
        return say("items.quality.failed", n=told["documents"], names=names)
    if item.id == "prepare.quality_advice" and item.found != "none":
        return _gates(item.found)
    return Text(item.found, item.found)


_FAILED = re.compile(r"(?P<documents>\d+) documents, failed: (?P<names>.+)")


def _gates(listed: str) -> Text:
    """Names of gates, as a report's check lists them: the words of its page."""
    titles = [_gate(name) for name in listed.split(", ")]
    return Text(", ".join(title.en for title in titles), "、".join(title.zh for title in titles))


def _gate(name: str) -> Text:
    rule, found, _ = name.partition(" (not checked)")
    family, _, domain = rule.partition(":")
    en, zh = RULES.get(family) or FAMILIES.get(family) or (family, family)
    if domain:
        en, zh = f"{en} {domain}", f"{zh} {domain}"
    return Text(f"{en} (not checked)", f"{zh}（未检查）") if found else Text(en, zh)
