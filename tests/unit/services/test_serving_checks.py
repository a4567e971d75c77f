"""What is said of serving is text that a record can hold, or it is refused in one line."""

from __future__ import annotations

import pytest

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.policy_release import parse_line
from pretrain_archive.services.serving_checks import record_serving

pytestmark = pytest.mark.requirement("R114")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param({"value": " "}, "is empty", id="nothing said"),
        pytest.param({"value": "x" * 501}, "is longer than 500", id="too long"),
        pytest.param({"value": "a\udcff"}, "cannot be shown", id="bytes that are no text"),
        pytest.param({"value": "a\nb"}, "cannot be shown", id="two lines"),
        pytest.param({"by": ""}, "is empty", id="nobody"),
        pytest.param({"by": "d\x1b[2J"}, "cannot be shown", id="a terminal's language"),
        pytest.param({"aspect": "speed"}, "is not known", id="unknown aspect"),
    ],
)
def test_what_no_record_can_hold_is_refused(run, changes, words):
    """One line naming the field; nothing is recorded."""
    run.until("evaluation")
    told = {"aspect": "latency", "value": "p95 170 ms", "by": "dana", **changes}

    with pytest.raises(InputError, match=words):
        record_serving(run.ledger, run.store, run.caller("check"), run.uid, **told)
    assert [] == list(run.view().all(kinds.ServingCheck))


def test_a_line_of_the_request_is_no_longer_than_a_record_holds():
    """It is refused when the run is opened, not when its gate is shown."""
    assert ("latency", "x" * 500) == parse_line("latency: " + "x" * 500)
    with pytest.raises(ValueError, match="501 characters"):
        parse_line("latency: " + "x" * 501)
