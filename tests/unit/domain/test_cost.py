"""Every device-second lies in exactly one bin, and in the right one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.domain.told_run import DIGEST, Told, at

from pretrain_archive.domain import kinds
from pretrain_archive.domain.cost import account, document
from pretrain_archive.domain.cost_bins import MICRO


def seconds(told: Told, device: str = "machine") -> dict[str, float]:
    """The bins that hold something, in seconds."""
    found = account(told.view).bins(device)  # type: ignore[arg-type]
    return {name: us / MICRO for name, us in found.items() if us}


def killed_and_resumed() -> Told:
    """Steps of one second: ten to start up, saved at 10 and 20 in two seconds, killed in step 26, resumed at 20."""
    told = Told()
    told.open()
    told.launch(1, 0)
    told.start(1, 3)
    told.steps(1, *[(10 + s, s) for s in range(1, 11)])
    told.save(1, 22, 10, took=2)
    told.steps(1, *[(22 + s, s + 10) for s in range(1, 11)])
    told.save(1, 34, 20, took=2)
    told.steps(1, *[(34 + s, s + 20) for s in range(1, 6)])
    told.end(1, 39.5, took=39.5, state="failed", last_step=25, last_checkpoint_step=20)
    told.launch(2, 60)
    told.start(2, 63, resume=20)
    told.steps(2, *[(66 + s, s + 20) for s in range(1, 11)])
    told.save(2, 78, 30, took=2)
    told.end(2, 79, took=19, last_step=30, last_checkpoint_step=30)
    return told


@pytest.mark.requirement("R225")
def test_a_kill_and_a_resume() -> None:
    """Start-up, saves, steps done for nothing and steps done again each have their bin."""
    expected = {
        "start_up": 10 + 6, "productive": 20 + 5, "checkpoint_io": 6, "lost": 5.5, "recomputed": 5, "idle_hold": 1,
    }  # fmt: skip

    assert expected == seconds(killed_and_resumed())


@pytest.mark.parametrize(
    ("gone", "asked", "lost", "held"),
    [
        pytest.param(39.5, None, 5.5, 0.5, id="in the middle of a step: no more than that half"),
        pytest.param(39.0, None, 5.0, 1.0, id="as soon as the step was reported: nothing of the next one"),
        pytest.param(38.0, None, 5.0, 1.0, id="its clock says before the step: the same"),
        pytest.param(39.9, 39.2, 5.2, 0.8, id="asked to end: what comes after that is no work"),
        pytest.param(39.9, 12.0, 5.9, 0.1, id="asked before the last step: the step counts"),
    ],
)
def test_the_programs_own_end(gone: float, asked: float | None, lost: float, held: float) -> None:
    """Where the wrapper tells when the program was gone, a step in the making is measured, not guessed."""
    told = killed_and_resumed()
    where = next(n for n, r in enumerate(told.records) if r.kind == "attempt.ended")
    end = told.records[where]
    told.records[where] = replace(
        end, payload={**end.payload, "program_ended_at": at(gone)}, recorded_at=at(40)
    )
    told.records[where] = replace(told.records[where], payload={
        **told.records[where].payload, "ended_at": at(40), "seconds": 40.0,
    })  # fmt: skip
    if asked is not None:
        told.event(1, asked, "signal", signal=15)

    found = seconds(told)
    assert (pytest.approx(lost), pytest.approx(held + 1)) == (found["lost"], found["idle_hold"])
    assert pytest.approx(40 + 19) == sum(found.values())


def test_a_hang_is_no_step_in_the_making() -> None:
    """A program that stood still until it was killed lost a step; the rest held devices for nothing."""
    told = Told()
    told.open()
    told.launch(1, 0)
    told.start(1, 1)
    told.steps(1, *[(2 + s, s) for s in range(1, 9)])
    told.end(1, 40, took=40, state="failed", program_ended_at=at(39))

    assert {"start_up": 2.0, "lost": 8 + 1, "idle_hold": 40 - 10 - 1} == seconds(told)


def long_run(*, batch: int) -> Told:
    """Fifty thousand steps of a tenth of a second, killed, and resumed twenty thousand steps before."""
    told = Told()
    told.open()
    told.launch(1, 0)
    told.start(1, 1)
    for first in range(0, 50_000, batch):
        told.steps(1, *[(10 + step * 0.1, step) for step in range(first + 1, first + batch + 1)])
    told.save(1, 3010, 30_000, took=0.0)
    told.end(1, 5010.05, took=5010.05, state="failed", program_ended_at=at(5010.05))
    told.launch(2, 6000)
    told.start(2, 6001, resume=30_000)
    for first in range(30_000, 60_000, batch):
        told.steps(2, *[(3010 + step * 0.1, step) for step in range(first + 1, first + batch + 1)])
    told.save(2, 9010, 60_000, took=0.0)
    told.end(2, 9011, took=3011)
    return told


@pytest.mark.parametrize("batch", [500, 5, 1])
def test_a_long_run_is_read_in_part(batch: int) -> None:
    """Of many moments every third is read, whatever the batches: the bins are the same to within some steps."""
    found = account(long_run(batch=batch).view)
    bins = {name: us / MICRO for name, us in found.bins("machine").items() if us}

    assert 5010.05 + 3011 == pytest.approx(sum(bins.values()))
    assert pytest.approx({
        "start_up": 20, "productive": 4000, "lost": 2000.05, "recomputed": 2000, "idle_hold": 1,
    }, abs=0.5) == bins  # fmt: skip
    assert ["thinned", "thinned"] == [said.code for one in found.attempts for said in one.notes]
    assert max(len(one.slices) for one in found.attempts) < 10


def test_steps_that_go_back_are_never_passed_over() -> None:
    """Of a program that went back by itself both ends are read, however many moments there are."""
    told = Told()
    told.open()
    told.launch(1, 0)
    told.start(1, 0)
    steps = [*range(1, 20_002), *range(10_001, 40_001)]
    told.steps(1, *[(number * 0.1, step) for number, step in enumerate(steps, 1)])
    told.save(1, 5000.2, 40_000, took=0.0)
    told.end(1, 5000.2, took=5000.2)

    found = seconds(told)
    assert pytest.approx(1000.1, abs=0.5) == found["lost"]
    assert pytest.approx(1000.1, abs=0.5) == found["recomputed"]


def test_the_nodes_network_is_told_apart() -> None:
    """What interfaces counted is summed over the attempts that tell, and is no byte that a program says it sent."""
    told = killed_and_resumed()
    assert (None, None) == (account(told.view).storage.node_sent_bytes, account(told.view).storage.sent_bytes)
    told.launch(3, 100)
    told.end(3, 101, took=1, node_sent_bytes=7, node_received_bytes=0)

    found = account(told.view).storage
    assert (7, 0, None) == (found.node_sent_bytes, found.node_received_bytes, found.sent_bytes)


def test_the_failure_is_named() -> None:
    """What was lost and what was done again are charged to the end that caused them."""
    told = killed_and_resumed()
    end = next(r for r in told.records if r.kind == "attempt.ended")

    found = {
        (record, attempt, name): us / MICRO for record, attempt, name, _, us in account(told.view).causes()
    }

    assert {(end.record_id, 1, "lost"): 5.5, (end.record_id, 2, "recomputed"): 5.0} == found


def test_a_stop_rule_is_the_cause() -> None:
    """Where a stop rule ended the attempt, its record is the cause and not the end that followed."""
    told = Told()
    told.open()
    told.launch(1, 0)
    told.start(1, 1)
    told.steps(1, *[(2 + s, s) for s in range(1, 9)])
    fired = told.add(kinds.StopFired(attempt=1, rule="no_progress", observed="x", limit="y"), 40, 1)
    told.end(1, 40, took=40, state="stopped")

    expected = {"lost": 8 + 0.5, "idle_hold": 40 - 10 - 0.5}
    assert {"start_up": 2.0, **expected} == seconds(told)
    assert {fired.record_id} == {record for record, *_ in account(told.view).causes()}


def test_the_newest_checkpoint_was_refused() -> None:
    """What lies after the checkpoint that really was resumed from is lost, also where a later one had been written."""
    told = killed_and_resumed()
    told.launch(3, 100)
    told.start(3, 101, resume=10)
    told.steps(3, *[(104 + s, s + 10) for s in range(1, 21)])
    told.save(3, 126, 30, took=2)
    told.end(3, 126, took=26)

    found = seconds(told)

    assert (10, 15.5 + 10, 20) == (found["productive"], found["lost"], found["recomputed"])
    assert ("attempt 3 went on from step 10 although step 30 had been saved",) == tuple(
        note.text() for note in account(told.view).notes
    )


def test_a_running_attempt_has_lost_nothing_yet() -> None:
    """Steps after the last checkpoint count as productive while the attempt has no end, which is said."""
    told = killed_and_resumed()
    told.records = told.records[:8]  # up to the steps after the first checkpoint

    found = account(told.view)

    assert 0 == found.bins("machine")["lost"]
    assert ("no end is recorded: counted up to the newest sign",) == tuple(
        note.text() for note in found.attempts[0].notes
    )


def test_a_program_that_restarts_inside_an_attempt() -> None:
    """Steps that go back begin a new stretch: what they repeat had been lost."""
    told = Told()
    told.open()
    told.launch(1, 0)
    told.start(1, 1)
    told.steps(1, *[(s, s) for s in range(1, 11)])
    told.steps(1, *[(15 + s, s + 5) for s in range(1, 11)])
    told.save(1, 25, 15, took=0)
    told.end(1, 25, took=25)

    assert {"start_up": 5.0, "productive": 5 + 5, "lost": 5.0, "recomputed": 5.0} == seconds(told)


def test_a_save_without_its_seconds_is_estimated() -> None:
    """A program that does not say how long a save took is charged what its step took above the usual one."""
    told = Told()
    told.open()
    told.launch(1, 0)
    told.start(1, 0)
    told.steps(1, *[(s, s) for s in range(1, 11)])
    told.save(1, 13, 10, took=None)
    told.steps(1, *[(13 + s, s + 10) for s in range(1, 11)])
    told.save(1, 26, 20, took=None)
    told.end(1, 26, took=26)

    found = document(account(told.view))

    assert {"productive": 20.0, "checkpoint_io": 6.0} == seconds(told)
    assert 6.0 == found["attempts"][0]["details"]["checkpoint_io/estimated"]  # type: ignore[index]


@pytest.mark.requirement("R084")
def test_a_stall_is_idle() -> None:
    """A step that took much longer than the others did not work all the time."""
    told = Told()
    told.open()
    told.launch(1, 0)
    told.start(1, 0)
    told.steps(1, *[(s, s) for s in range(1, 11)], *[(60 + s, s + 10) for s in range(1, 11)])
    told.save(1, 70, 20, took=0)
    told.end(1, 70, took=70)

    assert {"productive": 20.0, "idle_hold": 50.0} == seconds(told)


def test_evaluation_inside_and_after_training() -> None:
    """Measuring has its own bin, in the program and after it; another device is not mixed with the first."""
    told = Told(accelerators=4)
    told.open()
    told.launch(1, 0)
    told.start(1, 0)
    told.steps(1, *[(s, s) for s in range(1, 11)])
    told.event(1, 14, "evaluation", seconds=4)
    told.steps(1, *[(14 + s, s + 10) for s in range(1, 3)])
    told.save(1, 16, 12, took=0)
    told.end(1, 16, took=16)
    told.add(
        kinds.EvaluationReported(
            evaluation_id="e", checkpoint_id="c", checkpoint_digest=DIGEST, data_set="d", data_set_digest=DIGEST,
            definition={}, definition_digest=DIGEST, metrics=[], baselines=[], flags=[], passed=True, rules=[],
            report_uri="", report_digest=DIGEST, seconds=7.5, devices=0,
        ),
        30,
    )  # fmt: skip

    assert {"productive": 48.0, "evaluation": 16.0} == seconds(told, "accelerator")
    assert {"evaluation": 7.5} == seconds(told)


@pytest.mark.requirement("R132")
def test_exploration_is_one_bin_with_a_visible_split() -> None:
    """A run without full sign-off puts all in one bin; what really happened stays readable."""
    told = killed_and_resumed()
    told.records[2] = told.add(told_launch(), 0, 1)
    told.records.pop()

    found = account(told.view)

    assert {"exploration": 58.5} == seconds(told)
    assert 25 * MICRO == found.inner("machine")["productive"]


def told_launch() -> kinds.LaunchIntended:
    """An intent of the exploration scope."""
    return kinds.LaunchIntended(
        token_digest=DIGEST,
        token={},
        target="local",
        checkpoint_size=1,
        checkpoint_root="",
        signer="",
        scope="exploration",
    )


def test_members_wait_for_each_other() -> None:
    """A member holds devices from its node to its end; until all work, the first ones wait and the last gets ready."""
    told = Told(accelerators=4, nodes=2)
    told.open()
    told.launch(1, 0, target="kubernetes")
    told.add(kinds.WaitObserved(attempt=1, reason="quota", message="m", at=at(5)), 5, 1)
    told.add(kinds.WaitObserved(attempt=1, reason="quota", message="m", at=at(100), ended=True), 100, 1)
    told.member(1, 0, 100, "Pending", node="a")
    told.member(1, 0, 110, "Running", node="a", started_at=110)
    told.member(1, 1, 130, "Pending", node="b")
    told.member(1, 1, 150, "Running", node="b", started_at=150, devices=["x", "y"])
    told.start(1, 150)
    told.steps(1, *[(160 + s, s) for s in range(1, 11)])
    told.save(1, 171, 10, took=1)
    told.member(1, 0, 172, "Succeeded", node="a", ended_at=172)
    told.member(1, 1, 175, "Succeeded", node="b", ended_at=174)
    told.end(1, 171, took=25)

    found = account(told.view)

    expected = {
        "waiting": 2 * 40, "start_up": 2 * (10 + 20) + 4 * 10, "productive": 40, "checkpoint_io": 4,
        "idle_hold": 2 * 1 + 2 * 3,
    }  # fmt: skip
    assert expected == seconds(told, "accelerator")
    assert (2 * 72 + 2 * 44) * MICRO == found.allocated_us("accelerator")
    assert (100 * MICRO, {"quota": 95 * MICRO}) == (found.queue_us, found.waits)


def test_a_member_that_never_got_a_node_holds_nothing() -> None:
    """Waiting without devices costs no device-second; it is queue time."""
    told = Told(accelerators=2)
    told.open()
    told.launch(1, 0, target="kubernetes")
    told.member(1, 0, 1, "Pending")
    told.end(1, 600, took=None, own=False, state="failed")

    found = account(told.view)

    assert (0, 600 * MICRO) == (found.allocated_us("accelerator"), found.queue_us)


@pytest.mark.parametrize(
    ("there", "devices"), [(None, 8), (0, 8), (4, 4), (16, 8)], ids=["untold", "not seen", "fewer", "more"]
)
def test_devices_are_those_that_were_there(there: int | None, devices: int) -> None:
    """Asked for counts, unless fewer were there."""
    told = Told(accelerators=8)
    told.open()
    told.launch(1, 0)
    told.start(1, 1, there=there)
    told.end(1, 10, took=10)

    assert devices * 10 * MICRO == account(told.view).allocated_us("accelerator")


@pytest.mark.requirement("R245")
def test_attribution_and_money() -> None:
    """Team and budget come from the policy as it stood; money only where it names a price."""
    told = Told(accelerators=2)
    told.open(cost={"team": "t", "budget": "b", "per_device_hour": 36.0, "currency": "CNY"})
    told.launch(1, 0)
    told.start(1, 1)
    told.end(1, 100, took=100)

    found = document(account(told.view))

    assert {
        "project": "p", "team": "t", "person": "alice", "budget": "b", "budget_owner": "bob", "priority": None,
        "training_type": "pre-training", "month": "2026-11",
    } == found["attribution"]  # fmt: skip
    assert {"currency": "CNY", "devices": 2.0, "storage": None, "network": None, "known": 2.0} == found[
        "money"
    ]


def test_no_price_no_money() -> None:
    """Without a price there is no amount, not even zero."""
    assert None is account(killed_and_resumed().view).money


def test_storage_counts_until_the_tombstone() -> None:
    """A checkpoint is stored from its record to its tombstone, or until the moment that is asked about."""
    told = Told()
    told.open(cost={"per_gigabyte_month": 30.4375})
    for name in ("kept", "gone"):
        told.add(
            kinds.CheckpointRegistered(
                checkpoint_id=name, step=1, tokens=None, attempt=1, location="", format="f", digest=DIGEST,
                files=[kinds.FileDigest(path="w", size=2_000_000_000, sha256="0" * 64)], components={}, tensors=None,
                tensors_digest=None, snapshot="s@1", configuration_digest=DIGEST, data_position=None,
                responsible="alice", artifact_class="recovery", purpose="",
            ),
            0,
        )  # fmt: skip
    told.add(
        kinds.TombstoneWritten(
            ref="checkpoint:gone", digest=DIGEST, size=1, artifact_class="recovery", reason="r", policy_digest=None,
            approved_by="bob", bytes_released=1, verified_absent=True,
        ),
        86_400,
    )  # fmt: skip

    found = account(told.view, as_of=at(3 * 86_400))

    assert 2e9 * 3 + 2e9 == found.storage.checkpoint_byte_days
    assert found.money is not None
    assert 8.0 == found.money.storage
    assert None is found.storage.sent_bytes


def test_nothing_recorded_costs_nothing() -> None:
    """An empty run has an empty account and no made-up zero of a device."""
    found = account(Told().view)

    assert ((), (), None) == (found.devices, found.attempts, found.attribution.project)
