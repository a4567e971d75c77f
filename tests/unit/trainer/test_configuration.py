"""The configuration is complete and checked, and its errors name field, value and remedy."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import configuration
import pytest
from contract import TrainerError

DEMO = Path(configuration.__file__).with_name("demo.json")


@pytest.fixture
def raw() -> dict[str, Any]:
    """The demo's configuration as JSON."""
    value: dict[str, Any] = json.loads(DEMO.read_bytes())
    return value


def test_the_demo_is_a_complete_configuration(raw: dict[str, Any]) -> None:
    """What is read is what was written, with nothing added."""
    assert raw == configuration.load_configuration(DEMO).to_dict()


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        pytest.param("seed", -1, "seed is -1. Give a whole number from 0", id="negative seed"),
        pytest.param("seed", 2**53, "seed is 9007199254740992", id="seed beyond exact JSON"),
        pytest.param("seed", True, "seed is True", id="a truth value is no number"),
        pytest.param("threads", 1.0, "threads is 1.0", id="a float is no count"),
        pytest.param("dtype", "float64", "Give one of: float32, bfloat16", id="dtype"),
        pytest.param("dtype", ["float32"], "dtype is ['float32']", id="dtype as list"),
        pytest.param("model.width", 100, "not a multiple of 2 × model.heads (6)", id="width and heads"),
        pytest.param("optimisation.warmup", 800, "not below optimisation.steps (800)", id="warm-up too long"),
        pytest.param("optimisation.learning_rate", 0, "Give a number above 0", id="no learning rate"),
        pytest.param("optimisation.learning_rate", float("nan"), "learning_rate is nan", id="nan"),
        pytest.param("optimisation.clip", 10**400, "clip is 1000", id="beyond float"),
        pytest.param("optimisation.weight_decay", -0.1, "of at least 0", id="negative decay"),
        pytest.param("optimisation", 3, "optimisation is int, not an object", id="section is a number"),
        pytest.param("model.depth", 2, "model.depth = 2 is not known", id="unknown field"),
        pytest.param("checkpoint_every", 0, "checkpoint_every is 0", id="no checkpoints"),
    ],
)
def test_bad_values(raw: dict[str, Any], field: str, value: object, words: str) -> None:
    """Each is refused with field, value and remedy."""
    _put(raw, field, value)
    with pytest.raises(TrainerError) as caught:
        configuration.parse_configuration(raw)
    assert words in str(caught.value)


@pytest.mark.parametrize("field", ["seed", "model", "model.context", "optimisation.clip"])
def test_nothing_is_filled_in(raw: dict[str, Any], field: str) -> None:
    """A missing field is an error, never a default."""
    *section, name = field.split(".")
    del (raw[section[0]] if section else raw)[name]
    with pytest.raises(TrainerError, match=f"{field} is missing"):
        configuration.parse_configuration(raw)


def test_differences_leave_out_how_often_one_looks(raw: dict[str, Any]) -> None:
    """Only what changes the sequence counts."""
    other = copy.deepcopy(raw)
    for name in configuration.MAY_DIFFER:
        other[name] = 1
    assert [] == configuration.differences(raw, other)
    _put(other, "optimisation.batch", 16)
    assert ["optimisation.batch is 8 here and 16 in the checkpoint"] == configuration.differences(raw, other)


def _put(raw: dict[str, Any], field: str, value: object) -> None:
    *section, name = field.split(".")
    (raw[section[0]] if section else raw)[name] = value
