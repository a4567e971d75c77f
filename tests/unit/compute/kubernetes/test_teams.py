"""Quotas, priorities and queues between teams: each project's policy names its own, and nobody asks for more (R081)."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from tests.support.governed import policy_text
from tests.support.main_line import CONF
from tests.unit.compute.kubernetes.objects import IMAGE, TOKEN, spec
from tests.unit.domain.told_run import Told

from pretrain_archive.compute.kubernetes.manifest import build_objects
from pretrain_archive.domain.cost import account
from pretrain_archive.domain.cost_report import Report
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.policy import Policy, parse_policy
from pretrain_archive.domain.request import check_against_policy, read_request

QUEUE, PRIORITY = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"


def team(name: str, *, priority: str, minutes: int) -> Policy:
    """The policy of a team's project."""
    section = f"""
[cost]
team = "{name}"

[compute]
target = "kubernetes"

[compute.kubernetes]
namespace = "training"
image = "{IMAGE}"
claim = "archive"
mount_path = "/shared"
queue = "{name}-queue"
workload_priority = "{priority}"
"""
    return parse_policy(
        policy_text(name, section, max_minutes=str(minutes)).encode(), name=f"{name}.toml"
    ).policy


@pytest.mark.requirement("R081")
def test_each_team_has_its_own_queue_and_priority() -> None:
    """A job is released into the queue of its team, with the priority that the team's policy names."""
    found = {}
    for policy in (team("red", priority="high", minutes=10), team("blue", priority="low", minutes=90)):
        objects = build_objects(spec(), policy.compute.kubernetes, token_digest=TOKEN)
        labels = objects.job["metadata"]["labels"]
        found[policy.project] = (objects.release_patch["metadata"]["labels"][QUEUE], labels[PRIORITY])
        assert objects.job["spec"]["suspend"] is True
        assert QUEUE not in labels  # in no queue before it is on record

    assert {"red": ("red-queue", "high"), "blue": ("blue-queue", "low")} == found


@pytest.mark.requirement("R081")
@pytest.mark.parametrize(("minutes", "taken"), [(10, True), (11, False)])
def test_nobody_asks_for_more_than_the_team_has(minutes: int, taken: bool) -> None:
    """What one team may ask for, another may not."""
    form = CONF | {
        "source": "/data",
        "train_command": ["x"],
        "evaluate_command": ["x"],
        "budget_minutes": minutes,
    }
    request = read_request(form)
    check_against_policy(request, team("blue", priority="low", minutes=90))
    red = team("red", priority="high", minutes=10)
    with nullcontext() if taken else pytest.raises(InputError, match="above the project's quota of 10"):
        check_against_policy(request, red)


@pytest.mark.requirement("R081")
def test_what_each_team_took_is_told_side_by_side() -> None:
    """Shares of what was held, by team and by the priority that a run had."""
    accounts = []
    for number, name in enumerate(("red", "red", "blue")):
        told = Told(run_uid=f"run_{number}", accelerators=1)
        told.open(cost={"team": name}, project=name)
        told.launch(1, 0)
        told.start(1, 5)
        told.end(1, 15, took=10, state="completed")
        accounts.append(account(told.view))
    groups = Report(by="team").add_all(accounts).to_dict()["groups"]

    assert [("red", 0.666667), ("blue", 0.333333)] == [(g["group"], g["devices"][0]["share"]) for g in groups]
