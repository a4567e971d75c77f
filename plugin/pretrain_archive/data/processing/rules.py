"""A rule's digest, its record at the first application, and whether it is in force."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pretrain_archive.domain.errors import AlreadyRecordedError, RefusedError
from pretrain_archive.domain.identity import Ref, utc_now
from pretrain_archive.domain.kinds import RuleDeclared, read_payload
from pretrain_archive.domain.processing import INTERPRETERS
from pretrain_archive.domain.records import Actor, Draft, Origin, Record
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.ledger.port import Ledger

FORMAT = "pretrain-archive/rule/1"
STREAM = "data/rules"
"""Where rules are recorded: they belong to no single run."""


def rule_of(step: Any, *, project: str = "") -> RuleDeclared:
    """The rule that a policy's step states, with its digest; the project is no part of the digest."""
    stated = {
        "name": step.name,
        "version": step.version,
        "kind": step.kind,
        "parameters": step.parameters(),
        "effective_from": step.effective_from,
        "interpreter": INTERPRETERS[step.kind],
    }
    return RuleDeclared(rule_digest=digest_of({"format": FORMAT, **stated}), project=project, **stated)


def rule_ref(rule: RuleDeclared) -> Ref:
    """``rule:NAME@sha256:DIGEST``: a name may mean other things in another project, a digest never."""
    return Ref(type="rule", id=rule.name, version=rule.rule_digest)


def code_version() -> str:
    """The version of this package."""
    try:
        return version("pretrain-archive")
    except PackageNotFoundError:  # run from a tree that was not installed
        return "not installed"


def require_in_force(rule: RuleDeclared, *, now: str | None = None) -> None:
    """Refuse a rule whose declared moment has not come."""
    moment = now or utc_now()
    if rule.effective_from is not None and rule.effective_from > moment:
        raise RefusedError(
            f"rule {rule.name} version {rule.version} takes effect at {rule.effective_from}, it is {moment}",
            hint="Wait, or have the policy's owner give it an earlier effective_from under a new version.",
        )


def declare(ledger: Ledger, rule: RuleDeclared, *, actor: Actor, origin: Origin) -> str:
    """Record the rule if none of its project has its digest; return when it was recorded, that is first applied.

    Refuses (``RefusedError``) other words under the same name and version of the project: a rule that changes
    gets a new version, so that old records keep their meaning.
    """
    if (known := _known(ledger, rule)) is not None:
        return known.recorded_at
    draft = Draft(
        stream=STREAM, kind="rule.declared", payload=rule.to_json(), actor=actor, origin=origin,
        ordinal=int(digest_of([rule.rule_digest, rule.project])[7:14], 16),
        unique=f"rule:{rule.name}:{rule.version}:{rule.interpreter}:{rule.project}",
    )  # fmt: skip
    try:
        return ledger.append([draft])[0].recorded_at
    except AlreadyRecordedError:
        # Another run declared a rule of this name and version in this moment: this one, or it is refused.
        found = _known(ledger, rule)
        if found is None:
            raise
        return found.recorded_at


def _known(ledger: Ledger, rule: RuleDeclared) -> Record | None:
    for record in ledger.records(streams=[STREAM], kinds=["rule.declared"]):
        other = read_payload(record, RuleDeclared)
        if other.project != rule.project:
            continue  # each project declares its own, also where the words are the same
        if other.rule_digest == rule.rule_digest:
            return record
        if (other.name, other.version) == (rule.name, rule.version) and other.interpreter == rule.interpreter:
            said = {
                key: value for key, value in other.parameters.items() if rule.parameters.get(key) != value
            }
            raise RefusedError(
                f"rule {rule.name} version {rule.version} was applied on {record.recorded_at} with other words "
                f"({', '.join(said) or 'kind, moment or further parameters'})",
                hint="Give the changed rule a higher version in the policy.",
            )
    return None
