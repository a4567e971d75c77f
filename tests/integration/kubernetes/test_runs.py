"""Whole attempts over HTTP: the real wrapper and a small program, started by the fake's kubelet."""

from __future__ import annotations

import threading

import pytest

from pretrain_archive.domain.kinds import AttemptEnded, AttemptStarted, JobRemoved, MemberObserved
from tests.fakes.cluster import FakeCluster
from tests.integration.kubernetes.playground import IMAGE, NAMESPACE, Run


def test_a_program_runs_to_its_end_and_leaves_nothing(run: Run, cluster: FakeCluster) -> None:
    """The job completes, its evidence is in the ledger, job and pods are gone and that is proved."""
    ended = run.launch().run()

    assert ("completed", "completed", True) == (ended.state, ended.exit_class, ended.counted), ended
    assert (20, 20) == (ended.last_step, ended.last_checkpoint_step)
    [removed] = run.facts("job.removed", JobRemoved)
    assert (True, 1, []) == (removed.verified_absent, removed.pods_before, removed.pods_left)
    assert ([], []) == (list(cluster.list("jobs")), list(cluster.list("pods")))
    assert 1 == len(cluster.started)
