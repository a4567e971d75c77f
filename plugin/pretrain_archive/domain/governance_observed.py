"""On which values runs were seen: what workers observed, what members were given, what the recorded policy says.

A value is named by its place: ``image``; ``policy.`` and the path of a field in the policy that was recorded with the
run; else the path in an observed environment, such as ``packages.torch`` or ``stack.driver``. A key that holds dots
itself (a library's path) is found too. What nobody observed is not there: no value is guessed from another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pretrain_archive.domain import kinds
from pretrain_archive.domain.run_view import RunView

POLICY = "policy."
IMAGE = "image"
KINDS = (
    "run.opened", "run.failed", "run.closed", "launch.intended", "attempt.ended", "environment.declared",
    "environment.observed", "member.observed", "drill.filed",
)  # fmt: skip
"""The kinds that this module reads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """A value and who had it: ``worker`` None is the whole run; ``record`` is the observation."""

    attempt: int
    worker: int | None
    value: str
    record: str


def seen_values(view: RunView, where: str) -> list[Seen]:
    """Every observation of the value at ``where``, oldest first; empty where it is unrecorded."""
    if where.startswith(POLICY):
        return list(_of_policy(view, where.removeprefix(POLICY)))
    found = list(_of_workers(view, where))
    return sorted([*found, *_of_members(view, found)], key=lambda s: s.attempt) if where == IMAGE else found


def newest_values(view: RunView, where: str, *, attempt: int | None = None) -> list[Seen]:
    """The last observation of each worker of ``attempt`` (None: the newest that was observed)."""
    seen = seen_values(view, where)
    chosen = attempt if attempt is not None else max((s.attempt for s in seen), default=0)
    if where.startswith(POLICY):
        return seen
    return list({s.worker: s for s in seen if s.attempt == chosen}.values())


def values_of(view: RunView, where: str, attempt: int) -> list[Seen]:
    """Every observation of the value in one attempt; of a policy's value that of the run."""
    return [s for s in seen_values(view, where) if where.startswith(POLICY) or s.attempt == attempt]


def workers_of(view: RunView, attempt: int) -> set[int]:
    """The workers that an attempt is known to have had: those that were seen, and those asked for of a cluster."""
    found = {p.worker for r, p in view.all(kinds.EnvironmentObserved) if r.attempt == attempt}
    found |= {m.worker for _, m in view.all(kinds.MemberObserved) if m.attempt == attempt}
    launched = [p for r, p in view.all(kinds.LaunchIntended) if r.attempt == attempt]
    declared = view.latest(kinds.ConfigurationDeclared)
    if declared is not None and launched and launched[-1].target == "kubernetes":
        found |= set(range(declared.budget.nodes))
    return found


def nodes_of(view: RunView, attempt: int) -> dict[int, set[str]]:
    """On which nodes each worker of an attempt was seen."""
    found: dict[int, set[str]] = {}
    for _, member in view.all(kinds.MemberObserved):
        if member.attempt == attempt and member.node:
            found.setdefault(member.worker, set()).add(member.node)
    for record, observed in view.all(kinds.EnvironmentObserved):
        if record.attempt == attempt and (node := observed.environment.get("node")):
            found.setdefault(observed.worker, set()).add(str(node))
    return found


def _of_policy(view: RunView, path: str) -> Iterator[Seen]:
    found = view.last(kinds.RunOpened)
    value = value_at(found[1].policy, path) if found else None
    if found is not None and value is not None:
        yield Seen(attempt=view.attempts, worker=None, value=value, record=found[0].record_id)


def _of_workers(view: RunView, where: str) -> Iterator[Seen]:
    """What the probe saw inside each worker; before the first launch what was declared."""
    observed = False
    for record, payload in view.all(kinds.EnvironmentObserved):
        value = value_at(payload.environment, where)
        if value is not None:
            observed = True
            yield Seen(attempt=record.attempt, worker=payload.worker, value=value, record=record.record_id)
    declared = view.last(kinds.EnvironmentDeclared)
    if observed or view.attempts or declared is None:
        return
    value = declared[1].image if where == IMAGE else value_at(declared[1].environment, where)
    if value is not None:
        yield Seen(attempt=0, worker=None, value=value, record=declared[0].record_id)


def _of_members(view: RunView, found: list[Seen]) -> Iterator[Seen]:
    """The image that a cluster gave a member, where its worker did not say it itself."""
    told = {(s.attempt, s.worker) for s in found}
    for record, member in view.all(kinds.MemberObserved):
        value = member.image_digest or member.image
        if value is not None and (member.attempt, member.worker) not in told:
            yield Seen(attempt=member.attempt, worker=member.worker, value=value, record=record.record_id)


def value_at(document: Any, path: str) -> str | None:
    """The scalar at a dotted path as text; None where there is none."""
    if not path:
        return _scalar(document)
    if isinstance(document, list):
        head, _, rest = path.partition(".")
        inside = head.isdecimal() and int(head) < len(document)
        return value_at(document[int(head)], rest) if inside else None
    parts = path.split(".") if isinstance(document, Mapping) else []
    for length in range(len(parts), 0, -1):  # the longest key first: a key may hold dots
        key = ".".join(parts[:length])
        if key in document:
            return value_at(document[key], ".".join(parts[length:]))
    return None


def _scalar(value: Any) -> str | None:
    """A scalar as text. The ledger's canonical JSON writes 10.0 as 10, so both are said alike."""
    if value is None or isinstance(value, Mapping | list):
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def same_value(where: str, left: str, right: str) -> bool:
    """Whether two values are one; images are compared by their digest where both have one."""
    if where == IMAGE and "@" in left and "@" in right:
        return left.rpartition("@")[2] == right.rpartition("@")[2]
    if where == IMAGE and left.startswith("sha256:") != right.startswith("sha256:"):
        return left.rpartition("@")[2] == right.rpartition("@")[2]
    return left == right
