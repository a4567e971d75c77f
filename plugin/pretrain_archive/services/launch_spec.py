"""The specification of an attempt, from what the ledger holds."""

from __future__ import annotations

from pathlib import Path

from pretrain_archive.compute.cost import spent_seconds
from pretrain_archive.compute.spec import JobSpec, attempt_folder
from pretrain_archive.data.verify import verify_snapshot
from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.exploration import scope_of
from pretrain_archive.domain.kinds import EnvironmentDeclared, LaunchIntended, SplitCreated
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.training import target_steps
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.code import Code
from pretrain_archive.services.launch_bench import Bench
from pretrain_archive.services.launch_inputs import config_of, in_image
from pretrain_archive.services.laying import lay_out
from pretrain_archive.services.progress import every
from pretrain_archive.services.runs import policy_of, snapshot_of

Resume = tuple[Path, int]
"""The folder of a verified checkpoint and its step."""


def data_folder(bench: Bench, run_uid: str) -> Path:
    """Where a run's data is laid out."""
    return bench.runs_folder / run_uid / "data"


def prove_data(view: RunView, bench: Bench, caller: Caller) -> Path:
    """Prove that the snapshot's stored bytes are those that were signed, and lay them out for the program."""
    snapshot, split = snapshot_of(view), view.latest(SplitCreated)
    folder = data_folder(bench, view.run_uid)
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


def spec_of(
    view: RunView,
    *,
    attempt: int,
    code: Code,
    manifest: Path | None,
    runs_folder: Path,
    resume: Resume | None,
    resume_refused: tuple[str, ...] = (),
    deadline_seconds: float | None = None,
    not_after: str | None = None,
) -> JobSpec:
    """One attempt of the run; an exploration's deadline is that of its token, by default of the recorded one.

    ``not_after`` is when the token of a full launch ends, by default the recorded one's.
    """
    config, policy = config_of(view), policy_of(view)
    declared = view.latest(EnvironmentDeclared)
    return JobSpec(
        run_uid=view.run_uid,
        attempt=attempt,
        command=tuple(config.command),
        configuration=config.configuration,
        data_manifest=manifest,
        work_folder=attempt_folder(runs_folder, view.run_uid, attempt),
        checkpoint_folder=Path(config.checkpoints.location),
        budget=config.budget,
        stop=config.stop,
        program_folder=None if in_image(code) else code.folder,
        resume_from=resume[0] if resume else None,
        resume_step=resume[1] if resume else None,
        resume_refused=resume_refused,
        allowed_variables=tuple(policy.environment.allowed_variables),
        declared=declared.environment if declared else None,
        drift=policy.environment.drift,
        target_steps=target_steps(config.configuration),
        spent_seconds=spent_seconds(view),
        scope=scope_of(view.opened),
        deadline_seconds=deadline_seconds or _deadline(view, attempt),
        code_files={} if in_image(code) else config.code_files,
        not_after=_not_after(view, attempt) if not_after is None else not_after,
    )


def _not_after(view: RunView, attempt: int) -> str:
    """When the approval behind the attempt's token ends; an exploration is bounded by its deadline instead."""
    tokens = [launch.token for record, launch in view.all(LaunchIntended) if record.attempt == attempt]
    full = scope_of(view.opened) == "full"
    return str(tokens[-1].get("expires", "")) if tokens and full else ""


def _deadline(view: RunView, attempt: int) -> float | None:
    """How long the attempt may live by the token that was consumed for it."""
    tokens = [launch.token for record, launch in view.all(LaunchIntended) if record.attempt == attempt]
    found = tokens[-1].get("deadline_seconds") if tokens else None
    return float(found) if found is not None else None
