"""The prepare gate: nothing large is occupied before these hold (R125–R131)."""

from __future__ import annotations

from pretrain_archive.domain import kinds
from pretrain_archive.domain.checklists.common import Check, item, last, named, short
from pretrain_archive.domain.checklists.labels import label_review
from pretrain_archive.domain.checklists.processing import processing
from pretrain_archive.domain.checklists.quality import quality, quality_advice
from pretrain_archive.domain.checklists.sources import (
    access_granted,
    access_identity,
    data_scope,
    source_rights,
)
from pretrain_archive.domain.policy import ROLES, Policy
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item


def configuration_environment(view: RunView, policy: Policy) -> Item:
    """Configuration, the code of both programs, and environment have stable ids (R127)."""
    config_record, config = last(view, kinds.ConfigurationDeclared)
    env_record, env = last(view, kinds.EnvironmentDeclared)
    unbound = _unbound(config)
    holds = None if env is None or unbound else True
    found = ""
    if config is not None and env is not None:
        found = (
            f"configuration {short(config.configuration_digest)}, code {short(config.code_digest or 'unrecorded')}, "
            f"environment {short(env.environment_digest)}"
        )
    return item(
        "prepare.config_environment",
        "compute",
        evidence=(config_record, env_record),
        holds=holds,
        found=found,
        check="configuration, code of training and evaluation, and environment are recorded with digests",
        expected="a digest of each",
        owner=policy.people.model_owner,
        requirement="R127",
        hint=f"No file was found of the program that {' and '.join(unbound)} runs; name its script, or its module "
        "with the interpreter."
        if config is not None and unbound
        else "Trigger the run again from the form.",
    )


def _unbound(config: kinds.ConfigurationDeclared | None) -> list[str]:
    """Which commands run code that has no digest; runs opened before evaluation was bound name no such command."""
    if config is None:
        return ["configuration"]
    unbound = ["train_command"] if config.code_digest is None else []
    if config.evaluate_command and config.evaluate_code_digest is None:
        unbound.append("evaluate_command")
    return unbound


def budget(view: RunView, policy: Policy) -> Item:
    """The resource request is explicit, within quota, with an owner (R128)."""
    record, config = last(view, kinds.ConfigurationDeclared)
    holds: bool | None = None
    found = ""
    if config is not None:
        asked = config.budget
        holds = (
            asked.accelerators <= policy.quotas.max_accelerators
            and asked.minutes <= policy.quotas.max_minutes
            and asked.owner == policy.people.budget_owner
        )
        found = f"{asked.accelerators} × {asked.accelerator}, {asked.minutes:g} min, owner {asked.owner}"
    return item(
        "prepare.budget",
        "compute",
        evidence=(record,),
        holds=holds,
        found=found,
        check="the request lies within the project's quota and names the budget owner",
        expected=f"at most {policy.quotas.max_accelerators} accelerators, {policy.quotas.max_minutes:g} min",
        owner=policy.people.budget_owner,
        requirement="R128",
        hint="Lower the request or have the quota raised.",
    )


def checkpoints(view: RunView, policy: Policy) -> Item:
    """Checkpoint location, retention and restore responsibility are defined (R129)."""
    record, config = last(view, kinds.ConfigurationDeclared)
    plan = config.checkpoints if config else None
    missing = {"location", "restore_owner", "retention_rule"} - set(
        named(plan, "location", "restore_owner", "retention_rule")
    )
    holds = None if plan is None or missing else plan.restore_owner == policy.people.restore_owner
    found = (
        f"every {plan.every_steps} steps, {plan.retention_rule}, restored by {plan.restore_owner}"
        if plan
        else ""
    )
    return item(
        "prepare.checkpoints",
        "compute",
        evidence=(record,),
        holds=holds,
        found=found,
        check="location, interval, retention rule and restore owner are recorded",
        expected="all four",
        owner=policy.people.restore_owner,
        requirement="R129",
        hint="Add a [retention] section to the project's policy."
        if "retention_rule" in missing
        else "Trigger again.",
    )


def run_id(view: RunView, policy: Policy) -> Item:
    """The run id ties data, task and later results together (R130)."""
    opened_record, opened = last(view, kinds.RunOpened)
    snapshot_record, _ = last(view, kinds.SnapshotCreated)
    config_record, _ = last(view, kinds.ConfigurationDeclared)
    holds: bool | None = None
    if opened is not None and snapshot_record is not None and config_record is not None:
        holds = opened.run_uid == view.run_uid and {
            r.stream for r in (opened_record, snapshot_record, config_record) if r
        } == {view.run_uid}
    return item(
        "prepare.run_id",
        "gates",
        evidence=(opened_record, snapshot_record, config_record),
        holds=holds,
        found=view.run_uid,
        check="data and configuration are recorded under this run id",
        expected=view.run_uid,
        owner=policy.people.platform_owner,
        requirement="R130",
        hint="Trigger the run again from the form.",
    )


def stop_conditions(view: RunView, policy: Policy) -> Item:
    """Stop conditions for failure, over-budget and data anomaly exist (R131)."""
    record, config = last(view, kinds.ConfigurationDeclared)
    stop = config.stop if config else None
    holds = None if stop is None else stop.stop_on_nan and stop.wall_minutes <= policy.quotas.max_minutes
    found = ""
    if stop is not None:
        found = (
            f"wall {stop.wall_minutes:g} min, no progress {stop.no_progress_minutes:g} min, "
            f"NaN {'stops' if stop.stop_on_nan else 'ignored'}, {stop.max_attempts} attempts"
        )
    return item(
        "prepare.stop_conditions",
        "compute",
        evidence=(record,),
        holds=holds,
        found=found,
        check="wall time, budget, NaN and no-progress rules are set within the quota",
        expected=f"NaN stops, wall at most {policy.quotas.max_minutes:g} min",
        owner=policy.people.platform_owner,
        requirement="R131",
        hint="Set the stop conditions in the trigger form.",
    )


def retention_policy(view: RunView, policy: Policy) -> Item:
    """The project has a retention policy of its own (R148)."""
    record, _ = last(view, kinds.RunOpened)
    kept = policy.retention
    return item(
        "prepare.retention",
        "artifact",
        evidence=(record,),
        holds=None if kept is None else True,
        found=f"keep last {kept.recovery_keep_last}, {kept.recovery_max_age_days:g} days" if kept else "",
        check="the project's policy file has a retention section",
        expected="a retention section",
        owner=policy.people.data_owner,
        requirement="R148",
        hint="Add a [retention] section to the policy.",
    )


def confirmed(view: RunView, policy: Policy) -> Item:
    """The eight things that the gate confirms are all there (R125)."""
    present = {
        "data snapshot": view.last(kinds.SnapshotCreated),
        "processing rules": view.last(kinds.SplitCreated),
        "configuration": view.last(kinds.ConfigurationDeclared),
        "environment": view.last(kinds.EnvironmentDeclared),
    }
    config = view.latest(kinds.ConfigurationDeclared)
    people = view.opened.people if view.opened else {}
    missing = [name for name, found in present.items() if found is None]
    missing += [] if config else ["budget", "checkpoint policy", "stop conditions"]
    missing += [] if all(people.get(role) for role in ROLES) else ["responsible people"]
    return item(
        "prepare.confirmed",
        "gates",
        evidence=tuple(found[0] for found in present.values() if found),
        holds=None if missing else True,
        found="8 of 8",
        expected="8 of 8",
        check="data, rules, configuration, environment, budget, checkpoints, stop rules and people are recorded",
        owner=policy.people.platform_owner,
        requirement="R125",
        hint=f"Missing: {', '.join(missing)}." if missing else "",
    )


def _optional(item_id: str, requirement: str, model_field: str, check: str, hint: str) -> Check:
    def made(view: RunView, policy: Policy) -> Item:
        record, source = last(view, kinds.SourceRegistered)
        value = getattr(source, model_field) if source is not None else None
        return item(
            item_id,
            "data",
            evidence=(record,),
            holds=True if value else None,
            found=str(value or ""),
            check=check,
            owner=policy.people.data_owner,
            requirement=requirement,
            hint=hint,
            blocking=False,
        )

    return made


CHECKS: tuple[Check, ...] = (
    confirmed,
    data_scope,
    source_rights,
    quality,
    label_review,
    processing,
    configuration_environment,
    budget,
    checkpoints,
    run_id,
    stop_conditions,
    retention_policy,
    _optional(
        "prepare.masking",
        "R038",
        "masking",
        "the masking method is recorded",
        "Say in the form how personal data was masked, or that there is none.",
    ),
    _optional(
        "prepare.collected_at",
        "R036",
        "collected_at",
        "the collection time is recorded",
        "Give the collection time in the form.",
    ),
    access_identity,
    access_granted,
    quality_advice,
)
