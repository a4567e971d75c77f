"""Words of the page in English and 简体中文, and the short text of each event on the timeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pretrain_archive.domain.governance_conclusion import OUTCOMES
from pretrain_archive.domain.records import Record
from pretrain_archive.package.sentences import GATE_ZH, STATE_ZH, short
from pretrain_archive.package.words_kinds import KIND_WORDS

Pair = tuple[str, str]

LABELS: dict[str, Pair] = {
    "track.data": ("Data", "数据"),
    "track.compute": ("Compute", "算力"),
    "track.artifact": ("Artifact", "产物"),
    "gate.prepare": ("Prepare gate", "准备关口"),
    "gate.review": ("Review", "复审"),
    "gate.run": ("Run gate", "执行关口"),
    "gate.close": ("Close gate", "结项关口"),
    "run.summary": ("Run summary", "运行摘要"),
    "data.source": ("Source and licence", "来源与许可证"),
    "data.rights": ("Rights to the data", "数据权利"),
    "data.access": ("Who reads the data", "数据读取者"),
    "data.snapshot": ("Data snapshot", "数据快照"),
    "data.processing": ("Processing", "数据处理"),
    "data.rebuilding": ("How to have the data again", "数据如何重建"),
    "data.quality": ("Data quality", "数据质量"),
    "compute.configuration": ("Configuration and environment", "配置与环境"),
    "compute.events": ("Key events", "关键事件"),
    "artifact.checkpoints": ("Valid checkpoints", "有效检查点"),
    "artifact.candidate": ("Candidate", "候选模型"),
    "artifact.evaluation": ("Evaluation", "评估结果"),
    "artifact.limits": ("Known limits", "已知局限"),
    "run.people": ("Responsible people", "责任人"),
    "artifact.retention": ("Retention", "保留策略"),
}

VERDICTS: dict[str, Pair] = {
    "verified": ("verified", "已核验"),
    "changed": ("changed", "已变更"),
    "unrecorded": ("unrecorded", "未记录"),
}

FATES: dict[str, Pair] = {
    "kept": ("kept", "保留"),
    "deleted": ("deleted, tombstone kept", "已删除，保留墓碑"),
    "deleted in part": ("deleted in part, tombstone kept", "部分删除，保留墓碑"),
}

CHECKS_ZH: dict[str, str] = {
    "what the form sent hashes to the digest recorded with it": "表单内容的摘要与同时记录的摘要一致",
    "every byte read and hashed with SHA-256": "逐字节读取并计算 SHA-256",
    "licence, permission and owner are recorded for the source that the snapshot names": "已记录快照所指来源的许可证、授权与负责人",
    "no source was withdrawn, no right to read was revoked, and the purpose lies inside every scope": "没有来源被撤回，没有读取权限被撤销，且用途在每个来源的范围之内",
    "the identity that reads each source is recorded, and since when that is permitted or why nobody has to": (
        "已记录读取每个来源的身份，以及自何时起获准或为何无需授权"
    ),
    "the report's digest is recorded and it is about this snapshot": "已记录报告摘要，且报告针对该快照",
    "made from its input by the rule; new bytes hashed with SHA-256": "按规则由其输入生成；对新写入的字节计算 SHA-256",
    "each step's account adds up and leads from the pool to the snapshot that was split": "每一步的账目平衡，并由数据池通向被切分的快照",
    "how the data can be had again is recorded, and for a recipe who allows it for how long": "已记录数据如何重建；若仅保留配方，已记录由谁允许、保留多久",
    "checkpoints name the snapshot": "检查点指向该快照",
    "configuration and environment hash to their ids; workers found the same": "配置与环境的摘要与其标识一致，工作进程所见相同",
    "every attempt that began has a recorded end": "每次开始的尝试都有结束记录",
    "every file was read and hashed when the checkpoint was registered": "登记检查点时逐个文件读取并计算摘要",
    "the candidate names a registered checkpoint with its digest": "候选模型指向已登记的检查点，摘要一致",
    "metrics of the registered checkpoint, finite, beside a baseline": "已登记检查点的指标，均为有限值，并有基线对照",
    "limits are stated, with the data set that they were found on": "已说明局限以及得出结论的数据集",
    "each of the six roles and the submitter is a named person": "六个角色和提交人均为具名人员",
    "a rule per artifact class stands in the policy whose digest the run carries": "策略中有各类产物的保留规则，运行记录了策略摘要",
    "the decision names the digest of the dossier that was shown, by an entitled person": "决定写明所展示卷宗的摘要，并由有权人员作出",
    "every file hashed at registration": "登记时逐个文件计算摘要",
    "read and hashed when the package was written": "写入归档包时读取并计算摘要",
    "read and hashed when the package was written; too large to copy": "写入归档包时读取并计算摘要；过大未复制",
    "the location could not be read when the package was written": "写入归档包时该位置无法读取",
    "deleted by policy, tombstone in the records": "已按策略删除，记录中保留墓碑",
}

STATES: dict[str, Pair] = {
    "closed": ("closed", "已结项"),
    "failed": ("failed", "失败"),
    "training": ("training", "训练中"),
    "open": ("open", "进行中"),
    "waiting_prepare": ("waiting at the prepare gate", "等待准备关口"),
    "waiting_run": ("waiting at the run gate", "等待执行关口"),
    "waiting_close": ("waiting at the close gate", "等待结项关口"),
    "unrecorded": ("unrecorded", "未记录"),
}

ROLES_ZH = {
    "data_owner": "数据负责人",
    "model_owner": "模型负责人",
    "platform_owner": "平台负责人",
    "budget_owner": "预算负责人",
    "restore_owner": "恢复负责人",
    "acceptance": "验收人",
    "submitter": "提交人",
}


def _gate(p: dict[str, Any]) -> Pair:
    return p["gate"], GATE_ZH.get(p["gate"], p["gate"])


def _decided(p: dict[str, Any]) -> Pair:
    en, zh = _gate(p)
    good = p["decision"] == "approve"
    return (
        f"{p['person_name']} {'approved' if good else 'rejected'} the {en} gate: {p['reason']}",
        f"{p['person_name']} {'批准' if good else '拒绝'}了{zh}关口：{p['reason']}",
    )


def _ended(p: dict[str, Any]) -> Pair:
    state = STATE_ZH.get(p["state"], p["state"])
    return (
        f"Attempt {p['attempt']} {p['state']}: {p['reason']}",
        f"第 {p['attempt']} 次尝试{state}：{p['reason']}",
    )


def _started(p: dict[str, Any]) -> Pair:
    if p.get("resume_step") is None:
        return f"Attempt {p['attempt']} began on {p['host']}", f"第 {p['attempt']} 次尝试在 {p['host']} 开始"
    return (
        f"Attempt {p['attempt']} resumed from step {p['resume_step']} on {p['host']}",
        f"第 {p['attempt']} 次尝试在 {p['host']} 从第 {p['resume_step']} 步恢复",
    )


def _environment(p: dict[str, Any]) -> Pair:
    count = len(p["differences"])
    return (
        f"Environment observed ({p['moment']}): {count} differences",
        f"观察到的环境（{p['moment']}）：{count} 处差异",
    )


def _unknown(count: int | None) -> str:
    return "?" if count is None else str(count)


EVENTS: dict[str, Callable[[dict[str, Any]], Pair]] = {
    "run.opened": lambda p: (f"Run opened by {p['submitter'] or 'unrecorded'}", f"{p['submitter'] or '未记录'} 发起运行"),
    "run.failed": lambda p: (f"Failed at {p['task_id']}: {p['reason']}", f"在 {p['task_id']} 失败：{p['reason']}"),
    "run.closed": lambda p: (f"Closed: {p['outcome']}", f"已结项：{p['outcome']}"),
    "gate.dossier": lambda p: (
        f"Dossier {short(p['digest'])} shown at the {p['gate']} gate",
        f"{_gate(p)[1]}关口展示卷宗 {short(p['digest'])}",
    ),
    "gate.decision": _decided,
    "gate.refused": lambda p: (f"Answer refused ({p['cause']}): {p['detail']}", f"回答无效（{p['cause']}）：{p['detail']}"),
    "gate.expired": lambda p: (f"The {p['gate']} gate expired", f"{_gate(p)[1]}关口已过期"),
    "package.written": lambda _: ("Package written", "归档包已写入"),
    "note.added": lambda p: (f"{p['topic']}: {p['text']}", f"{p['topic']}：{p['text']}"),
    "source.registered": lambda p: (f"Source {p['name']}, {p['licence']}", f"登记来源 {p['name']}，{p['licence']}"),
    "snapshot.created": lambda p: (
        f"Snapshot {p['name']}@{p['version']}, {p['file_count']} files",
        f"快照 {p['name']}@{p['version']}，{p['file_count']} 个文件",
    ),
    "rule.declared": lambda p: (f"Rule {p['name']} v{p['version']}", f"规则 {p['name']} v{p['version']}"),
    "processing.applied": lambda p: (
        f"{p['rule']['kind']} {p['rule']['name']} v{p['rule']['version']}: {p['documents_in']} → {p['documents_out']}",
        f"{p['rule']['kind']} {p['rule']['name']} v{p['rule']['version']}：{p['documents_in']} → {p['documents_out']}",
    ),
    "split.created": lambda p: (
        f"Split: {p['train_documents']} for training, {p['validation_documents']} held out",
        f"划分：训练 {p['train_documents']}，验证 {p['validation_documents']}",
    ),
    "quality.reported": lambda p: (
        f"Quality {'passed' if p['passed'] else 'not passed'}: {p['documents']} documents",
        f"质量检查{'通过' if p['passed'] else '未通过'}：{p['documents']} 个文档",
    ),
    "temporary.removed": lambda p: (f"{len(p['paths'])} temporary paths removed", f"清理 {len(p['paths'])} 处临时数据"),
    "configuration.declared": lambda p: (
        f"Configuration {short(p['configuration_digest'])}",
        f"配置 {short(p['configuration_digest'])}",
    ),
    "environment.declared": lambda p: (
        f"Environment {short(p['environment_digest'])}",
        f"环境 {short(p['environment_digest'])}",
    ),
    "environment.observed": _environment,
    "launch.intended": lambda p: (
        f"Launch token consumed, target {p['target']}" + (", exploration" if p.get("scope") == "exploration" else ""),
        f"使用启动令牌，目标 {p['target']}" + ("，探索" if p.get("scope") == "exploration" else ""),
    ),
    "attempt.started": _started,
    "attempt.ended": _ended,
    "event.recorded": lambda p: (p["event"], p["event"]),
    "stop.fired": lambda p: (
        f"Stop rule {p['rule']}: {p['observed']} against {p['limit']}",
        f"停止规则 {p['rule']}：{p['observed']}，上限 {p['limit']}",
    ),
    "checkpoint.registered": lambda p: (
        f"Checkpoint of step {p['step']}, {p['artifact_class']}",
        f"第 {p['step']} 步检查点，{p['artifact_class']}",
    ),
    "checkpoint.overwritten": lambda p: (
        f"The files of the checkpoint of step {p['step']}, attempt {p['attempt']}, were overwritten by other bytes",
        f"第 {p['step']} 步（第 {p['attempt']} 次尝试）检查点的文件已被其他内容覆盖",
    ),
    "checkpoint.refused": lambda p: (f"Checkpoint refused: {'; '.join(p['problems'])}", f"检查点被拒：{'；'.join(p['problems'])}"),
    "attempt.reconciled": lambda p: (
        f"Attempt {p['attempt']} reconciled: {_unknown(p['steps_lost'])} lost, {_unknown(p['steps_repeated'])} done again",
        f"第 {p['attempt']} 次尝试已核对：丢失 {_unknown(p['steps_lost'])} 步，重复 {_unknown(p['steps_repeated'])} 步",
    ),
    "drill.filed": lambda p: (
        f"Recovery drill {p['injected']}: {'passed' if p['passed'] else 'a gap was found'}",
        f"恢复演练 {p['injected']}：{'通过' if p['passed'] else '发现缺口'}",
    ),
    "evaluation.reported": lambda p: (
        f"Evaluation {'passed' if p['passed'] else 'not passed'} on {p['data_set']}",
        f"评估{'通过' if p['passed'] else '未通过'}：{p['data_set']}",
    ),
    "evaluation.started": lambda p: (
        f"Evaluation of {p['checkpoint_id']} began",
        f"开始评估 {p['checkpoint_id']}",
    ),
    "evaluation.failed": lambda p: (
        f"Evaluation of {p['checkpoint_id']} failed: {p['detail']}",
        f"评估 {p['checkpoint_id']} 失败：{p['detail']}",
    ),
    "evaluation.finished": lambda p: (
        f"Evaluation of {p['checkpoint_id']} ended with numbers",
        f"评估 {p['checkpoint_id']} 已得出结果",
    ),
    "experiment.concluded": lambda p: (
        f"Conclusion by {p['person']}: {p['outcome']}; {p['learnt']}",
        f"{p['person']} 的结论：{OUTCOMES.get(p['outcome'], ('', p['outcome']))[1]}；{p['learnt']}",
    ),
    "candidate.named": lambda p: (
        f"Candidate {'kept' if p['kept'] else 'dropped'}: {p['reason']}",
        f"候选模型{'保留' if p['kept'] else '放弃'}：{p['reason']}",
    ),
    "release.made": lambda p: (f"Release {p['name']} {p['version']}", f"发布 {p['name']} {p['version']}"),
    "tombstone.written": lambda p: (
        f"Deleted {_what(p)}: {p['reason']} (approved by {p['approved_by']})",
        f"已删除 {_what(p)}：{p['reason']}（由 {p['approved_by']} 批准）",
    ),
    "deletion.partial": lambda p: (
        f"Partly deleted {p['ref']}: {p['gone']} gone, {p['left']} still there",
        f"部分删除 {p['ref']}：已删除 {p['gone']} 项，仍有 {p['left']} 项",
    ),
}  # fmt: skip


def _what(payload: Mapping[str, Any]) -> str:
    """What a tombstone is for: all of it, or the parts that it names."""
    parts = ", ".join(payload.get("parts") or ())
    return f"{payload['ref']} ({parts})" if parts else str(payload["ref"])


def event_text(record: Record) -> Pair:
    """What happened, in both languages; a kind of a later release shows its name."""
    make = EVENTS.get(record.kind)
    try:
        return make(dict(record.payload)) if make else KIND_WORDS.get(record.kind, (record.kind, record.kind))
    except (KeyError, TypeError):
        return record.kind, record.kind
