"""Each condition of a rule keeps what it says, for the class, purpose and kind that the rule names, and no other."""

from __future__ import annotations

import dataclasses

import pytest
from tests.unit.retention.subjects import RUN, ago, going, items, policy_with, subject

from pretrain_archive.domain.errors import PolicyError
from pretrain_archive.retention.plan import decide
from pretrain_archive.retention.subjects import Kept, Subject, filled_subject

STEPS = [subject(step) for step in range(100, 700, 100)]


def measured(values: dict[int, float | None], **changes) -> list:
    """Checkpoints with a loss each; None was not evaluated."""
    return [
        subject(step, metrics={} if value is None else {"loss": value}, metrics_of="sha256:x", **changes)
        for step, value in values.items()
    ]


@pytest.mark.requirement("R147", "R153")
@pytest.mark.parametrize(
    ("rule", "subjects", "gone"),
    [
        pytest.param({"keep_last": 2}, STEPS, {100, 200, 300, 400}, id="last"),
        pytest.param({"keep_every": 200}, STEPS, {100, 300, 500}, id="every second"),
        pytest.param({"keep_last": 1, "keep_every": 300}, STEPS, {100, 200, 400, 500}, id="conditions add up"),
        pytest.param(
            {"keep_best": {"metric": "loss", "direction": "lower", "count": 1}},
            measured({100: 3.0, 200: 1.0, 300: 2.0, 400: None}), {100, 300, 400}, id="best is lowest",
        ),
        pytest.param(
            {"keep_best": {"metric": "loss", "direction": "higher", "count": 2}},
            measured({100: 3.0, 200: 1.0, 300: 2.0}), {200}, id="best two are highest",
        ),
        pytest.param(
            {"keep_best": {"metric": "loss", "direction": "lower", "count": 1}},
            measured({100: 1.0, 200: 1.0, 300: 2.0}), {300}, id="ties are all kept",
        ),
        pytest.param(
            {"keep_best": {"metric": "accuracy", "direction": "higher", "count": 1}},
            measured({100: 1.0, 200: 2.0}), set(), id="no value, no best, nothing goes",
        ),
        pytest.param(
            {"younger_than_days": 7},
            [subject(100, registered_at=ago(8)), subject(200, registered_at=ago(6))], {100}, id="young",
        ),
        pytest.param(
            {"unused_for_days": 7},
            [subject(100, last_used_at=ago(6)), subject(200, last_used_at=ago(8)), subject(300)], {200, 300},
            id="used lately",
        ),
    ],
)  # fmt: skip
def test_a_condition_keeps_what_it_says(rule, subjects, gone):
    """Of recovery checkpoints of one closed run."""
    assert gone == going(subjects, policy_with({"action": "delete", "classes": ["recovery"], **rule}))


@pytest.mark.requirement("R153")
def test_a_rule_is_about_its_class_and_purpose_only():
    """Recovery and evaluation checkpoints of two purposes, one rule for one of each."""
    rule = {"action": "delete", "classes": ["evaluation"], "purposes": ["sweep"], "keep_last": 1}
    subjects = [
        subject(100, artifact_class="evaluation", purpose="sweep"),
        subject(200, artifact_class="evaluation", purpose="sweep"),
        subject(300, artifact_class="evaluation", purpose="report", registered_at=ago(5)),
        subject(400, artifact_class="recovery", purpose="sweep", registered_at=ago(4)),
    ]

    assert {100} == going(subjects, policy_with(rule))


def test_a_keep_rule_comes_before_what_follows_it():
    """Named by purpose, kept whatever a later rule or the plain fields say; the plain fields hold for the rest."""
    policy = policy_with({"action": "keep", "purposes": ["milestone"]})
    subjects = [subject(100, purpose="milestone"), subject(200), subject(300)]

    assert {200} == going(subjects, policy)
    assert "keeps it" in items(subjects, policy)[100]["reason"]


@pytest.mark.requirement("R147")
def test_only_parts_go_where_a_rule_says_so():
    """The optimizer state of all but the last; what has none, or lost it before, stays as it is."""
    rule = {"action": "delete_parts", "parts": ["optimizer"], "keep_last": 1, "classes": ["candidate"]}
    parts = {"weights": 60, "optimizer": 40}
    subjects = [
        subject(100, artifact_class="candidate", parts=parts),
        subject(200, artifact_class="candidate", parts={"weights": 100}),
        subject(300, artifact_class="candidate", parts=parts, gone_parts=("optimizer",)),
        subject(400, artifact_class="candidate", parts=parts, live=(Kept(reason="needed", by="run:x"),)),
        subject(500, artifact_class="candidate", parts=parts),
    ]

    found = items(subjects, policy_with(rule))

    assert ("delete_parts", 40, ["optimizer"]) == (
        found[100]["action"],
        found[100]["bytes"],
        found[100]["parts"],
    )
    assert ["keep"] * 4 == [found[step]["action"] for step in (200, 300, 400, 500)]
    assert "none of its optimizer is left" in found[300]["reason"]


def test_the_whole_goes_before_its_parts():
    """A rule that lets the whole go is stronger than one about parts, in whatever order they stand."""
    parts = {
        "action": "delete_parts",
        "parts": ["optimizer"],
        "younger_than_days": 1,
        "classes": ["evaluation"],
    }
    whole = {"action": "delete", "keep_last": 1, "classes": ["evaluation"]}
    subjects = [
        subject(step, artifact_class="evaluation", parts={"optimizer": 40, "weights": 60})
        for step in (100, 200)
    ]

    for rules in ((parts, whole), (whole, parts)):
        found = items(subjects, policy_with(*rules))
        assert {100: "delete", 200: "delete_parts"} == {step: item["action"] for step, item in found.items()}


@pytest.mark.requirement("R154", "R155")
@pytest.mark.parametrize(
    ("kind", "state", "action"),
    [
        pytest.param("log", "closed", "delete", id="a log of a closed run"),
        pytest.param("log", "failed", "delete", id="a log of a failed run"),
        pytest.param("leftover", "failed", "delete", id="a leftover of a failed run"),
        pytest.param("temporary", "training", "keep", id="temporary data of a running run"),
        pytest.param("temporary", "waiting_close", "keep", id="temporary data while a gate is open"),
        pytest.param("cache", "none", "delete", id="a cache of no run"),
        pytest.param("snapshot", "closed", "delete", id="an expired snapshot"),
    ],
)
def test_other_kinds_have_rules_of_their_own(kind, state, action):
    """Thirty days for each kind; without such a rule none of them goes."""
    other = subject(
        0, kind=kind, ref=f"{kind}:x", artifact_class=kind, run_state=state, registered_at=ago(31)
    )
    rule = {"action": "delete", "kinds": [kind], "younger_than_days": 30}

    assert action == decide_one(other, policy_with(rule))["action"]
    assert decide_one(other, policy_with())["action"] == "keep"


def decide_one(one, policies) -> dict:
    """The only item of a plan."""
    from tests.unit.retention.subjects import NOW

    [item] = decide([one], policies, now=NOW)
    return item


@pytest.mark.case("R01")
def test_a_name_without_a_plain_step_is_not_let_go_by_its_order():
    """Padded and bare numbers are one order; best, merged and temporary ones stay, and one that contradicts itself."""
    names = {9000: "iter_0009000", 10000: "iter_10000", 9500: "checkpoint-best", 9600: "checkpoint-10000-merged",
             9700: "tmp-checkpoint-10200", 9800: "checkpoint-9900", 10100: "checkpoint-10100"}  # fmt: skip
    subjects = [subject(step, location=f"file:///mixed/{name}") for step, name in names.items()]

    found = items(subjects, policy_with(keep_last=2))

    assert {9000} == {step for step, item in found.items() if item["action"] == "delete"}
    assert "states no plain step" in found[9500]["reason"]
    assert "its name states step 9900, its record step 9800" in found[9800]["reason"]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        pytest.param({"action": "delete"}, "must say what stays", id="a rule without a condition"),
        pytest.param({"action": "move", "keep_last": 1}, "action", id="an action that is not built"),
        pytest.param({"action": "keep", "keep_last": 1}, "has no meaning", id="a condition on keep"),
        pytest.param({"action": "delete_parts", "keep_last": 1}, "parts are named", id="parts without names"),
        pytest.param(
            {"action": "delete", "keep_last": 1, "parts": ["x"]}, "parts are named", id="parts on delete"
        ),
        pytest.param(
            {"action": "delete", "kinds": ["log"], "keep_every": 2}, "has no keep_every", id="a log's step"
        ),
        pytest.param({"action": "delete", "keep_last": 0}, "keep_last", id="keep none"),
        pytest.param({"action": "delete", "younger_than_days": -1}, "younger_than_days", id="a negative age"),
    ],
)
def test_a_rule_that_says_nothing_clear_is_refused(rule, words):
    """The policy names the field; nothing is guessed."""
    with pytest.raises(PolicyError, match=words):
        policy_with(rule)


def test_a_filled_subject_is_a_subject():
    """Field by field what the constructor makes, of the same class, and as frozen."""
    known = subject(100, parts={"weights": 1}, position=7, purpose="p")
    made = filled_subject(
        known.ref, "recovery", "p", "demo", RUN, 100, 1, known.registered_at, 100, {"weights": 1}, known.location,
        known.digest, "alice", 7,
    )  # fmt: skip

    assert (Subject, known) == (type(made), made)
    assert dataclasses.replace(known, step=1) == dataclasses.replace(made, step=1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.step = 2


@pytest.mark.requirement("R148")
def test_no_day_count_is_built_in():
    """A policy without rules for a class or kind lets nothing of it go, however old it is."""
    old = ago(10_000)
    subjects = [
        subject(100, artifact_class="candidate", registered_at=old),
        subject(200, kind="snapshot", artifact_class="snapshot", run_uid=RUN, registered_at=old),
    ]

    assert set() == going(subjects, policy_with())
