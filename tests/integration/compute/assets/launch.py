"""A task process of its own: opens the ledger, launches one attempt, prints how it ended.

Arguments: folder of the ledger, run, attempt, JSON of the configuration, and what to do with SIGTERM (default,
or ``on_kill``: a handler that calls ``kill`` and returns, as Airflow's does).
"""

import json
import signal
import sys
from pathlib import Path

from pretrain_archive.compute.local import LocalLaunch
from pretrain_archive.compute.spec import JobSpec, attempt_folder
from pretrain_archive.domain.kinds import Budget, StopConditions
from pretrain_archive.domain.records import Actor, Origin
from pretrain_archive.ledger.factory import open_ledger

root, run_uid, attempt = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
command = json.loads(sys.argv[5])
ledger = open_ledger(f"sqlite:///{root / 'ledger.db'}", signing_key=None, anchors=(), auto_seal=False)
intents = ledger.records(streams=[run_uid], kinds=["launch.intended"])
intent = next(record for record in intents if record.attempt == attempt)
launch = LocalLaunch(
    JobSpec(
        run_uid=run_uid,
        attempt=attempt,
        command=tuple(command),
        configuration=json.loads(sys.argv[4]),
        data_manifest=None,
        work_folder=attempt_folder(root / "work", run_uid, attempt),
        checkpoint_folder=root / "checkpoints",
        budget=Budget(minutes=5, owner="bob"),
        stop=StopConditions(wall_minutes=5, no_progress_minutes=5),
        heartbeat_seconds=0.5,
    ),
    intent=intent,
    ledger=ledger,
    actor=Actor(type="task", name="gpu_launch"),
    origin=Origin(dag_id="d", dag_run_id="r", task_id="gpu_launch"),
    on_checkpoint=lambda event: (Path(event.path) / "state.json").exists(),
    progress=lambda _line: None,
)
if sys.argv[6:] == ["on_kill"]:
    signal.signal(signal.SIGTERM, lambda *_: launch.kill())
print(json.dumps(launch.run().to_json()), flush=True)  # noqa: T201
