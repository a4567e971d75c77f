"""A small exploration: data and a short training under the policy's ceiling, without any gate.

Nobody signs, so little may be used: the section [exploration] of the project's policy says how many accelerator
minutes a run and a day may take, and the job ends itself at that limit. What such a run makes is marked everywhere
and is never a candidate; for a model that is kept, trigger pretraining_reference with the same inputs. However the
training ended, the last task closes the run and writes its package.
"""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, Param

from pretrain_archive_operators import (
    ArchiveCloseOperator,
    CheckpointRegisterOperator,
    DataProcessOperator,
    DataSnapshotOperator,
    GpuLaunchOperator,
    OpenRunOperator,
    RegisterSourceOperator,
    TemporaryCleanOperator,
)

TRAINER = Path(__file__).resolve().parents[1] / "docker" / "trainer"
CONFIGURATION = json.loads((TRAINER / "demo.json").read_text())
CHECKPOINT_EVERY = CONFIGURATION.pop("checkpoint_every")
RUN_UID = "{{ ti.xcom_pull(task_ids='open_run')['run_uid'] }}"
DATA, LIMITS, REST = "Data · 数据", "Limits · 限制", "Configuration · 配置"


def text(title: str, default: str, section: str | None = None) -> Param:
    """A text that has to be there."""
    return Param(default, type="string", minLength=1, title=title, section=section)


def number(title: str, default: float, section: str) -> Param:
    """A number above 0."""
    return Param(default, type="number", exclusiveMinimum=0, title=title, section=section)


PARAMS = {
    "project": text("Project · 项目", "demo"),
    "objective": Param(
        "See whether the configuration trains at all",
        type="string",
        minLength=8,
        title="What is explored · 探索内容",
        description_md="No sign-off, a small ceiling, never a candidate.\n\n未经签批，上限很小，产物不得成为候选。",
    ),
    "training_type": text("Training type · 训练类型", "pre-training"),
    "source": text("Data source · 数据来源", "python:stdlib"),
    "licence": text("Licence of the data · 数据许可", "PSF-2.0"),
    "intended_use": text("Intended use · 用途", "experiment"),
    "source_name": text("Name of the data · 数据名称", "python-stdlib", DATA),
    "origin_class": text("Origin · 来源类别", "public corpus", DATA),
    "obtained": text("How it was obtained · 获取方式", "shipped with the Python interpreter", DATA),
    "authorisation": text("Authorisation · 授权情况", "open licence", DATA),
    "usage_scope": Param(
        ["research", "experiment", "internal"],
        type="array",
        items={"type": "string"},
        title="Usage scope · 使用范围",
        section=DATA,
    ),
    "accelerator": text("Accelerator resource · 加速卡资源名", "none", LIMITS),
    "accelerators": Param(0, type="integer", minimum=0, title="Accelerators · 加速卡数量", section=LIMITS),
    "budget_minutes": number("Minutes · 分钟", 2, LIMITS),
    "wall_minutes": number("Wall time, minutes · 最长时间（分钟）", 2, LIMITS),
    "no_progress_minutes": number("Without a step, minutes · 无进展（分钟）", 1, LIMITS),
    "max_attempts": Param(
        2, type="integer", minimum=1, title="Attempts at most · 尝试次数上限", section=LIMITS
    ),
    "configuration": Param(
        CONFIGURATION, type="object", title="Training configuration · 训练配置", section=REST
    ),
    "train_command": Param(
        ["{python}", str(TRAINER / "train.py")],
        type="array",
        items={"type": "string"},
        title="Training command · 训练命令",
        section=REST,
    ),
    "evaluate_command": Param(
        ["{python}", str(TRAINER / "evaluate.py")],
        type="array",
        items={"type": "string"},
        title="Evaluation command · 评估命令",
        section=REST,
    ),
    "checkpoint_every": Param(
        CHECKPOINT_EVERY,
        type="integer",
        minimum=1,
        title="Checkpoint every … steps · 检查点间隔",
        section=REST,
    ),
    # An exploration is never released: these have no meaning, and the request has to say so much.
    "acceptance_metric": Param("none", const="none", title="Metric that decides · 验收指标", section=REST),
    "release_name": Param("exploration", const="exploration", title="Release · 发布", section=REST),
    "release_version": Param("0", const="0", title="Version · 版本", section=REST),
    "scope": Param("exploration", const="exploration", title="Scope · 范围", section=LIMITS),
}

with DAG(
    dag_id="exploration",
    description="A short training without a sign-off, under the policy's ceiling; never a candidate",
    schedule=None,
    catchup=False,
    params=PARAMS,
    render_template_as_native_obj=False,
    max_active_runs=4,
    default_args={"retry_delay": timedelta(seconds=15)},
    tags=["pretrain-archive", "exploration"],
    doc_md=__doc__,
) as dag:
    open_run = OpenRunOperator(task_id="open_run", retries=2)
    register_source = RegisterSourceOperator(task_id="register_source", run_uid=RUN_UID, retries=2)
    snapshot = DataSnapshotOperator(task_id="snapshot", run_uid=RUN_UID, retries=2)
    process = DataProcessOperator(task_id="process", run_uid=RUN_UID, retries=2)
    gpu_launch = GpuLaunchOperator(task_id="gpu_launch", run_uid=RUN_UID, retries=1)
    register_checkpoints = CheckpointRegisterOperator(
        task_id="register_checkpoints", run_uid=RUN_UID, retries=1
    )
    # However the launch ended: an exploration that failed is closed with its evidence too.
    archive_close = ArchiveCloseOperator(
        task_id="archive_close", run_uid=RUN_UID, trigger_rule="all_done", retries=1
    )
    clean_up = TemporaryCleanOperator(task_id="clean_up", run_uid=RUN_UID, retries=2).as_teardown(
        setups=open_run
    )

    open_run >> register_source >> snapshot >> process >> gpu_launch >> register_checkpoints >> archive_close
    archive_close >> clean_up
