"""Carries out an approved plan and kills itself before the step whose number is given: a crash, for tests.

Usage: kill_at_step.py LEDGER_URL PLAN_DIGEST NUMBER. Every append to the ledger is a step, too: even numbers of
the two around it are before and after it.
"""

from __future__ import annotations

import os
import signal
import sys

from tests.support.artifact_run import ACTOR, Run, policies

from pretrain_archive.ledger.factory import open_ledger
from pretrain_archive.retention.folders import FolderFiles
from pretrain_archive.retention.service import apply, find_approval, find_plan


def main(url: str, plan_digest: str, number: int) -> None:
    """Count down and die."""
    left = number

    def step(name: str) -> None:
        nonlocal left
        sys.stdout.write(f"{name}\n")
        sys.stdout.flush()
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

    ledger = open_ledger(url, signing_key=None, anchors=())
    append = ledger.append

    def appending(drafts):
        step("before append")
        records = append(drafts)
        step("after append")
        return records

    ledger.append = appending
    planned, approval = find_plan(ledger, plan_digest), find_approval(ledger, plan_digest)
    places = (FolderFiles(on_step=step),)
    apply(ledger, planned, approval, policies(), actor=ACTOR, origin=Run.origin(), places=places)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
