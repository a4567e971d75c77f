"""A run whose labels persons review before the prepare gate, and that holds once more before the launch.

Params are those of the reference DAG; tests trigger it with all of them.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG

from pretrain_archive_operators import (
    DataSnapshotOperator,
    GateApprovalOperator,
    GpuLaunchOperator,
    LabelReviewOperator,
    LabelSampleOperator,
    LabelSummaryOperator,
    OpenRunOperator,
    QualityCheckOperator,
    RegisterSourceOperator,
)

RUN_UID = "{{ ti.xcom_pull(task_ids='open_run')['run_uid'] }}"

with DAG(
    dag_id="labelled_run",
    schedule=None,
    catchup=False,
    default_args={"retry_delay": timedelta(seconds=5)},
) as dag:
    open_run = OpenRunOperator(task_id="open_run")
    register_source = RegisterSourceOperator(task_id="register_source", run_uid=RUN_UID)
    snapshot = DataSnapshotOperator(task_id="snapshot", run_uid=RUN_UID)
    sample = LabelSampleOperator(task_id="label_sample", run_uid=RUN_UID)
    review = LabelReviewOperator.partial(task_id="label_review", run_uid=RUN_UID, retries=3).expand(
        page=sample.output
    )
    summary = LabelSummaryOperator(task_id="label_summary", run_uid=RUN_UID)
    quality_check = QualityCheckOperator(task_id="quality_check", run_uid=RUN_UID)
    prepare_gate = GateApprovalOperator(task_id="prepare_gate", run_uid=RUN_UID, gate="prepare", retries=3)
    hold = ApprovalOperator(task_id="hold", subject="Something happens between signature and launch")
    gpu_launch = GpuLaunchOperator(task_id="gpu_launch", run_uid=RUN_UID)

    open_run >> register_source >> snapshot >> sample
    review >> summary >> quality_check >> prepare_gate >> hold >> gpu_launch
