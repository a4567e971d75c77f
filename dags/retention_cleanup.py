"""The daily clean-up: recovery checkpoints of closed runs that policy lets go.

Plan, approval, delete, verify absent, tombstone. Below the policy's limit the policy itself approves; above it
a person answers under Required Actions. What a candidate, a release, an open run or a hold needs is never touched.

Beside it: jobs on clusters whose DAG run is over or was deleted are ended, and so are their attempts on record.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from pretrain_archive_operators.retention import (
    RetentionApplyOperator,
    RetentionApprovalOperator,
    RetentionPlanOperator,
)
from pretrain_archive_operators.unfollowed_jobs import UnfollowedJobsOperator

PLAN = "{{ ti.xcom_pull(task_ids='plan')['plan_digest'] }}"

with DAG(
    dag_id="retention_cleanup",
    description="Delete recovery checkpoints of closed runs by policy, with approval, proof and tombstones",
    schedule="@daily",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retry_delay": timedelta(minutes=1)},
    tags=["pretrain-archive"],
    doc_md=__doc__,
) as dag:
    plan = RetentionPlanOperator(task_id="plan", retries=1)
    approve = RetentionApprovalOperator(task_id="approve", plan_digest=PLAN, retries=5)
    apply = RetentionApplyOperator(task_id="apply", plan_digest=PLAN, retries=2)

    UnfollowedJobsOperator(task_id="unfollowed_jobs", retries=2)
    plan >> approve >> apply
