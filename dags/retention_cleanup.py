"""The daily clean-up: checkpoints, snapshots, temporary data, caches, leftovers and logs that policy lets go.

Plan, approval, delete, verify absent, tombstone, report. Below the policy's limit the policy itself approves; above
it a person answers under Required Actions. What a candidate, a release, an open run, another run, an evaluation, a
registry or a hold needs is never touched.

Beside it: jobs on clusters whose DAG run is over or was deleted are ended, and so are their attempts on record.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from pretrain_archive_operators.retention import (
    RetentionApplyOperator,
    RetentionApprovalOperator,
    RetentionPlanOperator,
    RetentionReportOperator,
)
from pretrain_archive_operators.unfollowed_jobs import UnfollowedJobsOperator

PLAN = "{{ ti.xcom_pull(task_ids='plan')['plan_digest'] }}"

with DAG(
    dag_id="retention_cleanup",
    description="Delete what policy lets go, with approval, proof of absence, tombstones and a report",
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
    report = RetentionReportOperator(task_id="report", plan_digest=PLAN, retries=1, trigger_rule="all_done")

    UnfollowedJobsOperator(task_id="unfollowed_jobs", retries=2)
    plan >> approve >> apply >> report
