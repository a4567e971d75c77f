"""A gate and behind it a launch for every trigger rule of Airflow: whatever is marked, some of them will run.

Params are those of the reference DAG; tests trigger it with all of them.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from pretrain_archive_operators import (
    DataProcessOperator,
    DataSnapshotOperator,
    GateApprovalOperator,
    GpuLaunchOperator,
    OpenRunOperator,
    QualityCheckOperator,
    RegisterSourceOperator,
)

RUN_UID = "{{ ti.xcom_pull(task_ids='open_run')['run_uid'] }}"
RULES = (
    "all_success", "all_failed", "all_done", "all_done_min_one_success", "one_success", "one_failed", "one_done",
    "none_failed", "none_failed_min_one_success", "none_skipped", "all_skipped",
)  # fmt: skip

with DAG(
    dag_id="bypass_launches",
    schedule=None,
    catchup=False,
    default_args={"retry_delay": timedelta(seconds=1)},
) as dag:
    open_run = OpenRunOperator(task_id="open_run")
    register_source = RegisterSourceOperator(task_id="register_source", run_uid=RUN_UID)
    snapshot = DataSnapshotOperator(task_id="snapshot", run_uid=RUN_UID)
    process = DataProcessOperator(task_id="process", run_uid=RUN_UID)
    quality_check = QualityCheckOperator(task_id="quality_check", run_uid=RUN_UID)
    prepare_gate = GateApprovalOperator(task_id="prepare_gate", run_uid=RUN_UID, gate="prepare", retries=0)
    open_run >> register_source >> snapshot >> process >> quality_check >> prepare_gate
    for rule in RULES:
        prepare_gate >> GpuLaunchOperator(task_id=f"launch_{rule}", run_uid=RUN_UID, trigger_rule=rule)
