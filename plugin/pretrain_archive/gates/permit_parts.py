"""What full and exploration launches ask alike: bound facts, rights of sources, the signed log, the anchors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pretrain_archive.domain import kinds
from pretrain_archive.domain.exploration import Scope
from pretrain_archive.domain.policy import Gates, LoadedPolicy
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.source_rights import standings
from pretrain_archive.domain.training import spent_minutes
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.ledger.port import Ledger, SignedCheckpoint
from pretrain_archive.ledger.proving import sealed_faults

FORMAT = "pretrain-archive/launch-token/1"
NOT_SIGNED_YET = "no signed checkpoint covers the prepare decision yet"
"""The one reason that passes by itself: the signer of the log has still to come round."""

NOT_COVERED_YET = "no signed checkpoint covers what the exploration rests on yet"
"""The same for an exploration, which rests on no decision."""

NEVER_SEALED_YET = "no anchor holds a checkpoint of this ledger yet"
"""The same for the first minute of a ledger; behind a gate or a launch, no launch publishes the first checkpoint."""

SEALED_KINDS = ("gate.dossier", "launch.intended")
"""Records that no ledger holds for longer than the signer's minute without a checkpoint."""

PASSING = frozenset({NOT_SIGNED_YET, NOT_COVERED_YET, NEVER_SEALED_YET})
"""Reasons that pass by themselves: a launch waits for the signer and asks again."""

UNRECORDED = "snapshot, split, configuration or environment is unrecorded"


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What stands at the moment of launch, measured afresh: digests of code and environment."""

    code_digest: str
    environment_digest: str


@dataclass(frozen=True, kw_only=True)
class Share:
    """What an exploration takes of its project's day: see :class:`~…kinds.exploration.ExplorationReserved`."""

    project: str
    day: str
    units: int
    deadline_seconds: float
    per_day: float | None


@dataclass(frozen=True, kw_only=True)
class LaunchPermit:
    """A token that was derived and not yet consumed; ``follows`` is the newest record that was looked at.

    ``sources`` are the streams of the run's sources, each with the newest record in it that was looked at.
    ``derived_at`` is when, by the machine's clock. ``share`` is what an exploration takes, None for a full launch.
    """

    run_uid: str
    attempt: int
    token: dict[str, Any]
    checkpoint: SignedCheckpoint
    follows: int
    sources: Mapping[str, int]
    derived_at: datetime
    rests_on: int
    share: Share | None = None

    @property
    def digest(self) -> str:
        """The token's digest."""
        return digest_of(self.token)

    @property
    def scope(self) -> Scope:
        """Whether the token is of an exploration."""
        return "full" if self.share is None else "exploration"


def bound_faults(view: RunView, observed: Observed, policy: LoadedPolicy) -> list[str]:
    """What is missing or changed of the facts that a launch is bound to."""
    config, env = view.latest(kinds.ConfigurationDeclared), view.latest(kinds.EnvironmentDeclared)
    snapshot, split = view.latest(kinds.SnapshotCreated), view.latest(kinds.SplitCreated)
    if config is None or env is None or snapshot is None or split is None:
        return [UNRECORDED]
    faults: list[str] = []
    if config.code_digest is None or config.code_digest != observed.code_digest:
        faults.append("the training code changed after it was signed")
    if env.environment_digest != observed.environment_digest and policy.policy.environment.drift == "stop":
        faults.append("the environment changed after it was signed")
    launched = view.latest(kinds.LaunchIntended)
    used = (
        launched.token.get("snapshot_digest", snapshot.manifest_digest)
        if launched
        else snapshot.manifest_digest
    )
    if used != snapshot.manifest_digest:
        faults.append("an earlier attempt of this run had another snapshot: changed inputs are a new run")
    return faults


def identity_faults(record: Record, decision: kinds.GateDecision, rules: Gates) -> list[str]:
    """The person of a decision is the one who wrote its record, with the id that the policy knows."""
    faults: list[str] = []
    if (record.actor.type, record.actor.name) != ("person", decision.person_name):
        faults.append(
            f"the decision of {decision.person_name} was written by {record.actor.type} {record.actor.name}"
        )
    known = rules.user_ids.get(decision.person_name)
    if known is not None and known != decision.person_id:
        faults.append(
            f"{decision.person_name} signed with id {decision.person_id!r}, the policy says {known!r}"
        )
    return faults


def rights_faults(view: RunView, *, now: datetime) -> list[str]:
    """Which sources of the run may not be read now: withdrawn, or the right to read them revoked or ended."""
    faults: list[str] = []
    for source in standings(view):
        if source.withdrawal is not None:
            fact = source.withdrawal[1]
            faults.append(f"source {source.name} was withdrawn at {fact.at} by {fact.by}: {fact.reason}")
        faults += [
            f"source {source.name}: {fault}" for fault in (source.revoked(), source.ended(now)) if fault
        ]
    return faults


def open_attempt(view: RunView) -> Record | None:
    """The launch intent of an attempt without a recorded end, or None."""
    ended = {fact.attempt for _, fact in view.all(kinds.AttemptEnded)}
    intents = [record for record, _ in view.all(kinds.LaunchIntended) if record.attempt not in ended]
    return intents[-1] if intents else None


def anchor_faults(ledger: Ledger) -> list[str]:
    """Why it cannot be told that the database is not an old copy; empty if an anchor vouches for it.

    Asked before this launch seals anything: what it publishes itself proves nothing. An old copy in which the
    token of this attempt is unused looks exactly like the ledger before the launch, and only an anchor knows better.
    """
    found = ledger.attest()
    if not found.configured or len(found.silent) < len(found.configured):
        return []
    if not found.sealed:
        # So says a new ledger, and one whose checkpoints were deleted with the anchors. No gate asks and nothing is
        # launched without a seal: a database that holds the one has to hold the other.
        return [NEVER_SEALED_YET] if any(ledger.records(kinds=SEALED_KINDS, limit=1)) else []
    names = ", ".join(found.silent)
    return [f"no anchor is in reach and holds a checkpoint ({names}): the database may be an old copy"]


def signed_over(
    ledger: Ledger, records: Sequence[Record], *, rests_on: int, missing: str
) -> tuple[SignedCheckpoint | None, list[str]]:
    """A signed checkpoint that covers position ``rests_on`` and proves ``records``, or what hinders it."""
    checkpoint, faults = sealed_faults(ledger, records)
    if faults:
        return None, faults
    if checkpoint is None or checkpoint.size <= rests_on:
        return None, [missing]
    return checkpoint, []


def bound_facts(
    view: RunView, attempt: int, observed: Observed, policy: LoadedPolicy
) -> dict[str, Any] | None:
    """The part of a token that names what the launch is bound to; None where something is unrecorded."""
    config = view.latest(kinds.ConfigurationDeclared)
    snapshot, split = view.latest(kinds.SnapshotCreated), view.latest(kinds.SplitCreated)
    if config is None or snapshot is None or split is None:
        return None
    return {
        "format": FORMAT,
        "run_uid": view.run_uid,
        "attempt": attempt,
        "snapshot": f"{snapshot.name}@{snapshot.version}",
        "snapshot_digest": snapshot.manifest_digest,
        "split_digest": split.split_digest,
        "configuration_digest": config.configuration_digest,
        "code_digest": observed.code_digest,
        "environment_digest": observed.environment_digest,
        "budget": config.budget.to_json(),
        "minutes_left": round(config.budget.minutes - spent_minutes(view), 3),
        "stop": config.stop.to_json(),
        "policy_digest": policy.digest,
    }
