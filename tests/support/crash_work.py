"""Snapshot work for a process that is killed: ``python -m tests.support.crash_work whole|parts FOLDER``.

The source is ``FOLDER/in``, the store ``FOLDER/store``. Prints ``begun`` when all is imported and open.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.data_track import ACTOR, origin

from pretrain_archive.data.snapshots import create_snapshot
from pretrain_archive.ledger.factory import open_ledger
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.snapshotting import Wanted, make_part, merge, plan_parts
from pretrain_archive.storage.factory import open_store


def ledger_of(folder: Path):
    """The ledger of a folder."""
    return open_ledger(f"sqlite:///{folder / 'ledger.db'}", signing_key=None, anchors=[])


def whole(folder: Path) -> None:
    """One process snapshots everything, with stamps."""
    create_snapshot(
        open_store(f"file://{folder}/store"), ledger_of(folder), name="corpus", source_root=folder / "in",
        mode="copy", actor=ACTOR, origin=origin(), stamps=folder / "stamps",
    )  # fmt: skip


def parts(folder: Path) -> None:
    """Plan, hash each part, merge; what an earlier try planned is gone on with, as Airflow does by XCom."""
    store, ledger = open_store(f"file://{folder}/store"), ledger_of(folder)
    caller = Caller(actor=ACTOR, origin=origin(dag_run_id="one", task_id="merge"))
    note = folder / "plan"
    if not note.exists():
        wanted = Wanted(name="corpus", source=str(folder / "in"), mode="copy", stream="data/corpus")
        plan = plan_parts(ledger, store, caller, wanted, parts=3)
        note.with_suffix(".new").write_text(f"{len(plan.parts)} {plan.name}")
        note.with_suffix(".new").rename(note)
    count, name = note.read_text().split(maxsplit=1)
    if store.stat(name.rpartition("@")[0] + "/plan.json"):
        for number in range(1, int(count) + 1):
            make_part(store, caller, name, number)
    merge(ledger, store, caller, name)


WORK = {"whole": whole, "parts": parts}

if __name__ == "__main__":
    place = Path(sys.argv[2])
    ledger_of(place)
    print("begun", flush=True)  # noqa: T201 - the sign to begin counting
    WORK[sys.argv[1]](place)
