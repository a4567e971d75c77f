"""Subjects and policies for tests of the rules."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.artifact_run import POLICY

from pretrain_archive.domain.identity import format_time
from pretrain_archive.domain.policy import LoadedPolicy, parse_policy
from pretrain_archive.retention.plan import decide
from pretrain_archive.retention.subjects import Subject

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
RUN = "run_019a0000-0000-7000-8000-000000000001"


def ago(days: float) -> str:
    """A time before now, as records have it."""
    return format_time(NOW - timedelta(days=days))


def subject(step: int, **changes: Any) -> Subject:
    """A recovery checkpoint of a closed run, registered in the order of its step."""
    known = Subject(
        ref=f"checkpoint:ckpt_{step}",
        run_uid=RUN,
        project="demo",
        artifact_class="recovery",
        step=step,
        attempt=1,
        size=100,
        digest="sha256:" + "a" * 64,
        location=f"file:///checkpoints/step_{step}",
        registered_at=format_time(NOW - timedelta(days=100) + timedelta(minutes=step)),
        responsible="alice",
    )
    return dataclasses.replace(known, **changes)


def policy_with(
    *rules: dict[str, Any], keep_last: int = 1, age: float = 0, **more: Any
) -> dict[str, LoadedPolicy]:
    """The policy of the project demo with these rules before its plain fields."""
    text = POLICY.format(keep_last=keep_last, age=age, limit=10**9, hold="[]")
    text += "".join(f"{name} = {json.dumps(value)}\n" for name, value in more.items())
    for rule in rules:
        inner = {"name": f"rule of {rule['action']}", **rule}
        best = inner.pop("keep_best", None)
        text += "[[retention.rules]]\n"
        text += "".join(f"{name} = {json.dumps(value)}\n" for name, value in inner.items())
        if best:
            pairs = ", ".join(f"{name} = {json.dumps(value)}" for name, value in best.items())
            text += f"keep_best = {{{pairs}}}\n"
    return {"demo": parse_policy(text.encode(), name="demo.toml")}


def items(subjects: list[Subject], policies: dict[str, LoadedPolicy]) -> dict[int, dict[str, Any]]:
    """The plan's items by step."""
    return {item["step"]: item for item in decide(subjects, policies, now=NOW)}


def going(subjects: list[Subject], policies: dict[str, LoadedPolicy]) -> set[int]:
    """The steps that the plan deletes."""
    found = items(subjects, policies)
    assert all(item["reason"] for item in found.values())
    return {step for step, item in found.items() if item["action"] == "delete"}
