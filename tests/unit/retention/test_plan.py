"""The rules of the clean-up: what is live is never deleted, order and age come from records."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.artifact_run import policies
from tests.unit.retention.subjects import NOW, RUN, subject

from pretrain_archive.domain.identity import format_time
from pretrain_archive.retention.plan import decide
from pretrain_archive.retention.subjects import Kept, Subject


def needed(reason: str, by: str) -> tuple[Kept, ...]:
    """What the ledger says needs a subject."""
    return (Kept(reason=reason, by=by),)


def going(subjects, **policy) -> set[int]:
    """The steps that the plan deletes."""
    items = decide(subjects, policies(**policy), now=NOW)
    assert all(item["reason"] for item in items)
    return {item["step"] for item in items if item["action"] == "delete"}


@pytest.mark.case("R01")
@pytest.mark.requirement("R147")
def test_the_last_are_the_last_by_number():
    """10000 and 10100 are newer than 9900, whatever the text order."""
    steps = [*range(9000, 10000, 100), 10000, 10100]

    assert set(steps) - {9900, 10000, 10100} == going(
        [subject(step) for step in reversed(steps)], keep_last=3
    )


@pytest.mark.case("R03")
@pytest.mark.requirement("R151")
def test_selected_and_referenced_ones_stay_with_their_reason():
    """A candidate's source, a release's, another run's base: each kept and told why."""
    subjects = [
        subject(100, live=needed("source of candidate:a", "candidate:a")),
        subject(200, live=needed("source of candidate:b, release:r", "candidate:b")),
        subject(300, run_state="waiting_close", run_uid="run_open"),
        subject(400, live=needed("used by run:other", "run:other")),
        subject(500),
        subject(600),
    ]

    items = {item["step"]: item for item in decide(subjects, policies(), now=NOW)}

    assert [500] == [step for step, item in items.items() if item["action"] == "delete"]
    assert ("source of candidate:a", "candidate:a") == (items[100]["reason"], items[100]["blocked_by"])
    assert "release:r" in items[200]["reason"]
    assert "waiting_close" in items[300]["reason"]
    assert "used by run:other" in items[400]["reason"]
    assert "one of the last 1" in items[600]["reason"]


@pytest.mark.parametrize(
    ("changes", "action", "words"),
    [
        pytest.param({"project": "other"}, "blocked", "no retention policy of 'other'", id="no policy"),
        pytest.param({"project": ""}, "blocked", "unrecorded project", id="no project"),
        pytest.param({"gaps": ("disk away",)}, "blocked", "disk away", id="missing evidence"),
        pytest.param(
            {"artifact_class": "candidate"}, "keep", "no rule is about class candidate", id="candidate class"
        ),
        pytest.param(
            {"artifact_class": "unheard"}, "keep", "no rule is about class unheard", id="unknown class"
        ),
        pytest.param(
            {"replaced_by": "checkpoint:new"}, "keep", "location now holds checkpoint:new", id="replaced"
        ),
        pytest.param({"run_state": "failed"}, "keep", "failed, not closed", id="failed run"),
        pytest.param({"run_state": "unrecorded"}, "keep", "unrecorded, not closed", id="run unrecorded"),
        pytest.param({"missing": True}, "delete", "already missing", id="bytes gone"),
        pytest.param({}, "delete", "older than 0 days", id="nothing keeps it"),
    ],
)
def test_each_state_has_its_answer(changes, action, words):
    """An old checkpoint beside a newer one, in one state each."""
    item = decide([subject(1, **changes), subject(2)], policies(), now=NOW)[0]
    if changes.get("project") == "":
        item = next(
            i for i in decide([subject(1, **changes), subject(2)], policies(), now=NOW) if i["step"] == 1
        )

    assert action == item["action"]
    assert words in item["reason"]


@pytest.mark.requirement("R155")
@pytest.mark.parametrize("days", [29, 31])
def test_age_counts_from_the_registration(days):
    """Evaluation checkpoints live as long as the policy says."""
    registered = format_time(NOW - timedelta(days=days))

    assert ({1} if days > 30 else set()) == going(
        [subject(1, artifact_class="evaluation", registered_at=registered)]
    )


@pytest.mark.parametrize("held", ["ckpt_1", "checkpoint:ckpt_1", RUN, f"run:{RUN}", "demo", "project:demo"])
def test_a_legal_hold_keeps(held):
    """By checkpoint, run or project."""
    items = decide([subject(1), subject(2)], policies(hold=(held,)), now=NOW)

    assert ("keep", f"legal hold on {held}") == (items[0]["action"], items[0]["reason"].split(";")[0])


@pytest.mark.case("R07")
def test_steps_and_registrations_that_disagree_are_kept():
    """Nothing is concluded from an order that contradicts itself."""
    late, early = format_time(NOW - timedelta(days=1)), format_time(NOW - timedelta(days=90))
    subjects = [subject(100, registered_at=late), subject(200, registered_at=early), subject(300)]

    assert set() == going(subjects)
    assert "other order" in decide(subjects, policies(), now=NOW)[0]["reason"]


def test_a_later_attempt_that_rewound_is_later():
    """Steps of the abandoned branch go first."""
    old = [subject(step, ref=f"checkpoint:old_{step}") for step in (100, 200)]
    at = format_time(NOW - timedelta(days=50))
    new = subject(150, attempt=2, registered_at=at)

    assert {100, 200} == going([*old, new])


def test_one_that_is_gone_does_not_count_as_kept():
    """The newest bytes that are really there are the last ones."""
    assert {300} == going([subject(100), subject(200), subject(300, missing=True)]) - {100}
    assert 200 not in going([subject(100), subject(200), subject(300, missing=True)])


STATES = st.sampled_from(
    ["closed", "closed", "closed", "open", "training", "failed", "waiting_close", "unrecorded"]
)
SUBJECTS = st.lists(
    st.builds(
        subject,
        st.integers(0, 20_000),
        run_uid=st.sampled_from(["run_a", "run_b"]),
        artifact_class=st.sampled_from(["recovery", "recovery", "evaluation", "candidate", "odd"]),
        attempt=st.integers(1, 3),
        run_state=STATES,
        registered_at=st.integers(0, 400).map(lambda days: format_time(NOW - timedelta(days=days))),
        live=st.sampled_from([(), (), needed("used by run:other", "run:other")]),
        gaps=st.sampled_from([(), (), ("unknown",)]),
        project=st.sampled_from(["demo", "demo", "other", ""]),
        missing=st.booleans(),
    ),
    max_size=12,
    unique_by=lambda entry: entry.ref,
)


def in_order(subjects: list[Subject]) -> list[Subject]:
    """The same subjects, registered in the order of attempt and step, the oldest first."""
    times = sorted(entry.registered_at for entry in subjects)
    ordered = sorted(subjects, key=lambda entry: entry.order)
    return [dataclasses.replace(entry, registered_at=at) for entry, at in zip(ordered, times, strict=True)]


@pytest.mark.requirement("R151")
@settings(max_examples=500, deadline=None)
@given(
    subjects=SUBJECTS,
    keep_last=st.integers(1, 4),
    age=st.integers(0, 200),
    hold=st.sampled_from([(), ("run_a",)]),
)
def test_what_is_live_is_never_deleted(subjects, keep_last, age, hold):
    """Whatever the history: an open run's, a candidate's, a referenced, held or unproven one stays."""
    items = decide(subjects, policies(keep_last=keep_last, age=age, hold=hold), now=NOW)
    known = {entry.ref: entry for entry in subjects}

    assert sorted(known) == sorted(item["id"] for item in items)
    for item in items:
        own = known[item["id"]]
        live = own.run_state != "closed" or own.live or own.gaps
        if live or own.run_uid in hold or own.project != "demo" or own.artifact_class in {"candidate", "odd"}:
            assert item["action"] != "delete"
        if item["action"] == "delete" and own.artifact_class == "recovery" and not own.missing:
            later = [
                peer
                for peer in subjects
                if peer.run_uid == own.run_uid
                and peer.artifact_class == "recovery"
                and not peer.missing
                and peer.order > own.order
            ]
            assert len(later) >= keep_last
            assert own.registered_at <= format_time(NOW - timedelta(days=age))
