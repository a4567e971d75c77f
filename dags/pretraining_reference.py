"""The reference pre-training DAG: from data to a package that verifies itself.

Trigger it from Airflow's form. At most six fields are open; the others stand in named sections with values
that run the small demo. Approvers answer three gates under Required Actions.

A launch that is stopped by a rule, or failed for good, is followed by a review: resume with the same inputs, resume
as a new run with changes, or stop. Where the training completes, reviews and resumed launches are skipped. Where the
project's policy asks for it, persons read outputs of the candidate before the close gate.
"""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param

from pretrain_archive_operators import (
    ArchiveCloseOperator,
    CheckpointRegisterOperator,
    DataProcessOperator,
    DataSnapshotOperator,
    EvaluateOperator,
    GateApprovalOperator,
    GpuLaunchOperator,
    OpenRunOperator,
    QualityCheckOperator,
    RegisterSourceOperator,
    TemporaryCleanOperator,
)
from pretrain_archive_operators.human_evaluation import human_tasks

TRAINER = Path(__file__).resolve().parents[1] / "docker" / "trainer"
CONFIGURATION = json.loads((TRAINER / "demo.json").read_text())
CHECKPOINT_EVERY = CONFIGURATION.pop("checkpoint_every")
RUN_UID = "{{ ti.xcom_pull(task_ids='open_run')['run_uid'] }}"
# A review is also reached where no run was opened.
REVIEW_UID = "{{ (ti.xcom_pull(task_ids='open_run') or {}).get('run_uid', '') }}"
GATE_RETRIES = 5  # an answer that Airflow loses fails the try; the gate is then asked again


def text(
    title: str, default: str | None = "", *, section: str | None = None, long: bool = False, **more: Any
) -> Param:
    """A text field; None as default means that it may stay unrecorded."""
    kind: object = "string" if default is not None else ["null", "string"]
    extra: dict[str, Any] = {"format": "multiline"} if long else {}
    return Param(default, type=kind, title=title, section=section, **extra, **more)


def lines(title: str, default: list[str], section: str, **more: Any) -> Param:
    """A list of texts, one per line."""
    return Param(default, type="array", items={"type": "string"}, title=title, section=section, **more)


def limit(title: str, **more: Any) -> Param:
    """A limit that may be left empty: then nothing is asked for."""
    return Param(None, type=["null", "number"], title=title, section=STOP, **more)


DATA, CONFIG = "Data · 数据", "Configuration · 配置"
RESOURCES, CHECKPOINTS = "Resources · 资源", "Checkpoints · 检查点"
STOP, PEOPLE = "Stop conditions · 停止条件", "People · 人员"
ACCEPTANCE, RELEASE = "Acceptance · 验收", "Intended use · 用途与发布"

TYPES = {
    "pre-training": "预训练", "continued pre-training": "继续预训练", "fine-tuning": "微调", "alignment": "对齐",
    "evaluation": "评估",
}  # fmt: skip

PARAMS = {
    "project": text(
        "Project · 项目",
        "demo",
        minLength=1,
        description_md="One run is one training decision. What you enter here is what the approvers see.\n\n"
        "一次运行即一个训练决定；审批人看到的正是您在此填写的内容。",
    ),
    "objective": text(
        "Objective · 目标",
        "Learn the byte statistics of Python source as a small language model",
        long=True,
        minLength=8,
    ),
    "training_type": Param(
        "pre-training",
        type="string",
        title="Training type · 训练类型",
        enum=list(TYPES),
        values_display={name: f"{name} · {chinese}" for name, chinese in TYPES.items()},
    ),
    "source": text(
        "Data source · 数据来源",
        "python:stdlib",
        minLength=1,
        description="python:stdlib, a folder, or file://…",
    ),
    "licence": text("Licence of the data · 数据许可", "PSF-2.0", description="An SPDX id, or the contract."),
    "intended_use": Param(
        "research",
        type="string",
        title="Intended use · 用途",
        examples=["research", "experiment", "internal", "product"],
    ),
    "source_name": text("Name of the data · 数据名称", "python-stdlib", section=DATA),
    "origin_class": text(
        "Origin · 来源类别",
        "public corpus",
        section=DATA,
        examples=["internal documents", "public corpus", "labelled", "business logs", "synthetic"],
    ),
    "obtained": text("How it was obtained · 获取方式", "shipped with the Python interpreter", section=DATA),
    "collected_at": text("Collection time · 采集时间", None, section=DATA, format="date-time"),
    "authorisation": text("Authorisation · 授权情况", "open licence", section=DATA),
    "usage_scope": lines("Usage scope · 使用范围", ["research", "experiment", "internal"], DATA),
    "masking": text("Masking of personal data · 脱敏方式", None, section=DATA),
    "business_owner": text(
        "Business owner of the data · 数据业务负责人",
        None,
        section=DATA,
        description="Empty: the project's data owner. · 留空：项目的数据负责人。",
    ),
    "applicable_tasks": lines(
        "Tasks the data may be used for · 适用任务",
        [],
        DATA,
        description="Training types, one per line; empty: not declared. · 每行一个训练类型；留空：未声明。",
    ),
    "access_identity": text(
        "Service identity that reads the data · 读取数据的服务身份",
        None,
        section=DATA,
        description="Empty: the identity that the worker is seen to use. · 留空：工作进程实际使用的身份。",
    ),
    "access_granted_at": text("Access granted at · 读取权限授予时间", None, section=DATA, format="date-time"),
    "access_revoked_at": text(
        "Access ends or was revoked at · 读取权限到期或撤销时间", None, section=DATA, format="date-time"
    ),
    "access_open": text(
        "Why nobody has to permit the reading · 为何无需读取授权",
        None,
        section=DATA,
        description="Only where no permission is needed, for example public data. · 仅在无需授权时填写，例如公开数据。",
    ),
    "include": lines("Only files like · 仅包含", [], DATA),
    "exclude": lines("Without files like · 排除", [], DATA),
    "sample_share": Param(
        None,
        type=["null", "number"],
        exclusiveMinimum=0,
        maximum=1,
        title="Sample: share of the documents · 抽样比例",
        section=DATA,
        description="Empty: the whole. With snapshot:NAME@VERSION as source, runs share one pool.",
    ),
    "sample_seed": Param(0, type="integer", minimum=0, title="Sample: seed · 抽样种子", section=DATA),
    "configuration": Param(
        CONFIGURATION, type="object", title="Training configuration · 训练配置", section=CONFIG
    ),
    "train_command": lines("Training command · 训练命令", ["{python}", str(TRAINER / "train.py")], CONFIG),
    "evaluate_command": lines(
        "Evaluation command · 评估命令", ["{python}", str(TRAINER / "evaluate.py")], CONFIG
    ),
    "human_items": text(
        "Outputs that persons read · 供人工评估的输出",
        None,
        section=CONFIG,
        description="JSON Lines; empty: what the evaluation program writes. · JSON Lines 文件；留空：由评估程序写出。",
    ),
    "base_model": text("Base model · 基础模型", None, section=CONFIG),
    "accelerator": text(
        "Accelerator resource · 加速卡资源名",
        "none",
        section=RESOURCES,
        examples=["none", "nvidia.com/gpu", "huawei.com/Ascend910", "amd.com/gpu"],
    ),
    "accelerators": Param(0, type="integer", minimum=0, title="Accelerators · 加速卡数量", section=RESOURCES),
    "nodes": Param(1, type="integer", minimum=1, title="Nodes · 节点数量", section=RESOURCES),
    "scope": Param(
        "full",
        type="string",
        enum=["full", "exploration"],
        values_display={"full": "full · 正式", "exploration": "exploration · 探索"},
        title="Scope · 范围",
        section=RESOURCES,
        description="An exploration needs no prepare decision, stays below the policy's ceiling and is never released."
        " · 探索无需准备决定，受策略上限约束，且不得发布。",
    ),
    "budget_minutes": Param(
        8, type="number", exclusiveMinimum=0, title="Budget in minutes · 预算（分钟）", section=RESOURCES
    ),
    "checkpoint_every": Param(
        CHECKPOINT_EVERY, type="integer", minimum=1, title="Every … steps · 每隔步数", section=CHECKPOINTS
    ),
    "wall_minutes": Param(
        6, type="number", exclusiveMinimum=0, title="Wall time, minutes · 最长时间（分钟）", section=STOP
    ),
    "no_progress_minutes": Param(
        2, type="number", exclusiveMinimum=0, section=STOP, title="Without a step, minutes · 无进展（分钟）"
    ),
    "start_minutes": limit(
        "Before the first step, minutes (empty: 10) · 首步之前（分钟，空：10）", exclusiveMinimum=0
    ),
    "stop_on_nan": Param(default=True, type="boolean", title="Stop on NaN · 遇 NaN 停止", section=STOP),
    "max_loss": limit("Stop above this loss · 损失上限"),
    "max_attempts": Param(
        3, type="integer", minimum=1, title="Attempts at most · 尝试次数上限", section=STOP
    ),
    "loss_factor": limit("Stop above … × the best loss · 超过最佳损失倍数时停止", exclusiveMinimum=1),
    "loss_points": Param(
        20, type="integer", minimum=1, maximum=1000, title="… for points in a row · 连续点数", section=STOP
    ),
    "stop_on_bad_data": Param(
        default=True, type="boolean", title="Stop at bad data · 遇异常数据停止", section=STOP
    ),
    "max_read_errors": limit("Share of reads that fail, at most · 读取失败比例上限", minimum=0, maximum=1),
    "max_empty_reads": limit("Share of empty reads, at most · 空读比例上限", minimum=0, maximum=1),
    "derived_from": text(
        "Replaces the run · 取代的运行",
        None,
        section=PEOPLE,
        description="The id of the run that this one goes on from with changes. · 本运行在其基础上修改的运行标识。",
    ),
    "responsible": text(
        "Responsible person · 负责人",
        None,
        section=PEOPLE,
        description="Empty: you. Roles come from the project's policy.",
    ),
    "acceptance_metric": text("Metric that decides · 验收指标", "bits_per_byte", section=ACCEPTANCE),
    "acceptance_limit": Param(None, type=["null", "number"], title="Limit · 阈值", section=ACCEPTANCE),
    "must_beat_baselines": Param(
        default=True, type="boolean", title="Must beat every baseline · 须优于全部基线", section=ACCEPTANCE
    ),
    "release_name": text("Name of the release · 发布名称", "python-bytes-demo", section=RELEASE),
    "release_version": text("Version · 版本", "0.1.0", section=RELEASE),
    "applicable": lines(
        "May be used for · 适用场景", ["showing how a training decision is archived"], RELEASE
    ),
    "not_applicable": lines("Must not be used for · 不适用场景", ["writing or judging code"], RELEASE),
    "known_limits": lines(
        "Known limits · 已知限制",
        ["sees 128 bytes of context", "trained for about a minute on one CPU core"],
        RELEASE,
    ),
    "rollback": text("Rollback · 回滚方式", "use the previous release of the same name", section=RELEASE),
    "take_down": text(
        "Take-down · 下线方式", "remove the release's folder; the archive keeps its record", section=RELEASE
    ),
    "serving": lines(
        "If it is to serve · 若要上线服务",
        [],
        RELEASE,
        description="One 'aspect: value' per line: resources, latency, concurrency, safety_boundary, monitoring. · "
        "每行一项“方面: 值”：资源、时延、并发、安全边界、监控。",
    ),
}


def review(task_id: str, name: str, *, last: bool = False) -> GateApprovalOperator:
    """A review of a launch that did not complete; skipped where it did."""
    return GateApprovalOperator(
        task_id=task_id, run_uid=REVIEW_UID, gate="review", retries=GATE_RETRIES, trigger_rule="one_failed",
        task_display_name=name, last=last,
    )  # fmt: skip


def resumed(task_id: str, name: str) -> GpuLaunchOperator:
    """The next attempt of the same run, after a review chose to resume."""
    return GpuLaunchOperator(task_id=task_id, run_uid=RUN_UID, retries=2, task_display_name=name)


with DAG(
    dag_id="pretraining_reference",
    description="From data to a signed, self-verifying package of one pre-training run",
    schedule=None,
    params=PARAMS,
    max_active_runs=16,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=15)},
    tags=["pretrain-archive"],
    doc_md=__doc__,
) as dag:
    open_run = OpenRunOperator(task_id="open_run")
    register_source = RegisterSourceOperator(task_id="register_source", run_uid=RUN_UID)
    snapshot = DataSnapshotOperator(task_id="snapshot", run_uid=RUN_UID, retries=2)
    process = DataProcessOperator(task_id="process", run_uid=RUN_UID, retries=2)
    quality_check = QualityCheckOperator(task_id="quality_check", run_uid=RUN_UID, retries=1)
    prepare_gate = GateApprovalOperator(
        task_id="prepare_gate", run_uid=RUN_UID, gate="prepare", retries=GATE_RETRIES
    )
    gpu_launch = GpuLaunchOperator(task_id="gpu_launch", run_uid=RUN_UID, retries=2)
    # Each review has a task of its own: Airflow shows the first question's text when a task asks again.
    stop_review = review("stop_review", "Review after a stop · 停止后的复审")
    gpu_resume = resumed("gpu_resume", "Resumed launch · 恢复启动")
    second_review = review("second_review", "Second review · 第二次复审")
    gpu_resume_again = resumed("gpu_resume_again", "Second resumed launch · 第二次恢复启动")
    last_review = review("last_review", "Last review · 最后一次复审", last=True)
    register_checkpoints = CheckpointRegisterOperator(
        task_id="register_checkpoints", run_uid=RUN_UID, retries=1, trigger_rule="one_success"
    )
    evaluate = EvaluateOperator(task_id="evaluate", run_uid=RUN_UID, retries=1)
    run_gate = GateApprovalOperator(task_id="run_gate", run_uid=RUN_UID, gate="run", retries=GATE_RETRIES)
    # Persons read outputs where the policy asks for it; elsewhere these tasks are skipped and the close gate is not.
    human_sample, human_report = human_tasks(RUN_UID, retries=1)
    close_gate = GateApprovalOperator(
        task_id="close_gate", run_uid=RUN_UID, gate="close", retries=GATE_RETRIES,
        trigger_rule="none_failed_min_one_success",
    )  # fmt: skip
    archive_close = ArchiveCloseOperator(task_id="archive_close", run_uid=RUN_UID, retries=2)
    clean_up = TemporaryCleanOperator(task_id="clean_up", run_uid=RUN_UID).as_teardown(setups=open_run)

    open_run >> register_source >> snapshot >> process >> quality_check >> prepare_gate >> gpu_launch
    gpu_launch >> stop_review >> gpu_resume >> second_review >> gpu_resume_again >> last_review >> clean_up
    [gpu_launch, gpu_resume, gpu_resume_again] >> register_checkpoints
    register_checkpoints >> evaluate >> run_gate >> human_sample
    [run_gate, human_report] >> close_gate >> archive_close >> clean_up
