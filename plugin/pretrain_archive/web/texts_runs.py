"""Words of the frame, of the list of runs and of a run's page: English, 简体中文."""

from __future__ import annotations

RUNS: dict[str, tuple[str, str]] = {
    # -- frame
    "archive": ("Pretrain archive", "训练档案"),
    "runs": ("Runs", "训练"),
    "crumbs": ("Where you are", "当前位置"),
    "skip": ("Skip to the content", "跳到正文"),
    "unrecorded": ("unrecorded", "未记录"),
    "none": ("none", "无"),
    "show_record": ("Record", "记录"),
    "show_quality": ("Quality report", "质量报告"),
    "colon": (": ", "："),
    "comma": (", ", "、"),
    # -- states and verdicts
    "state.waiting": ("waiting for a person", "等待审批"),
    "gate.prepare.when": ("before large resources are used", "使用大量资源之前"),
    "gate.review.when": (
        "after an attempt was stopped or failed for good, before any further one",
        "尝试被停止或最终失败之后、再次尝试之前",
    ),
    "gate.run.when": ("after training", "训练结束之后"),
    "gate.close.when": ("before anything is handed over", "交付任何内容之前"),
    # -- list of runs
    "runs.search": ("Search", "搜索"),
    "runs.search.hint": (
        "Purpose, project, person, Dag or run id",
        "目的、项目、人员、Dag 或执行 ID",
    ),
    "runs.find": ("Find", "查找"),
    "runs.state": ("State", "状态"),
    "runs.all": ("all", "全部"),
    "runs.waiting": ("Waiting for a person", "等待审批"),
    "runs.evidence": ("Evidence", "证据"),
    "runs.purpose": ("Purpose", "目的"),
    "runs.submitter": ("Submitted by", "提交人"),
    "runs.opened": ("Opened", "开始时间"),
    "runs.project": ("Project", "项目"),
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
    "run.gates": ("Gates", "关口"),
    "run.gate.none": ("not asked yet", "尚未开始"),
    "run.gate.waiting": ("waits for an answer", "等待审批"),
    "run.gate.approve": ("approved", "已批准"),
    "run.gate.reject": ("rejected", "已拒绝"),
    "run.gate.expired": ("expired without an answer", "过期未审批"),
    "run.gate.stale": ("signed for older evidence", "签署的是旧证据"),
    "run.gate.open": ("Open the gate view", "打开关口视图"),
    "run.gate.self": ("self-signed", "自行签署"),
    "run.timeline": ("Records, newest first", "记录（最新在前）"),
    "run.timeline.fold": ("Show {n} more", "再显示 {n} 条"),
    "items.quality.failed": ("documents: {n}; not passed: {names}", "{n} 个文档；未通过：{names}"),
    "about.applied": (
        "{kind} by {rule}: {kept} of {read} documents kept",
        "按 {rule}（{kind}）：{read} 个文档中保留 {kept} 个",
    ),
    "about.split": (
        "{train} documents for training, {held_out} held out",
        "训练 {train} 个文档，留出 {held_out} 个",
    ),
    "about.passed": ("passed", "已通过"),
    "about.not_passed": ("not passed", "未通过"),
    "about.access": ("{action}: {identity}", "{action}：{identity}"),
    "about.granted": ("granted", "已授予"),
    "about.revoked": ("revoked", "已撤销"),
    "about.sampled": ("documents: {n}", "{n} 个文档"),
    "about.page": ("page {n}", "第 {n} 页"),
    "about.reviewed": ("{agreement} % agreement in {n} answers", "{n} 个答复，一致率 {agreement}%"),
    "run.packages": ("Packages", "档案包"),
    "run.packages.none": (
        "No package yet: it is written after the close gate.",
        "还没有档案包：结项关口通过后才会写入。",
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
        (
            "Loss over steps: {first} at step {first_step}, {last} at step {last_step}; lowest {low}. "
            "{points} points in {attempts} attempts."
        ),
        (
            "损失随步数变化：第 {first_step} 步为 {first}，第 {last_step} 步为 {last}；最低 {low}。"
            "共 {attempts} 次尝试，{points} 个点。"
        ),
    ),
    "run.loss.legend": (
        (
            "Bold: what the model was built from. Dashed: steps that a later attempt repeated. The band "
            "shows the lowest and highest value."
        ),
        "粗线：最终采用的部分。虚线：后来的尝试重复的步数。色带：最低值与最高值。",
    ),
    "run.others": ("This Dag run recorded more than one run", "该 Dag 执行记录了多个训练"),
    "run.exploration": ("Exploration", "探索训练"),
    "run.exploration.about": (
        "Launched without a full sign-off, under the ceiling of the policy. What it made is never a candidate.",
        "未经完整签批启动，受策略上限约束。其产物不得成为候选。",
    ),
    "run.failure": ("The run failed in {task}", "训练在 {task} 失败"),
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
        "{snapshot} went in ({bytes}; files: {files}), from {source} under the licence {licence}{steps}.",
        "使用数据 {snapshot}（{bytes}，{files} 个文件），来自 {source}，许可证为 {licence}{steps}。",
    ),
    "six.data.steps": (
        "; steps of processing kept {kept} of {read} documents",
        "；经处理，{read} 个文档中保留 {kept} 个",
    ),
    "six.data.none": ("Which data goes in is unrecorded.", "使用哪些数据：未记录。"),
    "six.conditions.text": (
        (
            "It runs with configuration {configuration} and code {code}, on {where} for at most {minutes} "
            "minutes, paid by {owner}."
        ),
        "采用配置 {configuration} 和代码 {code}；资源：{where}；最长 {minutes} 分钟，预算由 {owner} 负责。",
    ),
    "six.cpu": ("the CPU only", "仅 CPU"),
    "six.conditions.none": (
        "Configuration and resources are unrecorded.",
        "配置与资源：未记录。",
    ),
    "six.events.text": (
        (
            "Attempts made: {attempts}; the last one {state} at step {step}; steps lost: {lost}, repeated: "
            "{repeated}."
        ),
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
}
