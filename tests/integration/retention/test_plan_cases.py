"""Plans on a real ledger with real folders: names, times and references that lie, and what became live in between."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta

import pytest
from tests.integration.retention.planned_runs import (
    EVERY_CLASS,
    ask,
    begin_from,
    carry_out,
    of_step,
    plan,
    steps,
)
from tests.support.artifact_run import ACTOR, DIGEST, POLICY, Run
from tests.unit.retention.subjects import policy_with

from pretrain_archive.artifacts.candidates import name_candidate
from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import InputError, RefusedError
from pretrain_archive.domain.identity import format_time
from pretrain_archive.domain.policy import parse_policy
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.retention import holding, service
from pretrain_archive.retention.liveness import still_free
from pretrain_archive.storage.files import FileStore

WHO = {"person": "dora", "reason": "an audit"}


def said(run: Run) -> dict:
    """Who records, from a task try of its own."""
    return {"actor": ACTOR, "origin": run.origin()}


@pytest.fixture
def six(ledger, store_of, tmp_path) -> Run:
    """A closed run with steps 100 to 600: 100 has the lowest loss, 200 became the kept candidate."""
    made = Run(ledger, store_of, tmp_path / "six").open()
    facts = {step: made.checkpoint(step) for step in range(100, 700, 100)}
    made.evaluate(facts[100], 0.1)
    made.evaluate(facts[200], 0.2)
    name_candidate(
        ledger, run_uid=made.uid, checkpoint_id=facts[200].checkpoint_id, kept=True, reason="registered",
        why_not_best="100 overfits", **said(made),
    )  # fmt: skip
    made.close()
    made.facts = facts
    return made


@pytest.fixture
def store_of(tmp_path):
    """A store in a folder."""
    return FileStore(tmp_path / "store")


@pytest.mark.case("R03")
@pytest.mark.requirement("R151")
def test_best_registered_asked_and_warm_started_ones_stay(six, ledger, tmp_path):
    """Of six only 500 goes: each that stays has its reason, and what is planned is what is done."""
    gate = Run(ledger, six.store, tmp_path / "gate").open()
    ask(gate, six.facts[300].checkpoint_id)
    warm = Run(ledger, six.store, tmp_path / "warm").open()
    begin_from(warm, six.facts[400].location)
    policy = policy_with({**EVERY_CLASS, "classes": []})

    planned = plan(six, policy)

    assert {500} == steps(planned)
    reasons = {step: of_step(planned, step)["reason"] for step in (100, 200, 300, 400, 600)}
    assert "the best by loss (0.1)" in reasons[100]
    assert "source of candidate:" in reasons[200]
    assert f"an open gate of {gate.uid} asks about it" in reasons[300]
    assert f"used by run:{warm.uid}" in reasons[400]
    assert "one of the last 1" in reasons[600]
    done = carry_out(six, planned, policy)
    assert [of_step(planned, 500)["id"]] == [r.id for r in done.results if r.outcome == "deleted"]
    assert {100, 200, 300, 400, 600} == {s for s in six.facts if (six.folder / f"step_{s:08d}").exists()}


@pytest.mark.case("R03")
def test_nothing_goes_while_a_registry_cannot_be_asked(six):
    """A registry that the policy names is out of reach: everything of the project is blocked, also after the plan."""
    blocked = plan(six, policy_with({**EVERY_CLASS}, registries=["http://127.0.0.1:1"]))
    planned = plan(six, policy_with({**EVERY_CLASS}))
    done = carry_out(six, planned, policy_with({**EVERY_CLASS}, registries=["http://127.0.0.1:1"]))

    assert set(six.facts) == steps(blocked, "blocked")
    assert {"kept_for_later"} == {result.outcome for result in done.results}
    assert all("cannot be asked" in result.reason for result in done.results)
    assert len(list(six.folder.glob("step_*"))) == 6


@pytest.mark.case("R01")
def test_the_plan_goes_by_number_and_is_what_is_done(run, ledger, tmp_path):
    """9000 to 10100 keep the last three; a checkpoint named best stays; the dry run equals the deletion."""
    made = Run(ledger, run.store, tmp_path / "many").open()
    for step in (9000, 9800, 9900, 10000, 10100):
        made.checkpoint(step, name=f"checkpoint-{step}")
    made.checkpoint(9100, name="checkpoint-best", attempt=2)
    made.close()
    policy = policy_with(keep_last=3)

    planned = plan(made, policy)
    mine = {item["step"]: item["action"] for item in planned.items if item["run"] == made.uid}
    carry_out(made, planned, policy)

    gone = {step for step, action in mine.items() if action == "delete"}
    assert {9000, 9800, 9900} == gone
    assert {f"checkpoint-{s}" for s in (10000, 10100, "best")} == {
        p.name for p in made.folder.glob("checkpoint-*")
    }


@pytest.mark.case("R07")
@pytest.mark.parametrize(
    "times",
    [
        pytest.param((1, 2, 3), id="reversed"),
        pytest.param((5, 5, 5), id="all equal"),
        pytest.param((-300, -300, -300), id="in the future"),
        pytest.param((20_000, 20_000, 20_000), id="1970"),
    ],
)
def test_file_times_decide_nothing(run, times):
    """Age and order come from registrations; whatever the files say, the same one stays."""
    for step, days in zip((100, 200, 300), times, strict=True):
        for path in (run.folder / f"step_{step:08d}", *(run.folder / f"step_{step:08d}").iterdir()):
            moment = max(time.time() - days * 86_400, 1)
            os.utime(path, (moment, moment))
    later = datetime.now(UTC) + timedelta(days=8)

    young = service.make_plan(run.ledger, policy_with(age=7))
    old = service.make_plan(run.ledger, policy_with(age=7), now=later)

    assert set() == steps(young)
    assert {100, 200} == steps(old)


@pytest.mark.case("R07")
def test_a_clock_behind_the_newest_record_plans_nothing(run):
    """Two hours back: refused before anything is judged."""
    with pytest.raises(RefusedError, match="ages cannot be trusted"):
        service.make_plan(run.ledger, policy_with(), now=datetime.now(UTC) - timedelta(hours=2))


BETWEEN = {
    "a hold": lambda run, fact: holding.place_hold(
        run.ledger, policy_with(), f"checkpoint:{fact.checkpoint_id}", **WHO, **said(run)
    ),
    "a late class": lambda run, fact: holding.classify(
        run.ledger, fact.checkpoint_id, artifact_class="candidate", purpose="ablation", **WHO, **said(run)
    ),
    "an evaluation": lambda run, fact: run.append(
        kinds.EvaluationStarted(
            try_id="try_1", checkpoint_id=fact.checkpoint_id, checkpoint_digest=fact.digest,
            lease_until=format_time(datetime.now(UTC) + timedelta(hours=1)),
        )
    ),
    "a warm start": lambda run, _: begin_from(
        Run(run.ledger, run.store, run.folder / "other").open(), f"{run.folder}/step_00000100/model.safetensors"
    ),
    "a question": lambda run, fact: ask(
        Run(run.ledger, run.store, run.folder / "gate").open(), fact.checkpoint_id
    ),
    "a child": lambda run, _: Run(run.ledger, run.store, run.folder / "child").open(derived_from=run.uid),
}  # fmt: skip


@pytest.mark.requirement("R151")
@pytest.mark.parametrize("event", BETWEEN)
def test_what_became_live_after_the_plan_is_kept(run, event):
    """Planned and approved; then somebody needs it: it stays, and the reason is told."""
    planned = plan(run)
    assert {100, 200} == steps(planned)
    ref = of_step(planned, 100)["id"]
    view = RunView.of(run.uid, run.ledger.records(streams=[run.uid]))
    fact = next(found for _, found in view.all(kinds.CheckpointRegistered) if found.step == 100)
    assert {} == still_free(run.ledger, [ref])

    BETWEEN[event](run, fact)

    done = {result.id: result for result in carry_out(run, planned).results}
    assert done[ref].outcome == "kept"
    assert done[ref].reason.startswith("since the plan: ")
    assert (run.folder / "step_00000100").exists()
    if event != "a late class":  # which is a matter of rules, not of life
        assert ref in still_free(run.ledger, [ref])


@pytest.mark.requirement("R098", "R153")
def test_the_newest_class_counts(run):
    """Made a candidate late it stays, made a recovery checkpoint again it goes; the words before stay on record."""
    ref = of_step(plan(run), 100)["id"]
    first = holding.classify(run.ledger, ref, artifact_class="candidate", purpose=None, **WHO, **said(run))
    assert {200} == steps(plan(run))

    second = holding.classify(run.ledger, ref, artifact_class="recovery", purpose="spare", **WHO, **said(run))

    assert {100, 200} == steps(plan(run))
    assert ("recovery", "candidate") == (first.previous_class, second.previous_class)
    assert ("spare", "dora") == (second.purpose, second.by)
    assert len(list(run.ledger.records(kinds=["checkpoint.classified"]))) == 2


@pytest.mark.requirement("R151")
def test_a_hold_has_a_person_and_a_reason(run):
    """Placed by anybody with a reason, lifted by who placed it or an approver; two holds are two."""
    target = f"run:{run.uid}"
    first = holding.place_hold(run.ledger, policy_with(), target, **WHO, **said(run))
    second = holding.place_hold(
        run.ledger, policy_with(), "project:demo", person="eve", reason="court", **said(run)
    )
    assert [first, second] == holding.holds(run.ledger)
    assert set() == steps(plan(run))
    assert "held: an audit (dora)" in of_step(plan(run), 100)["reason"]

    with pytest.raises(RefusedError, match="may not release"):
        holding.release_hold(
            run.ledger, policy_with(), second.hold_id, person="mallory", reason="x", **said(run)
        )
    with pytest.raises(InputError, match="reason"):
        holding.release_hold(run.ledger, policy_with(), first.hold_id, person="dora", reason=" ", **said(run))
    with pytest.raises(InputError, match="not on record"):
        holding.place_hold(run.ledger, policy_with(), "run:nowhere", **WHO, **said(run))
    for hold, person in ((first, "dora"), (second, "bob")):
        holding.release_hold(
            run.ledger, policy_with(), hold.hold_id, person=person, reason="over", **said(run)
        )

    assert [] == holding.holds(run.ledger)
    assert {100, 200} == steps(plan(run))


@pytest.mark.requirement("R152")
def test_what_nobody_answers_for_is_reported_once(run):
    """Alice left the policy: her checkpoints that stay are told to the owner, in the project's records, once."""
    text = POLICY.format(keep_last=1, age=0, limit=10**9, hold="[]").replace('"alice"', '"carol"')
    without_her = {"demo": parse_policy(text.encode(), name="demo.toml")}

    planned = plan(run, without_her)
    plan(run, without_her)

    [record] = run.ledger.records(kinds=["retention.ownerless"])
    kept = of_step(planned, 300)
    assert ("project/demo", "carol", 1) == (
        record.stream,
        record.payload["reported_to"],
        record.payload["count"],
    )
    assert ({"alice": 1}, [kept["id"]]) == (record.payload["responsible"], record.payload["examples"])
    assert DIGEST != record.payload["plan_digest"]
    assert "ownerless" not in plan(run).summary["projects"]["demo"]
