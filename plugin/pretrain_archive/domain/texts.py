"""Words that people read in gate forms, pages and packages: English and 简体中文 side by side.

Item ids, codes and digests are never translated. Terms follow Airflow's own Chinese interface.
"""

from __future__ import annotations

from typing import Literal

Language = Literal["en", "zh-CN"]

GATES: dict[str, tuple[str, str]] = {
    "prepare": ("Prepare gate", "准备关口"),
    "review": ("Review after a stop", "停止后的复审"),
    "run": ("Run gate", "执行关口"),
    "close": ("Close gate", "结项关口"),
    "retention": ("Clean-up approval", "清理审批"),
}

VERDICTS: dict[str, tuple[str, str]] = {
    "verified": ("verified", "已核验"),
    "changed": ("changed", "已变更"),
    "unrecorded": ("unrecorded", "未记录"),
}

TRACKS: dict[str, tuple[str, str]] = {
    "data": ("Data", "数据"),
    "compute": ("Compute", "算力"),
    "artifact": ("Artifact", "产物"),
    "gates": ("Gates", "关口"),
}

STATES: dict[str, tuple[str, str]] = {
    "unrecorded": ("unrecorded", "未记录"),
    "open": ("open", "进行中"),
    "waiting_prepare": ("waiting at the prepare gate", "等待准备关口"),
    "waiting_review": ("waiting for a review", "等待复审"),
    "waiting_run": ("waiting at the run gate", "等待执行关口"),
    "waiting_close": ("waiting at the close gate", "等待结项关口"),
    "training": ("training", "训练中"),
    "failed": ("failed", "失败"),
    "closed": ("closed", "已结项"),
}

OUTCOMES: dict[str, tuple[str, str]] = {
    "register": ("register the model", "登记模型"),
    "continue": ("continue experimenting", "继续实验"),
    "clean_up": ("clean up", "清理"),
    "resume": ("resume from the last verified checkpoint", "从最后一个已核验检查点恢复"),
    "resume_changed": ("resume with changes, as a new run", "修改后作为新运行恢复"),
    "stop": ("stop here", "到此停止"),
    "stopped": ("stopped after a review", "复审后停止"),
    "superseded": ("replaced by a new run with changes", "由修改后的新运行取代"),
    "explored": ("explored; never a candidate", "已探索；产物不得成为候选"),
    "rejected": ("rejected", "已拒绝"),
    "expired": ("expired without an answer", "逾期未答复"),
}

ITEMS: dict[str, tuple[str, str]] = {
    "prepare.confirmed": ("The eight things to confirm are recorded", "八项待确认内容均已记录"),
    "prepare.data_scope": ("Data version and usage scope", "数据版本与使用范围"),
    "prepare.source_rights": ("Sources may still be used", "数据源仍可使用"),
    "prepare.quality": ("Data quality", "数据质量"),
    "prepare.quality_advice": ("Advice of the quality report", "质量报告的提示"),
    "prepare.label_review": ("Labels reviewed by persons", "标签人工复核"),
    "prepare.processing": ("Processing rules and split", "处理规则与切分"),
    "prepare.config_environment": ("Configuration and environment ids", "配置与环境标识"),
    "prepare.budget": ("Resources and budget owner", "资源与预算负责人"),
    "prepare.checkpoints": ("Checkpoints: place, retention, restore", "检查点：位置、保留与恢复责任"),
    "prepare.run_id": ("One run id for data, task and results", "统一的运行标识"),
    "prepare.stop_conditions": ("Stop conditions", "停止条件"),
    "prepare.retention": ("Retention policy of the project", "项目的保留策略"),
    "prepare.masking": ("Masking of personal data", "个人数据脱敏方式"),
    "prepare.collected_at": ("Collection time of the data", "数据采集时间"),
    "prepare.access_identity": ("Identity that read the data", "读取数据的身份"),
    "prepare.access_granted": ("When reading was permitted", "读取权限的授予时间"),
    "run.completed": ("The last attempt completed", "最后一次尝试已完成"),
    "run.explainable": ("Failures, changes and recovery are explainable", "失败、变更与恢复可解释"),
    "run.evidence_location": ("Raw evidence can be found", "原始证据可定位"),
    "run.environment": ("Environment as declared", "环境与声明一致"),
    "run.reconciled": ("Recoveries reconciled", "恢复后已核对"),
    "run.members_loaded": ("Checkpoint loaded by every worker", "每个工作进程均已加载检查点"),
    "run.data_path": ("Same data read by every worker", "每个工作进程读取的数据一致"),
    "run.changes": ("Manual changes, and drift that they explain", "人工变更及其解释的漂移"),
    "review.cause": ("Why the attempt ended", "尝试结束的原因"),
    "review.checkpoint": ("Checkpoint to resume from", "可恢复的检查点"),
    "review.lost": ("Steps lost", "丢失的步数"),
    "review.budget": ("Budget left", "剩余预算"),
    "review.attempts": ("Attempts left", "剩余尝试次数"),
    "review.environment": ("Environment as signed", "环境与签署一致"),
    "review.data": ("Data as signed", "数据与签署一致"),
    "review.sources": ("Sources may still be read", "数据源仍可读取"),
    "review.changes": ("Manual changes since the launch", "启动以来的人工变更"),
    "review.prepare": ("Prepare gate still stands", "准备关口仍有效"),
    "run.resources": ("Resources were used", "资源得到有效使用"),
    "run.moving": ("Training loss moves down", "训练损失在下降"),
    "run.metrics": ("Training loss recorded", "训练损失已记录"),
    "run.checkpoints": ("Verified checkpoints", "已核验的检查点"),
    "run.evaluated": ("Evaluation with baselines", "带基线的评估"),
    "run.signed_apart": ("Signed apart from the prepare gate", "与准备关口分别签署"),
    "close.candidate": ("Candidate and its reason", "候选模型及理由"),
    "close.evaluation": ("Evaluation scope and acceptance", "评估范围与验收"),
    "close.human_evaluation": ("Outputs read by persons", "输出的人工评估"),
    "close.human_caveats": ("What weakens the human evaluation", "人工评估的保留意见"),
    "close.limits": ("Known limits", "已知限制"),
    "close.links": ("Leads back to data and configuration", "可回溯到数据与配置"),
    "close.further_use": ("Further use", "后续用途"),
    "close.gates_signed": ("Earlier gates signed", "此前关口已签署"),
    "close.tracks": ("No track is missing", "三条轨道齐全"),
    "close.walkthrough": ("Walk-through by a non-participant", "非参与者走查"),
    "close.conclusion": ("Conclusion of the experiment", "实验结论"),
    "release.version": ("Release: version", "发布：版本"),
    "release.origin": ("Release: origin", "发布：来源"),
    "release.rights": ("Release: rights to the data", "发布：数据权利"),
    "release.evaluation": ("Release: evaluation report", "发布：评估报告"),
    "release.applicable": ("Release: where it may be used", "发布：适用场景"),
    "release.not_applicable": ("Release: where it must not be used", "发布：不适用场景"),
    "release.scope": ("Release: not from an exploration", "发布：不得来自探索训练"),
    "release.rollback": ("Release: rollback and take-down", "发布：回滚与下线方式"),
    "release.serving": ("Release: ready to serve", "发布：上线服务检查"),
    "release.registry": ("Release: in a registry", "发布：已入登记库"),
}

FACTS: dict[str, tuple[str, str]] = {
    "project": ("Project", "项目"),
    "objective": ("Objective", "目标"),
    "training_type": ("Training type", "训练类型"),
    "intended_use": ("Intended use", "用途"),
    "submitter": ("Triggering user", "触发用户名称"),
    "service": ("How it is run", "运行方式"),
    "snapshot": ("Data snapshot", "数据快照"),
    "snapshot_digest": ("Snapshot digest", "快照摘要"),
    "processing": ("Processing", "数据处理"),
    "split": ("Split", "切分"),
    "configuration_digest": ("Configuration", "配置"),
    "code_digest": ("Code", "代码"),
    "environment_digest": ("Environment", "环境"),
    "command": ("Training command", "训练命令"),
    "evaluate_code_digest": ("Evaluation code", "评估代码"),
    "evaluate_command": ("Evaluation command", "评估命令"),
    "evaluations": ("Evaluation programs and suites", "评估程序与指标集"),
    "budget": ("Budget", "预算"),
    "stop": ("Stop conditions", "停止条件"),
    "checkpoints": ("Checkpoints", "检查点"),
    "policy": ("Policy", "策略"),
    "attempts": ("Attempts", "尝试次数"),
    "last_step": ("Last step", "最后一步"),
    "attempt": ("Attempt", "尝试"),
    "stopped_by": ("Ended by", "结束原因"),
    "steps_lost": ("Steps lost", "丢失步数"),
    "cost": ("Taken so far", "目前已用"),
    "attempts_used": ("Attempts used", "已用尝试次数"),
    "attempts_remaining": ("Attempts left", "剩余尝试次数"),
    "minutes_spent": ("Minutes taken", "已用分钟"),
    "minutes_left": ("Minutes left", "剩余分钟"),
    "accelerator_hours_spent": ("Accelerator hours taken", "已用加速卡小时"),
    "accelerator_hours_left": ("Accelerator hours left", "剩余加速卡小时"),
    "resume_step": ("Checkpoint to resume from, step", "恢复检查点的步数"),
    "steps_to_repeat": ("Steps done again", "重做步数"),
    "kept_bytes": ("Checkpoint kept", "保留的检查点"),
    "prepare_valid": ("Prepare approval, for further attempts until", "准备关口批准，后续尝试有效至"),
    "loss": ("Loss at the end", "最终损失"),
    "seconds": ("Training time", "训练时长"),
    "checkpoint": ("Checkpoint", "检查点"),
    "candidate": ("Candidate", "候选模型"),
    "evaluation": ("Evaluation", "评估"),
    "release": ("Release", "发布"),
    "accelerator_hours": ("Accelerator hours at most", "加速卡小时上限"),
    "wall_minutes": ("Minutes at most", "分钟上限"),
    "attempts_left": ("Attempts at most", "尝试次数上限"),
    "recovery_bytes": ("Recovery checkpoints on disk (bytes)", "恢复检查点占用（字节）"),
}


def _pick(table: dict[str, tuple[str, str]], key: str, language: Language) -> str:
    found = table.get(key)
    if found is None:
        return key.replace("_", " ")
    return found[1] if language == "zh-CN" else found[0]


def gate_title(gate: str, language: Language) -> str:
    """The gate's name."""
    return _pick(GATES, gate, language)


def item_title(item_id: str, language: Language) -> str:
    """The title of a checklist item."""
    return _pick(ITEMS, item_id, language)


def fact_title(key: str, language: Language) -> str:
    """The title of a dossier fact."""
    return _pick(FACTS, key, language)


def verdict_word(verdict: str, language: Language) -> str:
    """The word for a verdict."""
    return _pick(VERDICTS, verdict, language)


def track_title(track: str, language: Language) -> str:
    """The name of a track."""
    return _pick(TRACKS, track, language)


def state_word(state: str, language: Language) -> str:
    """The word for a run's state."""
    return _pick(STATES, state, language)


def outcome_word(outcome: str, language: Language) -> str:
    """The word for what a run's close decided."""
    return _pick(OUTCOMES, outcome, language)
