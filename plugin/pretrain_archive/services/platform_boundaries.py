"""The teams confirm for what each answers on a project's target topology (R237)."""

from __future__ import annotations

from collections.abc import Callable

from pretrain_archive.domain.errors import InputError, RefusedError
from pretrain_archive.domain.governance_topology import TEAMS, boundary_items, topology_of
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.kinds import BoundaryConfirmed, read_payload
from pretrain_archive.domain.policy import LoadedPolicy, Policy
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.verdicts import Item
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.platform_said import Speaker, sentence, state


def confirm(
    ledger: Ledger, policies: Callable[[str], LoadedPolicy], who: Speaker, *, project: str, team: str, answers_for: str
) -> Record:  # fmt: skip
    """Record that a team's person confirms its boundary on the topology that the project's policy names now.

    Raises ``InputError`` for a team that there is not, ``RefusedError`` where the policy names another person.
    """
    if team not in TEAMS:
        raise InputError("team", team, f"is none of {', '.join(TEAMS)}")
    policy = policies(project).policy
    named = getattr(policy.platform.teams, team)
    if named != who.person:
        raise RefusedError(
            f"{who.person} cannot confirm for the team {team}",
            reasons=(f"the policy of {project} names {named or 'nobody'}",),
            hint="Name the team's person in [platform.teams]; that person confirms.",
        )
    topology = topology_of(policy)
    payload = BoundaryConfirmed.model_validate({
        "project": project, "team": team, "answers_for": sentence("answers_for", answers_for), "topology": topology,
        "topology_digest": digest_of(topology), **who.said,
    })  # fmt: skip
    return state(ledger, who, f"boundary/{project}", payload, about=Ref(type="project", id=project))


def boundaries(ledger: Ledger, policy: Policy) -> list[Item]:
    """One item for each team, as it stands against the topology of today."""
    told = [
        (record, read_payload(record, BoundaryConfirmed))
        for record in ledger.records(streams=[f"boundary/{policy.project}"], kinds=["boundary.confirmed"])
    ]
    return boundary_items(policy, digest_of(topology_of(policy)), told)
