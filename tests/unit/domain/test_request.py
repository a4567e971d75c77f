"""The trigger form: each wrong value is named with field, value and remedy."""

from __future__ import annotations

import pytest
from tests.unit.gates.asked_run import CONF, policy_with, without_retention

from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.request import RunRequest, check_against_policy, read_request

REQUIRED = sorted(name for name, field in RunRequest.model_fields.items() if field.is_required())


def fault(**changes) -> InputError:
    """What is wrong with the demo's request after ``changes``."""
    with pytest.raises(InputError) as raised:
        read_request(CONF | changes)
    assert "trigger form" in raised.value.hint
    assert raised.value.exit_code == 2
    return raised.value


@pytest.mark.parametrize("field", REQUIRED)
def test_missing(field):
    """Every field that cannot be unrecorded is asked for by name."""
    with pytest.raises(InputError) as raised:
        read_request({name: value for name, value in CONF.items() if name != field})

    assert (field, None) == (raised.value.field, raised.value.value)
    assert raised.value.message.startswith(f"{field}: ")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("objective", "short"), ("objective", "x" * 2001), ("objective", "        "), ("training_type", "magic"),
        ("licence", ""), ("licence", "  "), ("licence", None), ("source", " "), ("intended_use", ""),
        ("source_name", "a/b"), ("source_name", "../x"), ("source_name", "-x"), ("source_name", "x" * 81),
        ("source_name", "名"), ("release_name", "a b"), ("release_version", ""),
        ("release_version", "1" * 81), ("licence", "x" * 201),
        ("configuration", {}), ("configuration", []), ("configuration", "steps: 3"), ("train_command", []),
        ("train_command", "python train.py"), ("evaluate_command", []), ("usage_scope", []),
        ("usage_scope", ["", " "]),
        ("accelerators", -1), ("accelerators", 1.5), ("accelerators", 100_001), ("accelerators", "many"),
        ("budget_minutes", 0), ("budget_minutes", -5), ("budget_minutes", float("nan")),
        ("budget_minutes", float("inf")),
        ("budget_minutes", 1e7), ("checkpoint_every", 0), ("wall_minutes", 0), ("no_progress_minutes", 0),
        ("max_attempts", 0), ("max_attempts", 101), ("max_loss", "high"), ("max_loss", float("inf")),
        ("acceptance_limit", "low"), ("acceptance_limit", float("nan")), ("acceptance_metric", ""),
        ("known_limits", "one line"), ("stop_on_nan", "perhaps"), ("unheard_of", 1),
    ],
)  # fmt: skip
def test_bad_value(field, value):
    """A value that cannot be used is named with its field and itself."""
    found = fault(**{field: value})

    assert field == found.field
    assert found.message.startswith(f"{field}: ")
    assert f"(got {found.value!r})" in found.message


def test_part_of_a_list():
    """A wrong entry of a list is named by its place."""
    assert "applicable.1" == fault(applicable=["a", 5]).field


def test_every_fault_is_named():
    """The first fault leads, the others follow with their reasons."""
    found = fault(objective="short", max_attempts=0, release_version="")

    assert "objective" == found.field
    assert "max_attempts: Input should be greater" in found.hint
    assert "release_version: " in found.hint


def test_blank_is_unrecorded():
    """Blank optional values are unrecorded, blank lines of lists are dropped."""
    made = read_request(
        CONF
        | {
            "masking": " ",
            "collected_at": "",
            "base_model": "\n",
            "responsible": "  ",
            "rollback": "",
            "take_down": " ",
        }
        | {"known_limits": ["", " one ", " "], "include": [" "]}
    )

    assert (None,) * 6 == (
        made.masking, made.collected_at, made.base_model, made.responsible, made.rollback, made.take_down,
    )  # fmt: skip
    assert (["one"], []) == (made.known_limits, made.include)


def test_caller_keeps_its_values():
    """Reading does not change what was handed in."""
    values = CONF | {"known_limits": ["", "x"]}

    read_request(values)

    assert ["", "x"] == values["known_limits"]


def test_read_from_its_own_record():
    """What was read once can be read again from its JSON."""
    made = read_request(CONF)

    assert made == read_request(made.model_dump(mode="json"))


@pytest.mark.parametrize(
    ("changes", "field", "text"),
    [
        pytest.param({"accelerators": 1}, "accelerators", "above the project's quota of 0 (got 1)", id="accelerators"),
        pytest.param({"budget_minutes": 10.5}, "budget_minutes", "above the project's quota of 10 (got 10.5)",
                     id="minutes"),
        pytest.param({"intended_use": "product"}, "intended_use",
                     "outside the project's data-use scope (research, experiment, internal) (got 'product')", id="use"),
        pytest.param({"intended_use": "Research"}, "intended_use", "outside", id="another spelling"),
    ],
)  # fmt: skip
def test_against_the_policy(changes, field, text):
    """What the policy forbids is refused at once, with whom to ask."""
    with pytest.raises(InputError) as raised:
        check_against_policy(read_request(CONF | changes), policy_with().policy)

    assert field == raised.value.field
    assert text in raised.value.message
    assert ("bob" in raised.value.hint) or ("alice" in raised.value.hint)


@pytest.mark.parametrize(
    "changes", [{"budget_minutes": 10}, {"accelerators": 0}, {"intended_use": "internal"}]
)
def test_within_the_policy(changes):
    """The limit itself is allowed."""
    check_against_policy(read_request(CONF | changes), policy_with().policy)


def test_parts():
    """Purpose, budget, stop conditions and checkpoint plan carry the form's values and the policy's owners."""
    made, policy = read_request(CONF | {"max_loss": 9.5, "acceptance_limit": 4.0}), policy_with().policy

    assert ("bob", 8, 0, "none") == (
        made.budget(policy).owner, made.budget(policy).minutes, made.budget(policy).accelerators,
        made.budget(policy).accelerator,
    )  # fmt: skip
    stop = made.stop_conditions()
    assert (6, 2, True, 9.5, 3) == (
        stop.wall_minutes, stop.no_progress_minutes, stop.stop_on_nan, stop.max_loss, stop.max_attempts,
    )  # fmt: skip
    assert ("research", 4.0) == (made.purpose().intended_use, made.purpose().acceptance_limit)
    plan = made.checkpoint_plan(policy, "/x")
    assert ("/x", 20, 1, "alice") == (plan.location, plan.every_steps, plan.keep_last, plan.restore_owner)
    assert "keep the last 1, others 0 days after close" == plan.retention_rule


@pytest.mark.requirement("R148")
def test_no_retention_leaves_a_gap():
    """Without a retention policy the rule is empty, not a default."""
    assert "" == read_request(CONF).checkpoint_plan(without_retention().policy, "/x").retention_rule
