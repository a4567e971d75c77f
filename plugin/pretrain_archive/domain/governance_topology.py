"""On what a project's jobs run, and whether the teams confirmed for what each of them answers there (R237)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from pretrain_archive.domain.governance_texts import boundary_hint
from pretrain_archive.domain.kinds import BoundaryConfirmed
from pretrain_archive.domain.kinds.governance import Team
from pretrain_archive.domain.policy import Policy
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.verdicts import Item, Verdict

TEAMS: tuple[str, ...] = get_args(Team)

_CLUSTER = (
    "connection", "namespace", "object_kind", "runtime", "claim", "mount_path", "accelerators_per_node", "queue",
    "shared_memory", "template",
)  # fmt: skip
"""What of a cluster decides who answers for what; image, memory and grace times do not."""


def topology_of(policy: Policy) -> dict[str, Any]:
    """The target topology that the policy names."""
    found: dict[str, Any] = {
        "target": policy.compute.target,
        "max_accelerators": policy.quotas.max_accelerators,
    }
    if policy.compute.target == "kubernetes":
        cluster = policy.compute.kubernetes.model_dump(mode="json")
        found |= {name: cluster[name] for name in _CLUSTER}
    return found


def boundary_items(
    policy: Policy, digest: str, confirmed: Iterable[tuple[Record, BoundaryConfirmed]]
) -> list[Item]:
    """An item for each team: verified, changed since, or unrecorded. ``digest`` is that of the topology now."""
    newest = {found[1].team: found for found in confirmed}
    now = topology_of(policy)
    return [
        _item(team, getattr(policy.platform.teams, team), newest.get(team), digest, now)  # type: ignore[call-overload]
        for team in TEAMS
    ]


def _item(
    team: str, person: str | None, found: tuple[Record, BoundaryConfirmed] | None, digest: str, now: Mapping[str, Any]
) -> Item:  # fmt: skip
    verdict, told, expected = Verdict.UNRECORDED, "", f"{person or 'nobody that the policy names'} confirms"
    if found is not None and person is not None:
        payload = found[1]
        told = f"{payload.person}: {payload.answers_for}"
        verdict = Verdict.VERIFIED
        if payload.topology_digest != digest:
            verdict = Verdict.CHANGED
            told += f" (for another topology: {', '.join(_differences(payload.topology, now))})"
        elif payload.person != person:
            verdict, told = Verdict.CHANGED, f"{told} (the policy names {person} now)"
    return Item(
        id=f"boundary.{team}", track="compute", verdict=verdict,
        check="the team's person confirmed its boundary on the topology that the policy names now",
        checked_at=found[0].recorded_at if found else "", expected=expected, found=told, blocking=False,
        evidence=(found[0].record_id,) if found else (), owner=person or "", requirement="R237",
        hint="" if verdict is Verdict.VERIFIED else boundary_hint(f"boundary.{team}")[0],
    )  # fmt: skip


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
