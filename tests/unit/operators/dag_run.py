"""Run the DAG of a large snapshot in this process by Airflow's own runner, with a database of its own.

Arguments: the params of the run as JSON. Prints the state of the run and what each task returned, as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from airflow.utils.db import initdb

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "dags"))


def main() -> None:
    """Make the database, run the DAG, tell what it returned."""
    initdb()
    import large_snapshot

    run = large_snapshot.dag.test(run_conf=json.loads(sys.argv[1]))
    told = {
        f"{ti.task_id}.{ti.map_index}": {"state": str(ti.state), "returned": ti.xcom_pull(task_ids=ti.task_id,
                                                                  map_indexes=ti.map_index)}
        for ti in run.get_task_instances()
    }  # fmt: skip
    sys.stderr.write("\n" + json.dumps({"state": str(run.state), "tasks": told}, default=list) + "\n")


if __name__ == "__main__":
    main()
