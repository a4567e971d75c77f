"""What a plan says would fall is what verification says after the deletion; long plans; the books on it."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest
from tests.integration.retention.planned_runs import ask, carry_out, of_step, plan, steps
from tests.support.artifact_run import ACTOR, POLICY, Run
from tests.unit.retention.subjects import policy_with

from pretrain_archive.artifacts.candidates import name_candidate
from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import RefusedError, StorageError
from pretrain_archive.domain.policy import parse_policy
from pretrain_archive.domain.verdicts import Verdict
from pretrain_archive.retention import pages, planning, service
from pretrain_archive.retention.folders import FolderFiles
from pretrain_archive.retention.whatif import predicted, standing
from pretrain_archive.storage.files import FileStore

PLACES = (FolderFiles(),)


def decide(run: Run, gate: str) -> None:
    """A gate asks and bob approves."""
    ask(run, gate=gate)
    run.append(
        kinds.GateDecision(
            gate=gate, decision="approve", person_id="bob", person_name="bob", reason="good",
            dossier_digest=f"sha256:{'0123456789'[len(gate)] * 64}", dossier_record="rec_x",
            responded_at="2026-11-29T10:00:00Z", outcome="register" if gate == "close" else None,
        )  # type: ignore[arg-type]
    )  # fmt: skip


def live_run(ledger, store, folder: Path, chance: random.Random) -> Run:
    """A closed run: checkpoints before and after its gates, some evaluated, a dropped and perhaps a kept candidate."""
    run = Run(ledger, store, folder).open()
    decide(run, "prepare")
    facts = [run.checkpoint(step * 100) for step in range(1, chance.randint(3, 6))]
    decide(run, "run")
    facts.append(run.checkpoint(1000))
    for fact in facts:
        if chance.random() < 0.5:
            run.evaluate(fact, chance.random())
            if chance.random() < 0.6:
                name_candidate(
                    ledger, run_uid=run.uid, checkpoint_id=fact.checkpoint_id, kept=chance.random() < 0.3,
                    reason="tried", why_not_best="because", actor=ACTOR, origin=run.origin(),
                )  # fmt: skip
    decide(run, "close")
    run.close()
    return run


@pytest.mark.requirement("R150")
@pytest.mark.parametrize("seed", range(6))
def test_what_would_fall_is_what_falls(ledger, tmp_path, seed):
    """On real files, every byte hashed: the prediction from the plan equals the verification after the deletion."""
    chance, store = random.Random(seed), FileStore(tmp_path / "store")
    for number in range(2):
        run = live_run(ledger, store, tmp_path / f"run_{number}", chance)
    policy = policy_with({"action": "delete", "keep_last": 1})
    ruined = chance.choice(sorted(run.folder.glob("step_*")))
    if seed % 2:  # bytes that are gone before any plan verify nothing, and nothing falls with them
        shutil.rmtree(ruined)
    planned = plan(run, policy)
    going = list(service.items_of(planned, None, going=True))
    before = standing(ledger, PLACES, hashed=True)
    assert going
    assert Verdict.VERIFIED in before.values()
    for item in going:
        verified = {d for (d, ref), v in before.items() if ref == item["id"] and v is Verdict.VERIFIED}
        assert verified == set(item.get("falls", [])), item["id"]

    done = carry_out(run, planned, policy)

    assert {"deleted", "already_missing"} >= {result.outcome for result in done.results}
    after = standing(ledger, PLACES, hashed=True)
    gone = {item["id"] for item in going if not item["bytes"]}
    told = {key: verdict for key, verdict in predicted(before, going).items() if key[1] not in gone}
    assert told == {key: verdict for key, verdict in after.items() if key[1] not in gone}
    assert {Verdict.UNRECORDED} >= {verdict for key, verdict in after.items() if key[1] in gone}


@pytest.mark.requirement("R150")
def test_what_falls_with_a_part_falls_once(ledger, run):
    """The optimizer goes: decisions about the whole cannot be verified again. Later the rest goes: no more falls."""
    parts = policy_with({"action": "delete_parts", "parts": ["optimizer"], "keep_last": 1}, keep_last=9)
    whole = policy_with({"action": "delete", "keep_last": 1})
    before = standing(ledger, PLACES, hashed=True)
    first = plan(run, parts)
    assert {100, 200} == steps(first, "delete_parts")
    assert carry_out(run, first, parts).bytes_released == first.total_bytes

    between = standing(ledger, PLACES, hashed=True)
    assert predicted(before, first.items) == between
    second = plan(run, whole)
    assert [[], []] == [of_step(second, step).get("falls", []) for step in (100, 200)]
    assert carry_out(run, second, whole).bytes_released == second.total_bytes
    assert between == standing(ledger, PLACES, hashed=True)


def test_the_summary_counts_what_falls_and_what_it_costs(run):
    """By kind of decision, with the policy's price; without a price the cost is unrecorded."""
    text = policy_with()
    planned = plan(run, text)
    said = planned.summary["projects"]["demo"]

    assert {"run": 1} == said["falls"]
    assert (None, None) == (said["cost_per_month"], said["kept_cost_per_month"])
    assert {"delete": 2, "keep": 1} == said["actions"]
    assert planned.total_bytes == said["bytes"] == sum(of_step(planned, s)["bytes"] for s in (100, 200))
    assert {"last": 1} == said["reasons"]["keep"]


def test_cost_is_bytes_by_the_policys_price(run):
    """Of what goes and of what stays, in the policy's currency."""
    text = POLICY.format(keep_last=1, age=0, limit=10**9, hold="[]")
    text += '[cost]\nper_gigabyte_month = 1000000.0\ncurrency = "CHF"\n'
    planned = plan(run, {"demo": parse_policy(text.encode(), name="demo.toml")})
    said = planned.summary["projects"]["demo"]

    assert ("CHF", round(planned.total_bytes / 1000, 6)) == (said["currency"], said["cost_per_month"])
    assert round(said["kept_bytes"] / 1000, 6) == said["kept_cost_per_month"] > 0


@pytest.fixture
def long_plan(run, monkeypatch):
    """A plan of three items where two fit into a record, one to a page."""
    monkeypatch.setattr(planning, "MOST_INLINE", 2)
    monkeypatch.setattr(pages, "PAGE", 1)
    return plan(run, store=run.store)


def test_a_long_plan_is_in_pages_and_carried_out_from_them(run, long_plan, monkeypatch):
    """The record holds numbers and a digest, the store the items; reading them again gives the same."""
    assert ([], 3) == (long_plan.items, long_plan.item_count)
    assert long_plan.plan_digest == long_plan.items_digest
    monkeypatch.undo()
    inline = service.make_plan(run.ledger, policy_with())
    assert inline.items == list(service.items_of(long_plan, run.store))
    assert inline.summary == long_plan.summary
    assert long_plan == service.find_plan(run.ledger, long_plan.plan_digest)

    done = carry_out(run, long_plan, store=run.store)

    assert ["deleted", "deleted"] == [result.outcome for result in done.results]
    assert long_plan.total_bytes == done.bytes_released


def test_pages_that_were_changed_or_lost_delete_nothing(run, long_plan):
    """Other bytes under a page's name, no page, no store: refused before anything goes."""
    folder = run.folder.parent / "store" / "retention" / "plans"
    index = json.loads((folder / f"{long_plan.plan_digest[7:]}.json").read_bytes())
    last = [entry["digest"] for entry in index["pages"] if entry["going"]][-1]
    page = folder / f"{last[7:]}.json"
    whole = page.read_bytes()
    page.chmod(0o644)
    page.write_bytes(whole.replace(b'"delete"', b'"keep"  '))
    with pytest.raises(StorageError, match="other bytes"):
        carry_out(run, long_plan, store=run.store)
    page.unlink()
    with pytest.raises(StorageError):
        carry_out(run, long_plan, store=run.store)
    with pytest.raises(RefusedError, match="not a recorded plan"):
        carry_out(run, long_plan)

    assert len(list(run.folder.glob("step_*"))) == 3


def test_a_long_plan_without_a_store_is_refused(run, monkeypatch):
    """Nothing is recorded that cannot be read back."""
    monkeypatch.setattr(planning, "MOST_INLINE", 2)

    with pytest.raises(RefusedError, match="no store"):
        plan(run)
    assert not list(run.ledger.records(kinds=["retention.planned"]))


def test_with_few_looks_left_what_protects_is_looked_at(run, monkeypatch):
    """The newest was removed by hand: also without looks for what goes, the one before it is kept in its place."""
    monkeypatch.setattr(planning, "MOST_LOOKS", 0)
    shutil.rmtree(run.folder / "step_00000300")

    planned = service.make_plan(run.ledger, policy_with())

    assert {100, 300} == steps(planned)
    assert "already missing" in of_step(planned, 300)["reason"]
    assert "one of the last 1" in of_step(planned, 200)["reason"]
    assert planned.summary["unlooked"] == 1
