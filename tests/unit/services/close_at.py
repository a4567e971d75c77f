"""Close a run in a process of its own; die at a named place, or wait at the start for a line on standard input.

Arguments: database URL, key file, store folder, packages folder, run uid, DAG run id, place (or empty), name.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tests.unit.gates.asked_run import DAG_ID, policy_with

from pretrain_archive.domain.errors import ArchiveError
from pretrain_archive.domain.records import Actor, Origin
from pretrain_archive.ledger.anchors import FileAnchor
from pretrain_archive.ledger.factory import open_ledger
from pretrain_archive.package import assembly, writer
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.closing import Shelf, close_archive
from pretrain_archive.storage.files import FileStore


def die(*_args: object, **_more: object) -> None:
    """As the kernel ends a process that is killed."""
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Close the run and print the package's digest."""
    url, key, store, packages, run_uid, dag_run_id, place, name = sys.argv[1:]
    anchors = [FileAnchor(Path(key).with_name("anchors"))]
    ledger = open_ledger(url, signing_key=Path(key), anchors=anchors)
    if place:
        module = next(module for module in (writer, assembly) if hasattr(module, place))
        setattr(module, place, die)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    caller = Caller(
        origin=Origin(dag_id=DAG_ID, dag_run_id=dag_run_id, task_id=name), actor=Actor(type="task", name=name)
    )
    try:
        shelf = Shelf(
            packages_folder=Path(packages), verifier_key=Path(key).with_suffix(".pub").read_text().strip(),
            policies=lambda _: policy_with(),
        )  # fmt: skip
        done = close_archive(ledger, FileStore(Path(store)), caller, run_uid, shelf)
    except ArchiveError as error:
        sys.stdout.write(f"refused {error}\n")
        return
    sys.stdout.write(f"closed {done.package.digest}\n")


if __name__ == "__main__":
    main()
