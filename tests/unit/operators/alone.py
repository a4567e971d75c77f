"""Run the first tasks of a run while Airflow's database cannot be reached, and print every connection that was made.

Arguments: the request as JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

CONNECTIONS: set[str] = set()


def listen(event: str, args: tuple[Any, ...]) -> None:
    """Note each database file and each address that is connected to."""
    if event == "sqlite3.connect":
        CONNECTIONS.add(str(args[0]))
    elif event == "socket.connect":
        CONNECTIONS.add(f"socket {args[1]}")


sys.addaudithook(listen)

from airflow.sdk.exceptions import AirflowFailException  # noqa: E402 - after the hook
from tests.unit.operators.conftest import context  # noqa: E402

from pretrain_archive_operators import (  # noqa: E402
    DataSnapshotOperator,
    GpuLaunchOperator,
    OpenRunOperator,
    RegisterSourceOperator,
)


def main() -> None:
    """Open, register, snapshot; a launch that is refused."""
    run_uid = OpenRunOperator(task_id="open_run").execute(
        context("open_run", params=json.loads(sys.argv[1]))
    )["run_uid"]
    values: dict[str, Any] = {"run_uid": run_uid}
    for task, operator in (("register_source", RegisterSourceOperator), ("snapshot", DataSnapshotOperator)):
        values[task] = operator(task_id=task, run_uid=run_uid).execute(context(task))
    try:
        GpuLaunchOperator(task_id="gpu_launch", run_uid=run_uid).execute(context("gpu_launch"))
    except AirflowFailException as error:
        values["launch"] = str(error)
    sys.stderr.write("\n" + json.dumps({"values": values, "connections": sorted(CONNECTIONS)}) + "\n")


if __name__ == "__main__":
    main()
