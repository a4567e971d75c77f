"""A run as the clean-up follows it, record by record, stands as its view says; and what runs in it is known."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.artifact_run import ACTOR, DIGEST

from pretrain_archive.domain.records import Origin, Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.retention.running import KINDS, RunNow

PAYLOADS = {
    "run.opened": {"project": "demo", "submitter": "alice", "derived_from": None},
    "gate.dossier": {"gate": "close"},
    "gate.decision": {"gate": "close", "decision": "approve", "dossier_digest": DIGEST},
    "gate.expired": {"gate": "close"},
    "gate.refused": {"gate": "close"},
    "attempt.started": {"attempt": 1},
    "attempt.ended": {"attempt": 1},
    "job.created": {"name": "job", "namespace": "n"},
    "job.ended": {"name": "job", "namespace": "n"},
    "job.removed": {"name": "job", "namespace": "n", "verified_absent": True},
}


def record(number: int, kind: str) -> Record:
    """A record of the run; only its kind and payload matter."""
    return Record(
        record_id=f"rec_{number}", position=number, stream="run_a", sequence=number, previous="", kind=kind,
        schema_version=1, attempt=0, ordinal=0, payload=PAYLOADS.get(kind, {}), actor=ACTOR,
        origin=Origin(dag_id="d", dag_run_id="r", task_id="t"), recorded_at=f"2026-11-29T10:00:{number:02d}.000000Z",
    )  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(kinds=st.lists(st.sampled_from(KINDS), max_size=12))
def test_the_state_is_that_of_the_view(kinds):
    """After any records in any order, and a closed run stays closed."""
    records = [record(number, kind) for number, kind in enumerate(kinds)]
    run = RunNow(uid="run_a")
    for each in records:
        run.take(each.kind, each.payload, each.recorded_at)

    assert RunView.of("run_a", records).state == run.state
    assert run.closed is ("run.closed" in kinds)
    approved = [each.recorded_at for each in records if each.kind == "gate.decision"]
    assert approved == [at for _, at in run.decisions]


def test_what_runs_is_known():
    """A job until it ended or is proven absent, an attempt until it ended."""
    run = RunNow(uid="run_a")
    run.take("job.created", PAYLOADS["job.created"], "t")
    run.take("attempt.started", {"attempt": 2}, "t")
    run.take("job.removed", {**PAYLOADS["job.removed"], "verified_absent": False}, "t")
    run.take("attempt.ended", {"attempt": 1}, "t")
    assert ({"n/job"}, {2}) == (run.jobs, run.attempts)

    run.take("job.removed", PAYLOADS["job.removed"], "t")
    run.take("attempt.ended", {"attempt": 2}, "t")

    assert (set(), set()) == (run.jobs, run.attempts)
