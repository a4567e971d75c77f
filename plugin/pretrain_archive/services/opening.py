"""Open a run: read the request, bind it to policy, configuration, code and environment, and record it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import ArchiveError, InputError
from pretrain_archive.domain.exploration import check_exploration
from pretrain_archive.domain.identity import Ref, new_id
from pretrain_archive.domain.policy import ROLES, LoadedPolicy
from pretrain_archive.domain.records import Draft, Edge, Relation
from pretrain_archive.domain.request import RunRequest, check_against_policy, read_request
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.service import load_run
from pretrain_archive.ledger.canonical import canonical_bytes, digest_of
from pretrain_archive.ledger.port import Ledger, RunQuery
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.code import Code, read_code, resolve_command
from pretrain_archive.services.evaluation_plans import declare
from pretrain_archive.services.launch_inputs import environment_of, program_of, require_image


@dataclass(frozen=True, kw_only=True)
class Host:
    """Where the run is opened: policies by project, the folder for work, the DAG's code version."""

    policies: Callable[[str], LoadedPolicy]
    work_folder: Path
    code_version: str | None = None
    bundle: str | None = None


@dataclass(frozen=True, kw_only=True)
class _Plan:
    request: RunRequest
    policy: LoadedPolicy
    code: Code
    train: list[str]
    evaluator: Code
    evaluate: list[str]
    evaluations: list[kinds.EvaluationPlanned]
    environment: kinds.EnvironmentDeclared


def _fits(value: Any) -> bool:
    """Whether canonical JSON can hold ``value``."""
    try:
        canonical_bytes(value)
    except ValueError:
        return False
    return True


def _storable(values: Mapping[str, Any]) -> dict[str, Any]:
    """The form as it can be recorded: what canonical JSON cannot hold stands as its text."""
    return {ascii(k) if not _fits(k) else k: v if _fits(v) else ascii(v) for k, v in values.items()}


def _require_storable(values: Mapping[str, Any]) -> None:
    """Refuse a value that could not be recorded exactly, so that its digest would mean nothing."""
    for field, value in values.items():
        if not _fits(value):
            raise InputError(
                field,
                value,
                "cannot be recorded exactly",
                hint="Use finite numbers, whole numbers below 2^53 and Unicode text; write longer numbers as text.",
            )


def _plan(values: Mapping[str, Any], host: Host) -> _Plan:
    request = read_request(values)
    _require_storable(values)
    policy = host.policies(request.project)
    check_against_policy(request, policy.policy)
    check_exploration(request, policy.policy)
    require_image(policy.policy, pinned=request.scope != "exploration")
    train, code = program_of(policy.policy, request.train_command, field="train_command")
    evaluate = resolve_command(request.evaluate_command, field="evaluate_command")
    evaluator = read_code(evaluate)
    own = kinds.EvaluationPlanned(command=evaluate, code_digest=evaluator.digest or None)
    environment = environment_of(policy.policy, train, code)
    return _Plan(
        request=request, policy=policy, code=code, train=train, evaluator=evaluator, evaluate=evaluate,
        evaluations=declare(policy.policy, own),
        environment=environment,
    )  # fmt: skip


def _earlier(ledger: Ledger, caller: Caller) -> list[RunView]:
    """Runs that this DAG run opened before (it was cleared or retried), newest first."""
    rows = ledger.runs(RunQuery(dag_ids=[caller.origin.dag_id], dag_run_id=caller.origin.dag_run_id))
    return [load_run(ledger, row.run_uid) for row in rows]


def _same(view: RunView, plan: _Plan, conf_digest: str, caller: Caller) -> bool:
    """Same inputs and person: the same run goes on. Any changed digest makes a new run (settled reading 1).

    A try number that was used before means that the DAG run was deleted and triggered again under its old id:
    that is a new request, and a new run.
    """
    if any(r.kind == "run.opened" and r.origin.try_number >= caller.origin.try_number for r in view.records):
        return False
    opened, config, env = (
        view.opened,
        view.latest(kinds.ConfigurationDeclared),
        view.latest(kinds.EnvironmentDeclared),
    )
    return (
        opened is not None
        and config is not None
        and env is not None
        and view.state != "closed"
        and opened.submitter == caller.submitter
        and opened.conf_digest == conf_digest
        and opened.policy_digest == plan.policy.digest
        and config.code_digest == (plan.code.digest or None)
        and config.evaluate_code_digest == (plan.evaluator.digest or None)
        and config.evaluations == plan.evaluations
        and env.environment_digest == plan.environment.environment_digest
    )


def _require_origin(ledger: Ledger, request: RunRequest) -> None:
    """Refuse a run that says it replaces one which is not there, or is another project's."""
    origin = request.derived_from
    opened = load_run(ledger, origin).opened if origin else None
    if origin and (opened is None or opened.project != request.project):
        raise InputError(
            "derived_from", origin, f"is no run of project {request.project}",
            hint="Copy the run's id from its page, or leave the field empty.",
        )  # fmt: skip


def open_run(ledger: Ledger, caller: Caller, values: Mapping[str, Any], host: Host) -> kinds.RunOpened:
    """Open the run of this DAG run, or go on with the one it opened before with the same inputs.

    A request that cannot be read is recorded as a failed run with its reason, then raised.
    """
    earlier = _earlier(ledger, caller)
    conf = _storable(values)
    conf_digest = digest_of(conf)
    try:
        plan = _plan(values, host)
        _require_origin(ledger, plan.request)
    except ArchiveError as error:
        _record_failed(ledger, caller, conf, earlier, error)
        raise
    if earlier and earlier[0].opened is not None and _same(earlier[0], plan, conf_digest, caller):
        caller.say(f"run {earlier[0].run_uid} goes on: its inputs are unchanged")
        return earlier[0].opened
    run_uid = new_id("run")
    opened = kinds.RunOpened(
        run_uid=run_uid,
        project=plan.request.project,
        dag_id=caller.origin.dag_id,
        dag_run_id=caller.origin.dag_run_id,
        submitter=caller.submitter,
        purpose=plan.request.purpose(),
        people={role: getattr(plan.policy.policy.people, role) for role in ROLES},
        policy_digest=plan.policy.digest,
        policy_name=plan.policy.name,
        policy=plan.policy.policy.model_dump(mode="json"),
        conf=conf,
        conf_digest=conf_digest,
        code_version=host.code_version,
        bundle=host.bundle,
        derived_from=plan.request.derived_from or (earlier[0].run_uid if earlier else None),
    )
    ledger.append(_drafts(caller, opened, plan, host, len(earlier)))
    caller.say(f"run {run_uid} opened for project {opened.project} under policy {plan.policy.name}")
    return opened


def _drafts(caller: Caller, opened: kinds.RunOpened, plan: _Plan, host: Host, earlier: int) -> list[Draft]:
    policy = plan.policy.policy
    location = str(host.work_folder / opened.run_uid / "checkpoints")
    configuration = {**plan.request.configuration, "checkpoint_every": plan.request.checkpoint_every}
    declared = kinds.ConfigurationDeclared(
        configuration=configuration,
        configuration_digest=digest_of(configuration),
        command=plan.train,
        code_digest=plan.code.digest or None,
        code_files=plan.code.files,
        evaluate_command=plan.evaluate,
        evaluate_code_digest=plan.evaluator.digest or None,
        evaluate_code_files={} if plan.evaluator.files == plan.code.files else plan.evaluator.files,
        evaluations=plan.evaluations,
        base_model=plan.request.base_model,
        budget=plan.request.budget(policy),
        stop=plan.request.stop_conditions(),
        checkpoints=plan.request.checkpoint_plan(policy, location),
    )
    run = Ref(type="run", id=opened.run_uid)
    edges = [Edge(subject=run, relation=Relation.WAS_ASSOCIATED_WITH, object=Ref(type="person", id=name))
             for name in sorted({opened.submitter or "", *opened.people.values()} - {""})]  # fmt: skip
    if opened.derived_from:
        edges.append(
            Edge(
                subject=run,
                relation=Relation.WAS_DERIVED_FROM,
                object=Ref(type="run", id=opened.derived_from),
            )
        )
    if declared.base_model:
        base = Ref(type="model", id=declared.base_model)
        edges.append(Edge(subject=run, relation=Relation.USED, object=base))
    unique = f"open/{opened.dag_id}/{opened.dag_run_id}/{earlier}"
    bodies: list[tuple[str, kinds.Payload, tuple[Edge, ...], str]] = [
        ("run.opened", opened, tuple(edges), unique),
        ("configuration.declared", declared, (), ""),
        ("environment.declared", plan.environment, (), ""),
    ]
    return [
        Draft(stream=opened.run_uid, kind=kind, payload=payload.to_json(), actor=caller.actor, origin=caller.origin,
              edges=edge, unique=key)
        for kind, payload, edge, key in bodies
    ]  # fmt: skip


def _record_failed(
    ledger: Ledger, caller: Caller, conf: dict[str, Any], earlier: list[RunView], error: ArchiveError
) -> None:
    run_uid = new_id("run")
    opened = kinds.RunOpened(
        run_uid=run_uid,
        project=str(conf.get("project", "")),
        dag_id=caller.origin.dag_id,
        dag_run_id=caller.origin.dag_run_id,
        submitter=caller.submitter,
        purpose=None,
        people={},
        policy_digest=None,
        policy_name="",
        conf=conf,
        conf_digest=digest_of(conf),
        derived_from=earlier[0].run_uid if earlier else None,
    )
    unique = f"open/{opened.dag_id}/{opened.dag_run_id}/{len(earlier)}"
    bodies: list[tuple[str, kinds.Payload, str]] = [
        ("run.opened", opened, unique),
        ("run.failed", _failed(caller, error), ""),
    ]
    ledger.append([
        Draft(stream=run_uid, kind=kind, payload=payload.to_json(), actor=caller.actor, origin=caller.origin,
              unique=key)
        for kind, payload, key in bodies
    ])  # fmt: skip


def _failed(caller: Caller, error: ArchiveError) -> kinds.RunFailed:
    return kinds.RunFailed(
        task_id=caller.origin.task_id, error_code=error.code, reason=error.message, hint=error.hint
    )


def record_failure(ledger: Ledger, caller: Caller, run_uid: str, error: Exception) -> None:
    """Record that a step of an open run failed, with its reason.

    A closed run takes no more facts, and a run of another DAG run none from this one: XCom can be overwritten.
    """
    view = load_run(ledger, run_uid)
    if view.opened is None or view.state == "closed":
        return
    if (view.opened.dag_id, view.opened.dag_run_id) != (caller.origin.dag_id, caller.origin.dag_run_id):
        return
    known = error if isinstance(error, ArchiveError) else ArchiveError(f"{type(error).__name__}: {error}")
    ledger.append([
        Draft(stream=run_uid, kind="run.failed", payload=_failed(caller, known).to_json(), actor=caller.actor,
              origin=caller.origin, attempt=view.attempts)
    ])  # fmt: skip
