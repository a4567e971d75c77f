"""Launch the next attempt of a run: permission, data, recovery point, one process tree, how it ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pretrain_archive.artifacts.verification import newest_verified
from pretrain_archive.compute.cost import spent_seconds
from pretrain_archive.compute.environment import declare_environment
from pretrain_archive.compute.local import LocalLaunch
from pretrain_archive.compute.recovery import repeated_failure
from pretrain_archive.compute.spec import JobSpec, attempt_folder
from pretrain_archive.data.verify import verify_snapshot
from pretrain_archive.domain.errors import AskedToEndError, RefusedError
from pretrain_archive.domain.kinds import (
    AttemptEnded,
    ConfigurationDeclared,
    EnvironmentDeclared,
    SplitCreated,
    StopFired,
)
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.domain.records import Draft
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.training import target_steps
from pretrain_archive.gates.permit import (
    NOT_SIGNED_YET,
    LaunchPermit,
    Observed,
    consume_permit,
    derive_permit,
    launch_faults,
    open_attempt,
)
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.checkpoints import registrar
from pretrain_archive.services.code import Code, read_code
from pretrain_archive.services.laying import lay_out
from pretrain_archive.services.progress import every
from pretrain_archive.services.recovering import take_over
from pretrain_archive.services.runs import opened_of, policy_of, run_of, snapshot_of
from pretrain_archive.storage.port import ObjectStore

SIGNER_SECONDS = 90.0
"""How long a launch waits for the ledger's signer: the unanchored window is 60 s at most (invariant 2)."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What a launch works with besides the ledger: store, policies by project, folder with a folder per run."""

    store: ObjectStore
    policies: Callable[[str], LoadedPolicy]
    runs_folder: Path


def launch(
    ledger: Ledger, caller: Caller, run_uid: str, bench: Bench, *, hold: Callable[[LocalLaunch], None],
    asked_to_end: Callable[[], bool] = lambda: False,
) -> AttemptEnded:  # fmt: skip
    """Run the next attempt to its end and return how it ended; a completed one is returned and not repeated.

    Permission is asked first, before anything is touched, and again after the long work of proving and laying
    out the data, right before the token is consumed. ``hold`` is given the launch before it starts, so that a
    signal can end it; ``asked_to_end`` says that one came earlier. Raises :class:`RefusedError` naming everything
    that is missing or stale; then no process was started.
    """
    view = run_of(ledger, caller, run_uid)
    _require_allowed(ledger, caller, view, bench)
    if (done := _completed(view)) is not None:
        caller.say(f"attempt {done.attempt} completed with exactly these inputs: nothing is started")
        return done
    take_over(ledger, caller, view, bench.runs_folder)
    view = run_of(ledger, caller, run_uid)
    _refuse_repetition(ledger, caller, view)
    manifest = _data(view, bench, caller, bench.runs_folder / run_uid / "data")
    view = run_of(ledger, caller, run_uid)
    permit, code = _permit(ledger, caller, view, bench)
    spec = _spec(view, permit, code, manifest, bench.runs_folder)
    if spec.resume_from:
        step = spec.resume_step
        caller.say(f"attempt {permit.attempt} resumes from the verified checkpoint of step {step}")
    if asked_to_end():
        raise AskedToEndError("no launch: the task was asked to end before anything was started.")
    intent = consume_permit(ledger, permit, target="local", actor=caller.actor, origin=caller.origin)
    ledger.seal()
    job = LocalLaunch(
        spec, intent=intent, ledger=ledger, actor=caller.actor, origin=caller.origin,
        on_checkpoint=registrar(ledger, caller, view), progress=caller.say,
    )  # fmt: skip
    hold(job)
    return job.run()


def _completed(view: RunView) -> AttemptEnded | None:
    """The run's newest attempt, if it completed."""
    ended = view.latest(AttemptEnded)
    return ended if ended is not None and ended.state == "completed" and open_attempt(view) is None else None


def _refuse_repetition(ledger: Ledger, caller: Caller, view: RunView) -> None:
    """No further attempt where the last ones came no further: a person has to look first (R094)."""
    fired = repeated_failure(view, _config(view).stop)
    if fired is None:
        return
    known = [stop for _, stop in view.all(StopFired)]
    if fired not in known:
        ledger.append([
            Draft(stream=view.run_uid, kind="stop.fired", payload=fired.to_json(), actor=caller.actor,
                  origin=caller.origin, attempt=fired.attempt)
        ])  # fmt: skip
    raise RefusedError(
        "no launch: the same failure repeats", reasons=(fired.observed,),
        hint="Look at the log of the last attempts; then trigger a new run with what you change.",
    )  # fmt: skip


def _config(view: RunView) -> ConfigurationDeclared:
    config = view.latest(ConfigurationDeclared)
    if config is None:
        raise RefusedError("no launch", reasons=("the configuration is unrecorded",))
    return config


def _observed(view: RunView) -> tuple[Observed, Code]:
    """Code and environment measured now."""
    command, policy = _config(view).command, policy_of(view)
    code = read_code(command)
    environment = declare_environment(command, policy.environment.allowed_variables, code.folder)
    return Observed(code_digest=code.digest, environment_digest=environment.environment_digest), code


def _require_allowed(ledger: Ledger, caller: Caller, view: RunView, bench: Bench) -> None:
    """Refuse at once what will be refused later: before any process is touched and any byte is read."""
    observed, _ = _observed(view)
    _, faults = launch_faults(
        ledger, view, dag_run_id=caller.origin.dag_run_id, observed=observed, now=datetime.now(UTC),
        policy=bench.policies(opened_of(view).project),
    )  # fmt: skip
    if faults:
        raise RefusedError(
            "no launch", reasons=tuple(dict.fromkeys(faults)),
            hint="Mend what is named and answer the prepare gate again; nothing was started.",
        )  # fmt: skip


def _permit(ledger: Ledger, caller: Caller, view: RunView, bench: Bench) -> tuple[LaunchPermit, Code]:
    """Derive the token; wait for the signer of the log where this process does not hold the key."""
    until = time.monotonic() + SIGNER_SECONDS
    while True:
        observed, code = _observed(view)
        try:
            permit = derive_permit(
                ledger, view, dag_run_id=caller.origin.dag_run_id, observed=observed, now=datetime.now(UTC),
                policy=bench.policies(opened_of(view).project),
            )  # fmt: skip
        except RefusedError as error:
            waiting = error.reasons == (NOT_SIGNED_YET,)
            if not waiting or time.monotonic() > until:
                raise
            caller.say("waiting for the ledger's signer to cover the prepare decision")
            time.sleep(2)
        else:
            return permit, code


def _data(view: RunView, bench: Bench, caller: Caller, folder: Path) -> Path:
    """Prove that the snapshot's stored bytes are those that were signed, and lay them out for the program."""
    snapshot, split = snapshot_of(view), view.latest(SplitCreated)
    if split is None:
        raise RefusedError("no launch", reasons=("the split is unrecorded",))
    if snapshot.mode == "recipe":  # making it again proves every digest
        return lay_out(bench.store, caller, snapshot, split, folder)
    checked = verify_snapshot(
        bench.store, snapshot.name, snapshot.version, manifest_digest=snapshot.manifest_digest,
        progress=every(caller.say, "verified"),
    )  # fmt: skip
    if checked.verdict != "verified":
        named = tuple(
            f"{item.path}: expected {item.expected}, found {item.found}" for item in checked.items[:5]
        )
        raise RefusedError("no launch: the data changed after it was signed", reasons=named)
    return lay_out(bench.store, caller, snapshot, split, folder)


def _spec(view: RunView, permit: LaunchPermit, code: Code, manifest: Path, runs_folder: Path) -> JobSpec:
    config, policy = _config(view), policy_of(view)
    declared = view.latest(EnvironmentDeclared)
    resume = newest_verified(view)
    return JobSpec(
        run_uid=view.run_uid,
        attempt=permit.attempt,
        command=tuple(config.command),
        configuration=config.configuration,
        data_manifest=manifest,
        work_folder=attempt_folder(runs_folder, view.run_uid, permit.attempt),
        checkpoint_folder=Path(config.checkpoints.location),
        budget=config.budget,
        stop=config.stop,
        program_folder=code.folder,
        resume_from=resume[1] if resume else None,
        resume_step=resume[0].step if resume else None,
        allowed_variables=tuple(policy.environment.allowed_variables),
        declared=declared.environment if declared else None,
        drift=policy.environment.drift,
        target_steps=target_steps(config.configuration),
        spent_seconds=spent_seconds(view),
    )
