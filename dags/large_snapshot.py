"""A snapshot of a large source, hashed by one task per part.

The source is listed once; the parts are hashed wherever there is a worker, and merged into the next version of the
name. The digest is that of a snapshot in one task. A part that fails is tried again by itself and goes on where it
was; what is left over in the store is dropped at the end. A run uses the version by the source `snapshot:NAME@VERSION`.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from pretrain_archive_operators import SnapshotMergeOperator, SnapshotPartOperator, SnapshotPlanOperator

PLAN = "{{ ti.xcom_pull(task_ids='plan', key='plan') }}"

PARAMS = {
    "source": Param(
        "python:stdlib",
        type="string",
        minLength=1,
        title="Data source · 数据来源",
        description="python:stdlib, a folder, file://… or s3://[CONNECTION@]bucket/prefix",
    ),
    "name": Param("large-corpus", type="string", minLength=1, title="Name of the data · 数据名称"),
    "mode": Param(
        "copy",
        type="string",
        enum=["copy", "reference"],
        values_display={
            "copy": "copy: keep the bytes · 保存内容",
            "reference": "reference: digests only · 仅保存摘要",
        },
        title="How it is kept · 保存方式",
    ),
    "parts": Param(
        8,
        type="integer",
        minimum=1,
        maximum=512,
        title="Parts · 分片数",
        description="One task each. 每个分片一个任务。",
    ),
    "include": Param([], type="array", items={"type": "string"}, title="Only files like · 仅包含"),
    "exclude": Param([], type="array", items={"type": "string"}, title="Without files like · 排除"),
}

with DAG(
    dag_id="large_snapshot",
    description="Snapshot a large source, hashed in parts by mapped tasks",
    schedule=None,
    catchup=False,
    params=PARAMS,
    default_args={"retry_delay": timedelta(seconds=30)},
    tags=["pretrain-archive"],
    doc_md=__doc__,
) as dag:
    plan = SnapshotPlanOperator(task_id="plan", parts="{{ params.parts }}", retries=1)
    parts = SnapshotPartOperator.partial(task_id="part", plan=PLAN, retries=3).expand(part=plan.output)
    merge = SnapshotMergeOperator(task_id="merge", plan=PLAN, retries=1)

    parts >> merge
