"""The policy's sections on human evaluation and on a model's life: what cannot be carried out is refused."""

from __future__ import annotations

import pytest
from tests.support.human_run import PAIRS, SINGLE, human_policy

from pretrain_archive.domain.errors import PolicyError
from pretrain_archive.domain.policy import parse_policy


def test_reads() -> None:
    """Both modes are read; two reviewers are wanted where nothing is said, and no critical problem is allowed."""
    single, pairs = (human_policy(mode).policy.human_evaluation for mode in ("single", "pairs"))

    assert single is not None
    assert pairs is not None
    assert (["3", "2", "1"], [3, 2, 1], 2, 0) == (
        [p.label for p in single.scale], [p.value for p in single.scale], single.wanted, single.most_critical,
    )  # fmt: skip
    assert ["better", "same", "worse"] == [p.label for p in pairs.scale]


@pytest.mark.parametrize(
    ("mode", "changes", "message"),
    [
        pytest.param("single", {"reviewers": '["bob"]'}, "wants 2 reviewers", id="one too few"),
        pytest.param("single", {"reviewers": '["bob", "bob"]'}, "stands twice", id="one person twice"),
        pytest.param("single", {"reviewers": '["bob", " "]'}, "is blank", id="nobody"),
        pytest.param("single", {"fewest": "8"}, "more than the sample of 7", id="more than are drawn"),
        pytest.param("single", {"min_win_rate": "0.5"}, "a win rate needs pairs", id="win rate of scores"),
        pytest.param("pairs", {"min_mean": "2"}, "compared, not scored", id="mean of pairs"),
        pytest.param("pairs", {"scale": SINGLE}, "compared, not scored", id="values in pairs"),
        pytest.param(
            "single", {"min_mean": "2", "scale": PAIRS}, "min_mean needs a value", id="mean without values"
        ),
        pytest.param(
            "single", {"scale": SINGLE.replace("value = 2\n", "")}, "every point a value", id="a value missing"
        ),
        pytest.param(
            "single", {"scale": SINGLE.replace("value = 2\n", "value = 3\n")}, "values must fall", id="equal values"
        ),
        pytest.param(
            "single", {"scale": SINGLE.replace('label = "2"', 'label = "3"')}, "a label stands twice", id="label twice"
        ),
        pytest.param(
            "single", {"scale": SINGLE.replace('label = "2"', 'label = "a:b"')}, "label", id="label with a colon"
        ),
        pytest.param("single", {"wanted": "3"}, "wanted", id="three reviewers"),
        pytest.param("single", {"min_agreement": "1.5"}, "min_agreement", id="agreement above one"),
    ],
)  # fmt: skip
def test_refused(mode: str, changes: dict[str, str], message: str) -> None:
    """What could never be met, or has no meaning, is named when the policy is read."""
    with pytest.raises(PolicyError, match=message):
        human_policy(mode, **changes)


def test_nothing_decides_by_default() -> None:
    """How many items and how much agreement are never filled in: a policy without them is refused, naming them."""
    text = human_policy.__globals__["without_steps"](human_policy.__globals__["POLICY_FILE"].read_text())
    bare = f'{text}\n[human_evaluation]\nmode = "single"\nreviewers = ["bob", "carol"]\n{SINGLE}'

    with pytest.raises(PolicyError) as refused:
        parse_policy(bare.encode(), name="demo.toml")

    for name in ("sample", "seed", "fewest", "min_agreement"):
        assert f"human_evaluation.{name}" in str(refused.value)


@pytest.mark.requirement("R156")
def test_keeping_has_no_built_in_count() -> None:
    """Without a number records are kept without end; a number is the project's."""
    silent, said = (
        human_policy(),
        human_policy(life="\n[model_life]\nrecords_keep_days_after_retirement = 3650\n"),
    )

    assert silent.policy.model_life.records_keep_days_after_retirement is None
    assert 3650 == said.policy.model_life.records_keep_days_after_retirement
