"""What a launch of a run would be now, and what forbids it: a dry run that consumes and writes nothing.

The answer is made by the very functions that a launch uses. What only a launch does is left out and said: bytes of
data and checkpoints are not read again, no cluster is asked, and the token, from whose digest a job's name ends, is
not made.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pretrain_archive.artifacts.verification import newest_verified
from pretrain_archive.compute.kubernetes.manifest import JobObjects, build_objects
from pretrain_archive.compute.spec import JobSpec, ProcessRequest, build_process, check_command
from pretrain_archive.domain.errors import InputError, RefusedError
from pretrain_archive.domain.exploration import scope_of
from pretrain_archive.domain.kinds import AttemptEnded
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.domain.policy_compute import Kubernetes
from pretrain_archive.domain.reviews import attempts_left, may_resume, repeated_failure
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.permit import LaunchPermit, Observed, derive_permit, open_attempt
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.code import Code
from pretrain_archive.services.launch_bench import Bench, cluster_of, require_shared
from pretrain_archive.services.launch_inputs import config_of, image_faults, observed_now
from pretrain_archive.services.launch_spec import data_folder, spec_of
from pretrain_archive.services.runs import opened_of, policy_of

NO_TOKEN = "sha256:" + "0" * 64
"""Stands for the digest of a token that is made at the launch and not before."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the next launch would create; ``reasons`` forbid it, and are empty where it would start.

    Exactly one of ``process`` and ``objects`` is there, unless the inputs are too incomplete to build it.
    """

    run_uid: str
    attempt: int
    scope: str
    target: str
    reasons: tuple[str, ...]
    process: ProcessRequest | None = None
    objects: JobObjects | None = None
    resume_step: int | None = None

    @property
    def allowed(self) -> bool:
        """Whether a launch would start something."""
        return not self.reasons

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain JSON."""
        return {
            "run_uid": self.run_uid,
            "attempt": self.attempt,
            "scope": self.scope,
            "target": self.target,
            "allowed": self.allowed,
            "reasons": list(self.reasons),
            "resume_step": self.resume_step,
            "process": self.process.to_dict() if self.process else None,
            "objects": self.objects.to_dict() if self.objects else None,
        }


def plan_launch(ledger: Ledger, view: RunView, bench: Bench) -> Plan:
    """Plan the next attempt of a run. Raises :class:`RefusedError` for a run that is not opened or has no inputs."""
    opened = opened_of(view)
    cluster = cluster_of(policy_of(view))
    config_of(view)
    policy = bench.policies(opened.project)
    observed, code = observed_now(view, policy.policy)
    permit, faults = _permit(ledger, view, policy, observed)
    faults += image_faults(view, policy.policy, pinned=scope_of(opened) == "full") + _standing(view)
    spec, problem = _spec(view, bench, code, permit)
    faults += problem
    process: ProcessRequest | None = None
    objects: JobObjects | None = None
    if spec is not None and cluster is None:
        process, problem = _process(spec)
    elif spec is not None and cluster is not None:
        objects, problem = _objects(spec, cluster)
    return Plan(
        run_uid=view.run_uid,
        attempt=view.attempts + 1,
        scope=scope_of(opened),
        target="kubernetes" if cluster else "local",
        reasons=tuple(dict.fromkeys(faults + problem)),
        process=process,
        objects=objects,
        resume_step=spec.resume_step if spec else None,
    )


def _permit(
    ledger: Ledger, view: RunView, policy: LoadedPolicy, observed: Observed
) -> tuple[LaunchPermit | None, list[str]]:
    """The token as it could be derived now, which is thrown away, or everything that forbids it."""
    try:
        permit = derive_permit(
            ledger, view, dag_run_id=opened_of(view).dag_run_id, policy=policy, observed=observed,
            now=datetime.now(UTC),
        )  # fmt: skip
    except RefusedError as error:
        return None, list(error.reasons) or [error.message]
    return permit, []


def _standing(view: RunView) -> list[str]:
    """What a launch finds out by itself before it asks for permission."""
    ended = view.latest(AttemptEnded)
    if ended is not None and ended.state == "completed" and open_attempt(view) is None:
        return [f"attempt {ended.attempt} completed with exactly these inputs: nothing would be started"]
    fired = repeated_failure(view, config_of(view).stop)
    if fired is not None and not (may_resume(view) and attempts_left(view) != 0):
        return [f"the same failure repeats: {fired.observed}"]
    return []


def _spec(
    view: RunView, bench: Bench, code: Code, permit: LaunchPermit | None
) -> tuple[JobSpec | None, list[str]]:
    """The specification of the next attempt; it resumes from the newest checkpoint that was verified."""
    found, token = newest_verified(view), permit.token if permit else {}
    try:
        spec = spec_of(
            view, attempt=view.attempts + 1, code=code,
            manifest=data_folder(bench, view.run_uid) / "manifest.jsonl", runs_folder=bench.runs_folder,
            resume=(found[1], found[0].step) if found else None, deadline_seconds=token.get("deadline_seconds"),
            not_after=None if token.get("deadline_seconds") else token.get("expires"),
        )  # fmt: skip
    except (InputError, RefusedError) as error:
        return None, [str(error)]
    return spec, []


def _process(spec: JobSpec) -> tuple[ProcessRequest, list[str]]:
    process = build_process(spec, inherited=os.environ)
    try:
        check_command(spec.command, folder=spec.folder, path=process.environment.get("PATH"))
    except InputError as error:
        return process, [str(error)]
    return process, []


def _objects(spec: JobSpec, cluster: Kubernetes) -> tuple[JobObjects | None, list[str]]:
    places = {"the work folder": spec.work_folder, "the checkpoint folder": spec.checkpoint_folder}
    places |= {"the program's folder": spec.program_folder} if spec.program_folder else {}
    faults: list[str] = []
    try:
        require_shared(cluster, places)
    except RefusedError as error:
        faults += list(error.reasons) or [error.message]
    try:
        return build_objects(spec, cluster, token_digest=NO_TOKEN), faults
    except InputError as error:
        return None, [*faults, str(error)]
