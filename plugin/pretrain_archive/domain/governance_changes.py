"""The order of a platform change (R228–R230), without any I/O.

* It is proposed first: what changes from what to what, whom it touches, which scenario has to come through, where it
  is tried, in which stages it is rolled out. A key upgrade also says how it is taken back and what it cannot do.
* No stage is reached before the scenario came through on the new value; stages come one after the other.
* The last stage means that the platform is upgraded. That is no acceptance: the owner of each project's tasks gives
  one for that project, and until then the project stands as not accepted.
* What was taken back is over. A further try is a new proposal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from pretrain_archive.domain import kinds
from pretrain_archive.domain.records import Record

KEY_COMPONENTS = frozenset({"framework", "driver", "storage", "network", "platform"})
"""What always counts as a key upgrade; an image or a scheduling policy does where the proposer says so."""

DEFAULT_WHERE = {"image": "image", "driver": "stack.driver"}
"""Where a component's value is observed, if the proposer does not say."""


@dataclass(frozen=True, kw_only=True)
class ChangeView:
    """A change as its records tell it."""

    records: tuple[Record, ...]
    proposed: kinds.PlatformProposed
    verified: kinds.PlatformVerified | None
    widened: tuple[kinds.PlatformWidened, ...]
    accepted: tuple[kinds.PlatformAccepted, ...]
    rolled_back: kinds.PlatformRolledBack | None

    @classmethod
    def of(cls, records: Iterable[Record]) -> ChangeView | None:
        """The change of a stream's records; None where nothing was proposed."""
        told = tuple(records)
        read = [
            kinds.read_payload(r, kinds.KINDS[r.kind].model) for r in told if r.kind.startswith("platform.")
        ]
        proposed = next((p for p in read if isinstance(p, kinds.PlatformProposed)), None)
        if proposed is None:
            return None
        return cls(
            records=told, proposed=proposed,
            verified=next((p for p in reversed(read) if isinstance(p, kinds.PlatformVerified)), None),
            widened=tuple(p for p in read if isinstance(p, kinds.PlatformWidened)),
            accepted=tuple(p for p in read if isinstance(p, kinds.PlatformAccepted)),
            rolled_back=next((p for p in read if isinstance(p, kinds.PlatformRolledBack)), None),
        )  # fmt: skip

    @property
    def change_id(self) -> str:
        """The change's id."""
        return self.proposed.change_id

    @property
    def newest(self) -> int:
        """The sequence of the newest record: what a careful writer follows."""
        return self.records[-1].sequence

    @cached_property
    def begin(self) -> int:
        """The position of the proposal: evidence comes after it."""
        return next(r.position for r in self.records if r.kind == "platform.proposed")

    @property
    def state(self) -> str:
        """One of proposed, verified, widening, upgraded, rolled_back."""
        if self.rolled_back is not None:
            return "rolled_back"
        if self.widened:
            return "upgraded" if self.next_share is None else "widening"
        return "verified" if self.verified is not None else "proposed"

    @property
    def open(self) -> bool:
        """Whether it is still under way."""
        return self.state not in {"rolled_back", "upgraded"}

    @property
    def next_share(self) -> float | None:
        """The share of the next stage; None after the last one."""
        stages = self.proposed.stages
        return stages[len(self.widened)] if len(self.widened) < len(stages) else None

    @cached_property
    def projects(self) -> tuple[str, ...]:
        """The projects whose tasks are touched."""
        return tuple(sorted({run.project for run in self.proposed.affected}))

    @property
    def not_accepted(self) -> tuple[str, ...]:
        """The touched projects whose owners have not accepted the change for their tasks."""
        done = {acceptance.project for acceptance in self.accepted}
        return tuple(project for project in self.projects if project not in done)

    def refusals(self, act: str) -> tuple[str, ...]:
        """Why ``act`` (verify, widen, accept, roll back) is out of order now; empty if it is not."""
        if self.rolled_back is not None:
            return (f"it was rolled back by {self.rolled_back.person}: a further try is a new proposal",)
        verified = self.verified is not None
        match act:
            case "verify" if self.widened:
                return ("it is being rolled out already: what is verified comes before the first stage",)
            case "widen" if not verified:
                return (f"{self.scenario} has not come through on {self.proposed.after}: no stage skips it",)
            case "widen" if self.next_share is None:
                return ("every stage is reached",)
            case "accept" if not verified:
                return (f"{self.scenario} has not come through on {self.proposed.after} yet",)
        return ()

    @property
    def scenario(self) -> str:
        """The regression scenario in words."""
        regression = self.proposed.regression
        return f"the {'drill' if regression.kind == 'drill' else 'reference run'} {regression.name}"


def proposal_gaps(proposed: kinds.PlatformProposed) -> tuple[str, ...]:
    """What a proposal lacks before it may be recorded."""
    gaps = []
    if proposed.before == proposed.after:
        gaps.append("before and after are the same value")
    stages = proposed.stages
    rising = all(left < right for left, right in pairwise(stages))
    if len(stages) < 2 or not rising or stages[0] <= 0 or stages[-1] != 1:
        gaps.append("stages are at least two rising shares above 0, and the last one is 1")
    if not proposed.scope_projects and not proposed.scope_nodes:
        gaps.append("no controlled scope: name the projects or the nodes on which it is tried first")
    if proposed.component in KEY_COMPONENTS and not proposed.key:
        gaps.append(f"a change of the {proposed.component} is a key upgrade: say so with --key")
    if proposed.key and not proposed.rollback:
        gaps.append("a key upgrade says how it is taken back: --rollback")
    if proposed.key and not proposed.known_limits:
        gaps.append("a key upgrade says what is known not to work, or not to be tried: --limit")
    return tuple(gaps)
