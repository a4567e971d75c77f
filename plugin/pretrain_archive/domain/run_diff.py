"""What two runs did differently, and whether their results can be compared at all.

Pure, from records alone. Nested values are compared key by key, strictly by type (1 is not "1", nor 1.0), and
a missing value is a difference. The verdict over the causes that changed:

- ``attributable``: every cause is recorded in both runs and at most one of them changed;
- ``confounded``: every cause is recorded and several changed, so no single one explains the result;
- ``incomparable``: a cause is unrecorded on either side, or the runs were judged by different metrics.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pretrain_archive.domain import kinds
from pretrain_archive.domain.chains import chain_of
from pretrain_archive.domain.governance_conclusion import conclusion_of, conclusion_told
from pretrain_archive.domain.records import Track
from pretrain_archive.domain.run_view import RunView

TRACK_OF = {
    "data": Track.DATA,
    "configuration": Track.COMPUTE,
    "code": Track.COMPUTE,
    "environment": Track.COMPUTE,
    "resources": Track.COMPUTE,
    "base_model": Track.ARTIFACT,
    "metric": Track.ARTIFACT,
}
"""The causes of a different result and the track of each; ``metric`` is how the result was judged."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One field that differs; ``missing`` is ``left`` or ``right`` where that run has no such field."""

    run_uid: str
    cause: str
    field: str
    left: Any
    right: Any
    missing: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The change as plain JSON."""
        return {
            "run": self.run_uid,
            "track": TRACK_OF[self.cause].value,
            "cause": self.cause,
            "field": self.field,
            "left": self.left,
            "right": self.right,
            "missing": self.missing,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class RunDiff:
    """The comparison of ``baseline`` with each of ``others``.

    ``conclusions`` are what persons concluded of each run, in English; None is unrecorded.
    """

    baseline: str
    others: tuple[str, ...]
    verdict: str
    changed: tuple[Change, ...]
    unrecorded: tuple[str, ...]
    equal: int
    conclusions: tuple[tuple[str, str | None], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """What ``run diff`` prints."""
        return {
            "verdict": self.verdict,
            "baseline": self.baseline,
            "runs": list(self.others),
            "changed": [change.to_dict() for change in self.changed],
            "unrecorded": list(self.unrecorded),
            "equal": self.equal,
            "conclusions": [{"run": run, "told": told} for run, told in self.conclusions],
        }


def causes(view: RunView) -> dict[str, dict[str, Any]]:
    """What the result of a run rests on, by cause; an empty mapping where nothing is recorded."""
    found: dict[str, dict[str, Any]] = {name: {} for name in TRACK_OF}
    if snapshot := view.latest(kinds.SnapshotCreated):
        found["data"] = {"snapshot": snapshot.name, "manifest_digest": snapshot.manifest_digest}
        if split := view.latest(kinds.SplitCreated):
            found["data"]["split_digest"] = split.split_digest
        for _, account in chain_of(view):
            rule = account.rule
            found["data"] |= {f"rule.{rule.name}": f"{rule.kind} v{rule.version} {rule.rule_digest}"}
    if declared := view.latest(kinds.ConfigurationDeclared):
        found["configuration"] = dict(_flat({**declared.configuration, "command": declared.command}))
        if declared.code_digest is not None:
            found["code"] = {"code_digest": declared.code_digest, **declared.code_files}
        found["resources"] = {
            "accelerator": declared.budget.accelerator,
            "accelerators": declared.budget.accelerators,
        }
        found["base_model"] = {"base_model": declared.base_model}
    if environment := view.latest(kinds.EnvironmentDeclared):
        found["environment"] = {**_flat(environment.environment), "image": environment.image}
    if view.opened is not None and view.opened.purpose is not None:
        purpose = view.opened.purpose
        found["metric"] = {"name": purpose.acceptance_metric, "direction": purpose.acceptance_direction}
        for planned in declared.evaluations if declared else ():
            for suite in planned.suites:
                name = f"{planned.program}." if planned.program else ""
                found["metric"][f"suite.{name}{suite.name}"] = f"version {suite.version}, {suite.digest}"
    return found


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    """Every leaf under its path; a dot inside a key is escaped, empty containers are leaves."""
    if isinstance(value, Mapping) and value:
        pairs: Iterator[tuple[str, Any]] = ((str(k).replace(".", r"\."), v) for k, v in value.items())
    elif isinstance(value, list) and value:
        pairs = ((str(number), item) for number, item in enumerate(value))
    else:
        return {path: value}
    leaves: dict[str, Any] = {}
    for key, item in pairs:
        leaves.update(_flat(item, f"{path}.{key}" if path else key))
    return leaves


def _same(left: Any, right: Any) -> bool:
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def compare(baseline: RunView, others: list[RunView]) -> RunDiff:
    """Compare every run of ``others`` with ``baseline``; at least one other run."""
    if not others:
        raise ValueError("a comparison needs two runs")
    reference = causes(baseline)
    changed: list[Change] = []
    unrecorded: dict[str, None] = {}
    equal = 0
    for view in others:
        now = causes(view)
        for cause, left in reference.items():
            right = now[cause]
            if not left or not right:
                unrecorded[f"{(baseline if not left else view).run_uid}: {cause}"] = None
            for field in sorted(left.keys() | right.keys()):
                if field in left and field in right and _same(left[field], right[field]):
                    equal += 1
                    continue
                missing = "" if field in left and field in right else "left" if field in right else "right"
                changed.append(
                    Change(
                        run_uid=view.run_uid,
                        cause=cause,
                        field=field,
                        left=left.get(field),
                        right=right.get(field),
                        missing=missing,
                    )
                )
    return RunDiff(
        baseline=baseline.run_uid,
        others=tuple(view.run_uid for view in others),
        verdict=_verdict({change.cause for change in changed}, bool(unrecorded)),
        changed=tuple(changed),
        unrecorded=tuple(unrecorded),
        equal=equal,
        conclusions=tuple((view.run_uid, _concluded(view)) for view in (baseline, *others)),
    )


def _concluded(view: RunView) -> str | None:
    found = conclusion_of(view)
    return conclusion_told(found[1])[0] if found else None


def _verdict(changed: set[str], gaps: bool) -> str:
    if gaps or "metric" in changed:
        return "incomparable"
    return "attributable" if len(changed) <= 1 else "confounded"
