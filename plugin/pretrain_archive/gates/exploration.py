"""A launch without a full sign-off: inside the policy's ceiling, for as long as the job's own deadline lets it live.

The ceiling counts accelerators × minutes (machines where there are no accelerators), per run over all its attempts
and, where the policy says so, per day and project. What a launch may take is the least of what budget, wall time,
the run and the day have left; that is its deadline, which the job carries itself, so that the ceiling holds also
when nobody watches. The day's shares stand in a stream of their own, written in one transaction with the intent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.exploration import units_of
from pretrain_archive.domain.identity import format_time, new_id
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.domain.policy_compute import Exploration
from pretrain_archive.domain.records import Actor, Draft, Origin, Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.training import spent_minutes
from pretrain_archive.gates.permit_parts import (
    NOT_COVERED_YET,
    UNRECORDED,
    LaunchPermit,
    Observed,
    Share,
    bound_facts,
    signed_over,
)
from pretrain_archive.gates.permit_time import TOKEN_LIVES
from pretrain_archive.gates.sources import newest_of_sources
from pretrain_archive.ledger.port import Ledger

LEAST_SECONDS = 6.0
"""Less than this is not worth a start: the ceiling counts as used up."""

_CHUNK = 200


@dataclass(frozen=True, kw_only=True)
class Day:
    """What a project's explorations of one day took; ``newest`` is the stream's newest record, -1 for none."""

    stream: str
    newest: int
    minutes: float
    records: tuple[Record, ...]


def day_stream(project: str, day: str) -> str:
    """The stream of the shares of a project's day."""
    return f"exploration/{project}/{day}"


def day_of(ledger: Ledger, project: str, day: str) -> Day:
    """The day as the ledger tells it: an ended attempt counts what it took, any other one all that it reserved.

    Read are the day's shares and the ends of their attempts: the work does not grow with the ledger.
    """
    stream = day_stream(project, day)
    records = tuple(ledger.records(streams=[stream]))
    shares = [
        kinds.read_payload(r, kinds.ExplorationReserved) for r in records if r.kind == "exploration.reserved"
    ]
    took = _took(ledger, dict.fromkeys(share.run_uid for share in shares))
    minutes = sum(
        took.get((share.run_uid, share.attempt), share.deadline_seconds) * share.units / 60
        for share in shares
    )
    return Day(
        stream=stream, newest=records[-1].sequence if records else -1, minutes=minutes, records=records
    )


def _took(ledger: Ledger, runs: Iterable[str]) -> dict[tuple[str, int], float]:
    """Seconds of every ended attempt of ``runs`` whose time is recorded."""
    found: dict[tuple[str, int], float] = {}
    uids = list(runs)
    for start in range(0, len(uids), _CHUNK):
        for record in ledger.records(streams=uids[start : start + _CHUNK], kinds=["attempt.ended"]):
            ended = kinds.read_payload(record, kinds.AttemptEnded)
            if ended.seconds is not None:
                found[record.stream, ended.attempt] = max(0.0, ended.seconds)
    return found


def run_minutes(view: RunView) -> float:
    """Accelerator minutes that the run's attempts took; one without a recorded time counts its whole deadline."""
    ends = {fact.attempt: fact for _, fact in view.all(kinds.AttemptEnded)}
    total = 0.0
    for record, launch in view.all(kinds.LaunchIntended):
        end = ends.get(record.attempt)
        deadline = float(launch.token.get("deadline_seconds") or 0.0)
        seconds = deadline if end is None or end.seconds is None else max(0.0, end.seconds)
        total += seconds * int(launch.token.get("units") or 1) / 60
    return total


def ceiling_faults(view: RunView, policy: LoadedPolicy) -> list[str]:
    """Why this run may not be launched as an exploration at all, time aside."""
    ceiling, config = policy.policy.exploration, view.latest(kinds.ConfigurationDeclared)
    if ceiling is None:
        return ["the policy has no [exploration] section: nothing runs unsigned"]
    if config is None:
        return [UNRECORDED]
    faults: list[str] = []
    if config.budget.accelerators > ceiling.max_accelerators:
        faults.append(
            f"an exploration may hold {ceiling.max_accelerators} accelerators, {config.budget.accelerators} are "
            "asked for"
        )
    if config.budget.nodes > max(1, ceiling.max_accelerators):
        faults.append(
            f"an exploration may hold {max(1, ceiling.max_accelerators)} machines, {config.budget.nodes} are asked for"
        )
    if config.budget.minutes * units_of(config.budget) > ceiling.accelerator_minutes:
        faults.append(
            f"an exploration may take {ceiling.accelerator_minutes:g} accelerator minutes, "
            f"{config.budget.minutes * units_of(config.budget):g} are asked for"
        )
    return faults


def share_of(
    ledger: Ledger, view: RunView, ceiling: Exploration, *, moment: datetime
) -> tuple[Share | None, Day, list[str]]:
    """What the next attempt may take now, the day it is taken from, and why it may take nothing."""
    config, opened = view.latest(kinds.ConfigurationDeclared), view.opened
    day = format_time(moment)[:10]
    project = opened.project if opened else ""
    taken = day_of(ledger, project, day)
    if config is None:
        return None, taken, [UNRECORDED]
    units = units_of(config.budget)
    left = {
        "the run's ceiling": (ceiling.accelerator_minutes - run_minutes(view)) / units,
        "the budget": config.budget.minutes - spent_minutes(view),
        "the wall time": config.stop.wall_minutes,
    }
    if ceiling.accelerator_minutes_per_day is not None:
        left[f"the ceiling of {day}"] = (ceiling.accelerator_minutes_per_day - taken.minutes) / units
    # Down to the millisecond below: rounding up would be more than what is left.
    seconds = math.floor(min(left.values()) * 60_000) / 1000
    if seconds < LEAST_SECONDS:
        named = [name for name, minutes in left.items() if minutes * 60 < LEAST_SECONDS]
        return None, taken, [f"{name} of an exploration is used up" for name in named]
    share = Share(
        project=project,
        day=day,
        units=units,
        deadline_seconds=seconds,
        per_day=ceiling.accelerator_minutes_per_day,
    )
    return share, taken, []


def derive(
    ledger: Ledger,
    view: RunView,
    *,
    policy: LoadedPolicy,
    observed: Observed,
    now: datetime,
    moment: datetime,
) -> tuple[LaunchPermit | None, list[str]]:
    """The token of an exploration's next attempt, or everything that forbids it beyond what was asked already."""
    ceiling = policy.policy.exploration
    if ceiling is None:
        return None, ceiling_faults(view, policy)
    share, taken, faults = share_of(ledger, view, ceiling, moment=moment)
    bound = bound_facts(view, view.attempts + 1, observed, policy)
    if share is None or bound is None:
        return None, faults or [UNRECORDED]
    rests_on = max(record.position for record in view.records if record.kind in BOUND_KINDS)
    checkpoint, faults = signed_over(
        ledger, [*view.records, *taken.records], rests_on=rests_on, missing=NOT_COVERED_YET
    )
    if checkpoint is None:
        return None, faults
    token = bound | {
        "scope": "exploration",
        "ceiling": ceiling.model_dump(mode="json"),
        "units": share.units,
        "deadline_seconds": share.deadline_seconds,
        "expires": format_time(moment + TOKEN_LIVES),
        "nonce": new_id("nonce"),
    }
    permit = LaunchPermit(
        run_uid=view.run_uid, attempt=view.attempts + 1, token=token, checkpoint=checkpoint, follows=view.newest,
        sources=newest_of_sources(view), derived_at=now, rests_on=rests_on, share=share,
    )  # fmt: skip
    return permit, []


BOUND_KINDS = frozenset(
    {"run.opened", "configuration.declared", "environment.declared", "snapshot.created", "split.created"}
)
"""The records that an exploration rests on."""


def reservation(ledger: Ledger, permit: LaunchPermit, *, actor: Actor, origin: Origin) -> Draft:
    """The share of the day as a draft that is written only if the day got no other share since it was read.

    Raises :class:`RefusedError` where the day has less left than the token's deadline takes.
    """
    share = permit.share
    if share is None:
        raise ValueError("a full launch takes no share")
    taken = day_of(ledger, share.project, share.day)
    asked = share.deadline_seconds * share.units / 60
    if share.per_day is not None and taken.minutes + asked > share.per_day:
        raise RefusedError(
            "no launch",
            reasons=(_too_much(share, taken.minutes, asked),),
            hint="Wait for the next day (UTC) or for a shorter exploration; nothing was started.",
        )
    payload = kinds.ExplorationReserved(
        project=share.project, day=share.day, run_uid=permit.run_uid, attempt=permit.attempt,
        token_digest=permit.digest, units=share.units, deadline_seconds=share.deadline_seconds,
    )  # fmt: skip
    return Draft(
        stream=taken.stream, kind="exploration.reserved", payload=payload.to_json(), actor=actor, origin=origin,
        attempt=permit.attempt, unique=f"{taken.stream}/{permit.run_uid}/{permit.attempt}", follows=taken.newest,
    )  # fmt: skip


def _too_much(share: Share, taken: float, asked: float) -> str:
    return (
        f"the project's explorations of {share.day} took {taken:g} of {share.per_day:g} accelerator minutes, "
        f"this one needs {asked:g}"
    )
