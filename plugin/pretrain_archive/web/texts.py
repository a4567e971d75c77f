"""What the pages say, in English and 简体中文, in the words that Airflow itself uses.

Every entry holds both languages; pages render both and the style sheet shows one, so that a change of
language needs no second request and nothing flashes. Ids, digests, keys and codes are never translated.
"""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup, escape

LANGUAGES = ("en", "zh-CN")


@dataclass(frozen=True, slots=True)
class Text:
    """One thing to say, in both languages; templates print it as two marked spans."""

    en: str
    zh: str

    def __html__(self) -> Markup:
        """Both languages, each marked with its own ``lang``."""
        if self.en == self.zh:
            return escape(self.en)
        return Markup('<span class="en" lang="en">{}</span><span class="zh" lang="zh-CN">{}</span>').format(
            self.en, self.zh
        )


def say(key: str, **values: object) -> Text:
    """The text of ``key`` with its blanks filled; an unknown key is a ``KeyError``.

    ``values`` may be texts themselves; what they hold is escaped when the page is written.
    """
    en, zh = TEXTS[key]
    return Text(
        en=en.format_map({name: value.en if isinstance(value, Text) else value for name, value in values.items()}),
        zh=zh.format_map({name: value.zh if isinstance(value, Text) else value for name, value in values.items()}),
    )


def known(key: str) -> bool:
    """Whether there is a text for ``key``."""
    return key in TEXTS


TEXTS: dict[str, tuple[str, str]] = {
    # -- frame
    "archive": ("Pretrain archive", "训练档案"),
    "runs": ("Runs", "训练"),
    "skip": ("Skip to the content", "跳到正文"),
    "unrecorded": ("unrecorded", "未记录"),
    "none": ("none", "无"),
    "show_record": ("Record", "记录"),
    "back_to_run": ("Back to the run", "返回该训练"),
    "copy": ("Copy", "复制"),
    "copied": ("Copied", "已复制"),
    "and": ("and", "和"),
    # -- states and verdicts
    "state.waiting": ("waiting for a person", "等待审批"),
    "gate.prepare.when": ("before large resources are used", "使用大量资源之前"),
    "gate.run.when": ("after training", "训练结束之后"),
    "gate.close.when": ("before anything is handed over", "交付任何内容之前"),
    # -- list of runs
    "runs.search": ("Search", "搜索"),
    "runs.search.hint": (
        "Purpose, project, person, Dag or run id",
        "目的、项目、人员、Dag 或执行 ID",
    ),
    "runs.find": ("Find", "查找"),
    "runs.clear": ("Clear the search", "清除搜索"),
    "runs.state": ("State", "状态"),
    "runs.all": ("all", "全部"),
    "runs.waiting": ("Waiting for a person", "等待审批"),
    "runs.waiting.none": (
        "No gate waits among the newest {n} runs.",
        "最近 {n} 个训练中没有等待审批的关口。",
    ),
    "runs.evidence": ("Evidence", "证据"),
    "runs.purpose": ("Purpose", "目的"),
    "runs.submitter": ("Submitted by", "提交人"),
    "runs.opened": ("Opened", "开始时间"),
    "runs.project": ("Project", "项目"),
    "runs.review": ("Review", "查看关口"),
    "runs.since": ("waiting since", "开始等待"),
    "runs.older": ("Older runs", "更早的训练"),
    "runs.newest": ("Newest runs", "最新的训练"),
    "runs.empty": (
        "No run is recorded yet. Trigger the Dag pretraining_reference to record the first one.",
        "还没有任何训练记录。请触发 Dag pretraining_reference 来记录第一个训练。",
    ),
    "runs.nothing": ("No run fits this search.", "没有符合条件的训练。"),
    "runs.looked": (
        "Looked through {n} runs; older ones have not been searched yet.",
        "已查找 {n} 个训练；更早的训练尚未查找。",
    ),
    # -- a run
    "run.decision": ("The decision in six sentences", "六句话说明这次决定"),
    "run.evidence": ("Evidence by track", "各轨道的证据"),
    "run.verified_fold": ("{n} verified", "{n} 项已核验"),
    "run.no_items": ("Nothing to check here yet.", "此处暂无可核验的内容。"),
    "run.gates": ("Three gates", "三道关口"),
    "run.gate.none": ("not asked yet", "尚未开始"),
    "run.gate.waiting": ("waits for an answer", "等待审批"),
    "run.gate.approve": ("approved", "已批准"),
    "run.gate.reject": ("rejected", "已拒绝"),
    "run.gate.expired": ("expired without an answer", "过期未审批"),
    "run.gate.stale": ("signed for older evidence", "签署的是旧证据"),
    "run.gate.open": ("Open the gate view", "打开关口视图"),
    "run.gate.self": ("self-signed", "自行签署"),
    "run.gate.moved": ("Changed since the signature: {names}", "签署之后已变更：{names}"),
    "run.timeline": ("Timeline", "时间线"),
    "run.timeline.fold": ("Show {n} more", "再显示 {n} 条"),
    "run.packages": ("Packages", "档案包"),
    "run.packages.none": (
        "No package yet: it is written after the close gate.",
        "还没有档案包：关闭关口通过后才会写入。",
    ),
    "run.attempts": ("Attempts", "尝试"),
    "run.attempts.none": ("No training process has been started yet.", "尚未启动任何训练进程。"),
    "run.attempt": ("Attempt", "尝试"),
    "run.steps": ("Steps", "步数"),
    "run.resumed": ("Resumed from", "恢复自"),
    "run.lost": ("Lost steps", "丢失步数"),
    "run.repeated": ("Repeated steps", "重复步数"),
    "run.duration": ("Duration", "时长"),
    "run.ended": ("Ended", "结果"),
    "run.running": ("running", "运行中"),
    "run.from_start": ("the beginning", "从头开始"),
    "run.people": ("People", "人员"),
    "run.loss": ("Loss", "损失"),
    "run.loss.none": ("No loss has been recorded yet.", "尚未记录损失。"),
    "run.loss.about": (
        "Loss over steps: {first} at step {first_step}, {last} at step {last_step}; lowest {low}. {points} points in {attempts} attempts.",
        "损失随步数变化：第 {first_step} 步为 {first}，第 {last_step} 步为 {last}；最低 {low}。共 {attempts} 次尝试，{points} 个点。",
    ),
    "run.loss.legend": (
        "Bold: what the model was built from. Dashed: steps that a later attempt repeated. The band shows the lowest and highest value.",
        "粗线：最终采用的部分。虚线：后来的尝试重复的步数。色带：最低值与最高值。",
    ),
    "run.others": ("This Dag run recorded more than one run", "该 Dag 执行记录了多个训练"),
    "run.failure": ("The run failed in {task}", "训练在 {task} 失败"),
    "run.policy": ("Policy", "策略"),
    "run.dag_run": ("Dag run", "Dag 执行"),
    "role.data_owner": ("Data owner", "数据负责人"),
    "role.model_owner": ("Model owner", "模型负责人"),
    "role.platform_owner": ("Platform owner", "平台负责人"),
    "role.budget_owner": ("Budget owner", "预算负责人"),
    "role.restore_owner": ("Restore owner", "恢复负责人"),
    "role.acceptance": ("Acceptance", "验收人"),
    "role.submitter": ("Submitter", "提交人"),
    # -- six sentences
    "six.data": ("Data", "数据"),
    "six.conditions": ("Conditions", "条件"),
    "six.events": ("What happened", "经过"),
    "six.checkpoint": ("Why this checkpoint", "为何选此检查点"),
    "six.signatures": ("Who signed", "谁签署"),
    "six.use": ("How it may be used", "可如何使用"),
    "six.data.text": (
        "{snapshot} went in: {files} files, {bytes}, from {source} under the licence {licence}.",
        "使用数据 {snapshot}：{files} 个文件，{bytes}，来自 {source}，许可证为 {licence}。",
    ),
    "six.data.none": ("Which data goes in is unrecorded.", "使用哪些数据：未记录。"),
    "six.conditions.text": (
        "It runs with configuration {configuration} and code {code}, on {where} for at most {minutes} minutes, paid by {owner}.",
        "采用配置 {configuration} 和代码 {code}，使用 {where}，最长 {minutes} 分钟，预算由 {owner} 负责。",
    ),
    "six.cpu": ("the CPU only", "仅 CPU"),
    "six.conditions.none": (
        "Configuration and resources are unrecorded.",
        "配置与资源：未记录。",
    ),
    "six.events.text": (
        "Attempts made: {attempts}; the last one {state} at step {step}; steps lost: {lost}, repeated: {repeated}.",
        "共 {attempts} 次尝试；最后一次{state}，到第 {step} 步；丢失 {lost} 步，重复 {repeated} 步。",
    ),
    "six.events.running": ("Attempt {attempt} is running.", "第 {attempt} 次尝试正在运行。"),
    "six.events.none": ("No training process has been started.", "尚未启动训练进程。"),
    "six.events.failed": ("The run failed in {task}: {reason}", "训练在 {task} 失败：{reason}"),
    "six.checkpoint.text": (
        "The checkpoint of step {step} ({digest}) was chosen: {reason}.",
        "选择了第 {step} 步的检查点（{digest}）：{reason}。",
    ),
    "six.checkpoint.some": (
        "Registered checkpoints: {n}; none is named as the candidate yet.",
        "已登记 {n} 个检查点，尚未选定候选。",
    ),
    "six.checkpoint.none": ("No checkpoint is registered.", "尚未登记检查点。"),
    "six.signatures.text": ("{list}.", "{list}。"),
    "six.signature": ("{gate}: {person} ({decision})", "{gate}：{person}（{decision}）"),
    "six.signatures.none": ("Nobody has signed yet.", "尚无人签署。"),
    "six.use.released": (
        "Released as {name} {version} for {use}; known limits: {limits}.",
        "已发布为 {name} {version}，用途：{use}；已知限制：{limits}。",
    ),
    "six.use.intended": (
        "Nothing is released yet; intended for: {use}.",
        "尚未发布；预期用途：{use}。",
    ),
    "six.use.none": ("The intended use is unrecorded.", "预期用途：未记录。"),
    "attempt.completed": ("completed", "已完成"),
    "attempt.failed": ("failed", "失败"),
    "attempt.stopped": ("stopped", "已停止"),
    "attempt.interrupted": ("interrupted", "被中断"),
    "attempt.lost": ("lost", "失联"),
    "attempt.running": ("running", "运行中"),
    # -- gate view
    "gate.to_sign": ("What is to be signed", "待签署的内容"),
    "gate.items": ("Checklist, worst first", "检查项（最差在前）"),
    "gate.items.fold": ("{n} items verified", "{n} 项已核验"),
    "gate.items.fold.advice": ("{n} advisory items unrecorded", "{n} 项建议项未记录"),
    "gate.advisory": ("advisory", "建议项"),
    "gate.blocking": ("required", "必需项"),
    "gate.check": ("Check", "核验方式"),
    "gate.expected": ("Expected", "应为"),
    "gate.found": ("Found", "实为"),
    "gate.owner": ("Who can mend it", "谁可补齐"),
    "gate.hint": ("How", "如何补齐"),
    "gate.checked": ("checked", "核验于"),
    "gate.evidence": ("Evidence", "证据"),
    "gate.facts": ("Facts", "事实"),
    "gate.differences": ("What differs", "差异"),
    "gate.differences.run": ("From the last approved run", "与上一个已批准的训练相比"),
    "gate.differences.answer": ("From the last answer to this gate", "与本关口上一次审批相比"),
    "gate.differences.none": ("No difference.", "没有差异。"),
    "gate.differences.first": ("There is none to compare with.", "没有可比较的对象。"),
    "gate.consequences": ("What each choice does", "各选项的后果"),
    "gate.approve.prepare": (
        "Training may start, once, with exactly these inputs.",
        "允许以这些输入启动训练，仅限一次授权。",
    ),
    "gate.approve.run": (
        "The training counts as explained; evaluation results go to the close gate.",
        "训练过程视为可解释；评估结果进入结项关口。",
    ),
    "gate.approve.close": (
        "The run is frozen with the outcome you choose, and its package is written.",
        "训练将按您选择的结果冻结，并写入档案包。",
    ),
    "gate.reject.prepare": (
        "Nothing is started; the run ends as rejected, with your reason.",
        "不启动任何进程；训练以“已拒绝”结束，并记录您的理由。",
    ),
    "gate.reject.run": (
        "Nothing is handed over; the run ends as rejected, with your reason.",
        "不交付任何内容；训练以“已拒绝”结束，并记录您的理由。",
    ),
    "gate.reject.close": (
        "Nothing is released; the run ends as rejected, with your reason.",
        "不发布任何内容；训练以“已拒绝”结束，并记录您的理由。",
    ),
    "gate.number": ("{title}: {value}", "{title}：{value}"),
    "gate.approve": ("Approve", "批准"),
    "gate.reject": ("Reject", "拒绝"),
    "gate.who": ("Who may sign", "谁可签署"),
    "gate.you.can": ("You may sign: the policy names you.", "您可以签署：策略中有您的名字。"),
    "gate.you.submitter": (
        "You started this run; it must be signed by {names}.",
        "您发起了此训练，需由 {names} 签署。",
    ),
    "gate.you.cannot": (
        "The policy does not name you; it must be signed by {names}.",
        "策略中没有您的名字，需由 {names} 签署。",
    ),
    "gate.you.role": (
        "Your Airflow role may not answer questions of this Dag; ask an administrator or {names}.",
        "您的 Airflow 角色不能回答此 Dag 的问题；请联系管理员或 {names}。",
    ),
    "gate.digest": ("Digest of the dossier", "卷宗摘要"),
    "gate.policy": ("Policy", "策略"),
    "gate.policy.none": ("The policy cannot be read: {why}", "无法读取策略：{why}"),
    "gate.policy.changed": (
        "The policy file has changed since this run was opened; this gate follows the recorded one.",
        "策略文件在此训练开始之后已变更；本关口仍按当时记录的策略执行。",
    ),
    "gate.asked": ("Asked", "发起审批"),
    "gate.not_asked": (
        "This gate has not asked yet. What you see is the dossier as it stands now.",
        "此关口尚未发起审批。以下是当前的卷宗。",
    ),
    "gate.decision": ("Decision", "决定"),
    "gate.decided": (
        "{person} {decision} on this evidence.",
        "{person} 依据此证据{decision}。",
    ),
    "gate.reason": ("Reason", "理由"),
    "gate.stale": (
        "Signed for older evidence: this signature no longer counts.",
        "签署的是旧证据：该签署不再有效。",
    ),
    "gate.stale.names": ("Changed since then", "此后变更"),
    "gate.stale.question": (
        "The question in Airflow shows older evidence than this page. Sign here: your answer carries the digest of what you see.",
        "Airflow 中的问题显示的是旧证据。请在此签署：您的答复会带上本页所示内容的摘要。",
    ),
    "gate.refused": ("Answers that do not count", "不计入的答复"),
    "gate.answer": ("Sign", "签署"),
    "gate.answer.reason": ("Reason (required)", "理由（必填）"),
    "gate.answer.reason.hint": (
        "What you looked at, and why you decide so. It is kept with your name.",
        "您查看了什么，为何如此决定。该内容会与您的名字一并保存。",
    ),
    "gate.answer.ack": (
        "I have seen that these advisory items are unrecorded",
        "我已知悉以下建议项未记录",
    ),
    "gate.answer.outcome": ("Outcome", "结果"),
    "gate.answer.airflow": ("Open Airflow's own form", "打开 Airflow 的表单"),
    "gate.answer.sent": (
        "Your answer was handed to Airflow. The gate checks and records it; this page then shows it.",
        "您的答复已提交给 Airflow。关口会核验并记录，随后显示在本页。",
    ),
    "gate.answer.recorded": ("Recorded.", "已记录。"),
    "gate.answer.sending": ("Sending…", "正在提交……"),
    "gate.answer.need_reason": ("Give a reason.", "请填写理由。"),
    "gate.answer.need_ack": (
        "Acknowledge the unrecorded advisory items, or reject.",
        "请确认未记录的建议项，或选择拒绝。",
    ),
    "gate.answer.need_outcome": ("Choose an outcome.", "请选择结果。"),
    "gate.answer.400": ("Airflow did not accept the answer: {detail}", "Airflow 未接受该答复：{detail}"),
    "gate.answer.401": (
        "You are no longer logged in. Log in to Airflow and come back to this page.",
        "您的登录已失效。请重新登录 Airflow 后返回本页。",
    ),
    "gate.answer.403": (
        "Airflow does not let you answer this question: you are not among the persons who may.",
        "Airflow 不允许您回答此问题：您不在可审批人员之列。",
    ),
    "gate.answer.404": (
        "The question is not open any more. Reload the page.",
        "该问题已不存在。请刷新页面。",
    ),
    "gate.answer.409": (
        "This question was answered already. Reload the page to see by whom.",
        "该问题已被回答。请刷新页面查看是谁回答的。",
    ),
    "gate.answer.lost": (
        "The answer could not be sent: {detail}. Nothing was signed; try again.",
        "答复未能提交：{detail}。未签署任何内容，请重试。",
    ),
    "gate.blocked": (
        "{n} required items are not verified: approving is refused until they are.",
        "{n} 个必需项未通过核验：补齐之前批准会被拒绝。",
    ),
    # -- record and package
    "record.title": ("Record", "记录"),
    "record.kind": ("Kind", "类型"),
    "record.position": ("Position in the log", "在日志中的位置"),
    "record.sequence": ("Place in the run", "在训练中的序号"),
    "record.leaf": ("Leaf hash", "叶哈希"),
    "record.previous": ("Hash of the record before it", "前一条记录的哈希"),
    "record.at": ("Recorded", "记录时间"),
    "record.actor": ("Written by", "写入者"),
    "record.task": ("Task try", "任务尝试"),
    "record.edges": ("Rests on", "依据"),
    "record.stored": ("Stored bytes (canonical JSON)", "存储的字节（规范 JSON）"),
    "record.holds": ("The stored bytes hash to the leaf hash", "存储的字节与叶哈希一致"),
    "record.broken": (
        "The stored bytes do not hash to the leaf hash: this record was altered",
        "存储的字节与叶哈希不一致：该记录被改动过",
    ),
    "package.location": ("Location", "位置"),
    "package.files": ("Files", "文件数"),
    "package.size": ("Size", "大小"),
    "package.verdict": ("Verdict", "结论"),
    "package.verify": ("Verify it yourself", "自行核验"),
    "package.written": ("Written", "写入时间"),
    "package.digest": ("Digest", "摘要"),
    # -- items of a run's evidence that no gate asks for
    "item.gate.prepare": ("Prepare gate signed", "准备关口已签署"),
    "item.gate.run": ("Run gate signed", "执行关口已签署"),
    "item.gate.close": ("Close gate signed", "结项关口已签署"),
    "item.run.summary": ("What was asked for", "请求内容"),
    "item.run.people": ("Responsible people", "责任人"),
    "item.data.snapshot": ("Data snapshot", "数据快照"),
    "item.compute.configuration": ("Configuration and environment", "配置与环境"),
    "item.compute.events": ("Key events", "关键事件"),
    "item.artifact.checkpoints": ("Valid checkpoints", "有效检查点"),
    "item.artifact.candidate": ("Candidate", "候选模型"),
    "item.artifact.evaluation": ("Evaluation", "评估"),
    "item.artifact.limits": ("Known limits", "已知限制"),
    "item.artifact.retention": ("Retention", "保留策略"),
    # -- what stands on a timeline
    "kind.run.opened": ("Run opened", "训练开始"),
    "kind.run.failed": ("Run failed", "训练失败"),
    "kind.run.closed": ("Run closed", "训练结项"),
    "kind.gate.dossier": ("Gate asked", "关口发起审批"),
    "kind.gate.decision": ("Gate answered", "关口已审批"),
    "kind.gate.refused": ("Answer refused", "答复不计入"),
    "kind.gate.expired": ("Gate expired", "关口逾期"),
    "kind.package.written": ("Package written", "档案包已写入"),
    "kind.note.added": ("Note added", "添加备注"),
    "kind.ledger.recovered": ("Ledger recovered", "账本恢复"),
    "kind.source.registered": ("Source registered", "数据源已登记"),
    "kind.snapshot.created": ("Snapshot created", "快照已创建"),
    "kind.split.created": ("Split created", "数据已切分"),
    "kind.quality.reported": ("Quality reported", "质量报告"),
    "kind.temporary.removed": ("Temporary data removed", "临时数据已删除"),
    "kind.configuration.declared": ("Configuration declared", "配置已声明"),
    "kind.environment.declared": ("Environment declared", "环境已声明"),
    "kind.environment.observed": ("Environment observed", "环境已观测"),
    "kind.launch.intended": ("Launch token used", "启动令牌已使用"),
    "kind.attempt.started": ("Attempt started", "尝试开始"),
    "kind.attempt.ended": ("Attempt ended", "尝试结束"),
    "kind.metrics.recorded": ("Metrics recorded", "指标已记录"),
    "kind.event.recorded": ("Training event", "训练事件"),
    "kind.stop.fired": ("Stop rule fired", "停止规则触发"),
    "kind.checkpoint.registered": ("Checkpoint registered", "检查点已登记"),
    "kind.checkpoint.refused": ("Checkpoint refused", "检查点被拒绝"),
    "kind.evaluation.reported": ("Evaluation reported", "评估报告"),
    "kind.candidate.named": ("Candidate named", "候选已选定"),
    "kind.release.made": ("Release made", "已发布"),
    "kind.tombstone.written": ("Tombstone written", "墓碑记录已写入"),
    "kind.retention.planned": ("Clean-up planned", "清理已计划"),
    "kind.retention.approved": ("Clean-up approved", "清理已批准"),
    "cause.not_entitled": ("not entitled", "无权签署"),
    "cause.stale": ("answered an older dossier", "答复的是旧卷宗"),
    "cause.submitter": ("is the submitter", "是提交人"),
    "cause.unsigned": ("not signed by a person", "不是由人签署"),
    "cause.invalid": ("not a valid answer", "答复无效"),
    "cause.timed_out": ("too late", "已超时"),
    "gate.field": ("What", "内容"),
    "gate.before": ("Before", "之前"),
    "gate.now": ("Now", "现在"),
    "run.loss.not_finite": (
        "Values that are not finite: {n}.",
        "非有限值：{n} 个。",
    ),
    "run.timeline.cut": ("{n} older entries are in the package.", "更早的 {n} 条见档案包。"),
    "record.pretty": ("Content", "内容"),
    "package.verify.how": (
        "Anybody with Python 3 and the log's public key can check it; the program lies in the package and reads nothing else.",
        "任何人只需 Python 3 和日志公钥即可核验；核验程序就在档案包中，不读取其他内容。",
    ),
    # -- refusals and errors
    "error.401": ("You are not logged in", "您尚未登录"),
    "error.401.text": (
        "These pages are shown to persons whom Airflow knows. Log in, then come back.",
        "这些页面仅向已登录 Airflow 的用户显示。请登录后返回。",
    ),
    "error.login": ("Log in to Airflow", "登录 Airflow"),
    "error.403": ("Not for you, or not there", "无权查看，或不存在"),
    "error.403.text": (
        "Either you may not read the Dag of this run, or there is no such run. Ask an administrator of Airflow for the permission to read the Dag.",
        "您无权读取此训练所属的 Dag，或该训练不存在。请向 Airflow 管理员申请读取该 Dag 的权限。",
    ),
    "error.404": ("There is no such page", "没有该页面"),
    "error.404.text": ("The list of runs leads to everything.", "从训练列表可以到达所有内容。"),
    "error.405": ("This page only shows", "此页面仅供查看"),
    "error.405.text": ("Nothing can be changed at this address.", "此地址不能更改任何内容。"),
    "error.422": ("This address is not complete", "地址不完整"),
    "error.422.text": ("Expected: {expected}.", "应为：{expected}。"),
    "error.500": ("The page could not be made", "页面生成失败"),
    "error.500.text": (
        "The API server's log says why.",
        "原因见 API 服务器日志。",
    ),
    "error.503": ("The archive cannot be read", "无法读取档案"),
    "error.norun": ("This Dag run has no record yet", "该 Dag 执行尚无记录"),
    "error.norun.text": (
        "The archive knows no run of this Dag run. A run is recorded by its first task, open_run.",
        "档案中没有该 Dag 执行的训练。训练由其第一个任务 open_run 记录。",
    ),
}
