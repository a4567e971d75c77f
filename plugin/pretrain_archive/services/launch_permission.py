"""Ask whether a run may launch, and take the permission: everything is derived from the ledger, afresh."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.exploration import scope_of
from pretrain_archive.domain.kinds import StopFired
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.domain.records import Draft
from pretrain_archive.domain.reviews import attempts_left, may_resume, repeated_failure
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.permit import PASSING, LaunchPermit, derive_permit, launch_faults
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.code import Code
from pretrain_archive.services.launch_bench import Bench
from pretrain_archive.services.launch_inputs import config_of, image_faults, observed_now
from pretrain_archive.services.runs import opened_of

SIGNER_SECONDS = 90.0
"""How long a launch waits for the ledger's signer: the unanchored window is 60 s at most (invariant 2)."""


def require_allowed(ledger: Ledger, caller: Caller, view: RunView, bench: Bench) -> None:
    """Refuse at once what will be refused later: before any process is touched and any byte is read."""
    config_of(view)
    policy = _policy(view, bench)
    observed, _ = observed_now(view, policy.policy)
    _, faults = launch_faults(
        ledger, view, dag_run_id=caller.origin.dag_run_id, observed=observed, now=datetime.now(UTC),
        policy=policy,
    )  # fmt: skip
    faults += image_faults(view, policy.policy, pinned=not _explores(view))
    faults = [fault for fault in faults if fault not in PASSING]  # what passes by itself is waited for later
    if faults:
        raise RefusedError(
            "no launch", reasons=tuple(dict.fromkeys(faults)),
            hint="Mend what is named and answer the prepare gate again; nothing was started.",
        )  # fmt: skip


def take_permit(ledger: Ledger, caller: Caller, view: RunView, bench: Bench) -> tuple[LaunchPermit, Code]:
    """Derive the token; wait for the signer of the log where this process does not hold the key."""
    until = time.monotonic() + SIGNER_SECONDS
    while True:
        policy = _policy(view, bench)
        observed, code = observed_now(view, policy.policy)
        if faults := image_faults(view, policy.policy, pinned=not _explores(view)):
            raise RefusedError("no launch", reasons=tuple(faults))
        try:
            permit = derive_permit(
                ledger, view, dag_run_id=caller.origin.dag_run_id, observed=observed, now=datetime.now(UTC),
                policy=policy,
            )  # fmt: skip
        except RefusedError as error:
            waiting = bool(error.reasons) and set(error.reasons) <= PASSING
            if not waiting or time.monotonic() > until:
                raise
            caller.say("waiting for the ledger's signer to cover what the launch rests on")
            time.sleep(2)
        else:
            if permit.share is not None:
                caller.say(
                    f"exploration: no sign-off, at most {permit.share.deadline_seconds:g} s on {permit.share.units} "
                    "accelerator(s) or machine(s); never a candidate"
                )
            return permit, code


def refuse_repetition(ledger: Ledger, caller: Caller, view: RunView) -> None:
    """No further attempt where the last ones came no further: a person has to look first (R094)."""
    fired = repeated_failure(view, config_of(view).stop)
    if fired is None or (may_resume(view) and attempts_left(view) != 0):
        return
    known = [stop for _, stop in view.all(StopFired)]
    if fired not in known:
        ledger.append([
            Draft(stream=view.run_uid, kind="stop.fired", payload=fired.to_json(), actor=caller.actor,
                  origin=caller.origin, attempt=fired.attempt)
        ])  # fmt: skip
    raise RefusedError(
        "no launch: the same failure repeats", reasons=(fired.observed,),
        hint="Look at the log of the last attempts; then answer the review, or trigger a new run with what you change.",
    )  # fmt: skip


def _policy(view: RunView, bench: Bench) -> LoadedPolicy:
    return bench.policies(opened_of(view).project)


def _explores(view: RunView) -> bool:
    return scope_of(opened_of(view)) == "exploration"
