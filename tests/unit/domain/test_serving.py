"""What a model that is to serve must show, by the policy, on the candidate's own bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import ValidationError
from tests.unit.domain.checklists.conftest import Whole, changed, conf, whole

from pretrain_archive.domain import kinds
from pretrain_archive.domain.candidates import chosen_candidate
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.gates import RELEASE_REQUIRED
from pretrain_archive.domain.kinds.release import ASPECTS
from pretrain_archive.domain.policy_release import Release, parse_line
from pretrain_archive.domain.request import read_request
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.serving import serving_of

__all__ = ["whole"]

LINES = [f"{aspect}: as agreed" for aspect in ASPECTS]
DIGEST = "sha256:" + "e" * 64


def measured(view: RunView, aspect: str, *, digest: str | None = None) -> RunView:
    """The run with one measured aspect more, on the candidate or on other bytes."""
    chosen = chosen_candidate(view)
    check = kinds.ServingCheck(
        aspect=aspect, value="p95 180 ms", how="measured", by="dana", evidence_digest=DIGEST,
        checkpoint_digest=digest or chosen[1].checkpoint_digest,
    )  # fmt: skip
    last = view.records[-1]
    record = replace(
        last, record_id=f"rec_{len(view.records)}", kind="release.serving_checked", payload=check.to_json(),
        sequence=last.sequence + 1, position=last.position + 1,
    )  # fmt: skip
    return RunView.of(view.run_uid, [*view.records, record], view.around)


def serving_item(whole: Whole, view: RunView, **policy):
    """The close gate's item."""
    return whole.item("close", "release.serving", lambda _: view, release=Release(**policy))


def test_a_model_that_is_not_to_serve_is_not_asked(whole):
    """Research asks for nothing."""
    assert not serving_of(whole.view, Release()).serves
    with pytest.raises(ValueError, match="not enough values"):
        serving_item(whole, whole.view)


@pytest.mark.requirement("R114")
def test_a_product_shows_everything_or_is_not_registered(whole):
    """Without a section in the policy all five are demanded, and the item forbids the outcome register."""
    product = changed(kinds.RunOpened, purpose=lambda old: {**old, "intended_use": "product"})(whole.view)
    item = serving_item(whole, product)

    assert "unrecorded" == item.verdict
    assert all(f"{aspect}: nobody declared or measured it" in item.hint for aspect in ASPECTS)
    assert item.id in RELEASE_REQUIRED
    assert not item.blocking  # the other outcomes stay open


@pytest.mark.requirement("R114")
def test_declared_values_do_where_the_policy_takes_them(whole):
    """Each line of the request is one aspect, by the submitter."""
    item = serving_item(whole, conf(serving=LINES)(whole.view))

    assert "verified" == item.verdict
    assert "latency: as agreed (declared by " in item.found
    assert "R114" == item.requirement


@pytest.mark.requirement("R114")
def test_what_is_left_out_is_named(whole):
    """Four of five: the missing one stands in the hint."""
    item = serving_item(whole, conf(serving=LINES[:-1])(whole.view))

    assert "unrecorded" == item.verdict
    assert "Missing: monitoring: nobody" in item.hint
    assert "latency" not in item.hint


@pytest.mark.requirement("R114")
def test_a_measured_value_is_demanded_on_the_candidate_s_own_bytes(whole):
    """A declaration does not do, nor does another checkpoint's measurement; the candidate's does."""
    view = conf(serving=LINES)(whole.view)
    demands = {"serving_measured": ["latency"]}

    assert "declared only" in serving_item(whole, view, **demands).hint
    assert "verified" == serving_item(whole, measured(view, "latency"), **demands).verdict
    other = measured(whole.view, "latency", digest="sha256:" + "9" * 64)
    policy = Release(serving_uses=["research"], serving_measured=["latency"])
    assert "measured on another checkpoint" == serving_of(other, policy).gaps["latency"]


def test_a_later_word_replaces_the_earlier_one(whole):
    """The measured value is told in place of the declared one."""
    view = measured(conf(serving=LINES)(whole.view), "latency")
    told = {check.aspect: check.how for check in serving_of(view, Release()).checks}

    assert "measured" == told["latency"]
    assert "declared" == told["monitoring"]


def test_a_policy_may_demand_less(whole):
    """What the policy does not demand is no gap."""
    item = serving_item(whole, conf(serving=["latency: 1 s"])(whole.view), serving_demanded=["latency"])

    assert "verified" == item.verdict
    assert "latency" == item.expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("latency: p95 1 s", ("latency", "p95 1 s"), id="plain"),
        pytest.param(" Safety boundary : no code: never", ("safety_boundary", "no code: never"), id="words"),
    ],
)
def test_a_line(line, expected):
    """Aspect, colon, value."""
    assert expected == parse_line(line)


@pytest.mark.parametrize("line", ["latency", "latency:", "speed: 1", ": 1", ""])
def test_a_line_that_says_nothing(line):
    """It is refused, and the answer says how a line looks."""
    with pytest.raises(ValueError, match="one of resources, latency"):
        parse_line(line)


def test_a_request_with_a_wrong_line_is_refused(whole):
    """The form's fault is named where it was made."""
    values = {**whole.view.opened.conf, "serving": ["speed: 1"]}

    with pytest.raises(InputError, match="serving"):
        read_request(values)


def test_a_measured_value_without_evidence_cannot_be_written():
    """The record itself refuses it."""
    with pytest.raises(ValidationError, match="evidence"):
        kinds.ServingCheck(aspect="latency", value="1 s", how="measured", by="dana")
