"""A recovery drill: a small job of several workers is injured on purpose, and what follows is filed as evidence.

Detected, stopped, rescheduled, loaded by all members, continued, reconciled: each is verified, changed or unrecorded.
The job is an exploration under the ceiling of the policy of its project; what it makes is never a candidate. Run it
before a project relies on recovery, and after each change of scheduler, image, storage or network. The log also says
which teams have confirmed for what they answer on the project's topology; that decides nothing here.
"""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG, Param

from pretrain_archive_operators.recovery_drill import RecoveryDrillOperator

TRAINER = Path(__file__).resolve().parents[1] / "docker" / "trainer"
FAULTS = ["worker_exit", "worker_frozen", "node_lost", "network_cut"]

with DAG(
    dag_id="recovery_drill",
    description="Injure a small job of several workers and file whether it recovers",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    render_template_as_native_obj=False,
    tags=["pretrain-archive"],
    doc_md=__doc__,
    params={
        "inject": Param("worker_exit", type="string", enum=FAULTS, title="What happens"),
        "project": Param("drill", type="string", title="Project whose policy allows it"),
        "node": Param(1, type="integer", minimum=0, title="Node that is hit (from 0)"),
        "nodes": Param(2, type="integer", minimum=1, maximum=16, title="Nodes"),
        "workers": Param(2, type="integer", minimum=1, maximum=16, title="Workers of each node"),
        "at_step": Param(25, type="integer", minimum=11, maximum=99, title="Step at which it happens"),
    },
) as dag:
    RecoveryDrillOperator(
        task_id="drill",
        program=str(TRAINER),
        retries=0,
        **{
            name: f"{{{{ params.{name} }}}}"
            for name in ("inject", "project", "node", "nodes", "workers", "at_step")
        },
    )
