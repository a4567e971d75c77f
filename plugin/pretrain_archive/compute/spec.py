"""What a launch is, and the process it becomes: a pure function that a dry run can show."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.kinds import Budget, StopConditions

WRAPPER = Path(__file__).with_name("wrapper.py")
PROBE = Path(__file__).with_name("probe.py")
CARRIED = (WRAPPER, PROBE)
"""What any image must find beside each other: standard library only, Python 3.8 or newer."""

INHERITED = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH",
    "VIRTUAL_ENV", "PYTHONHASHSEED", "PYTHONUNBUFFERED", "SSL_CERT_FILE", "SSL_CERT_DIR", "PRETRAIN_ARCHIVE_IMAGE",
)  # fmt: skip
"""Variables that a program gets from the worker. All others stay out: a worker's environment holds secrets."""

INHERITED_PREFIXES = ("LC_", "CUDA_", "NVIDIA_", "NCCL_", "ASCEND_", "HCCL_", "OMP_", "MKL_", "OPENBLAS_")


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSpec:
    """One attempt at a run.

    ``work_folder`` is the attempt's own folder (see :func:`attempt_folder`): status, events, log and
    configuration are kept there. ``program_folder`` is where the program starts (its code, for the git state).
    ``resume_from`` is the folder of a verified checkpoint, ``resume_step`` its step, ``resume_refused`` why each
    newer one is not taken. ``declared`` is the signed
    environment, ``drift`` what a blocking difference from it does. ``target_steps`` counts as completion when
    the program reports that step. ``spent_seconds`` are the accelerator seconds of earlier attempts.
    ``deadline_seconds`` is how long an exploration may live, whoever watches; None for a full launch.
    ``code_files`` are the signed digests of the program's files, relative to its folder: with another one nothing
    is started. After ``not_after`` (RFC 3339) nothing is started either. Empty asks for nothing.
    """

    run_uid: str
    attempt: int
    command: tuple[str, ...]
    configuration: Mapping[str, Any]
    data_manifest: Path | None
    work_folder: Path
    checkpoint_folder: Path
    budget: Budget
    stop: StopConditions
    program_folder: Path | None = None
    resume_from: Path | None = None
    resume_step: int | None = None
    resume_refused: tuple[str, ...] = ()
    allowed_variables: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    declared: Mapping[str, Any] | None = None
    drift: str = "warn"
    target_steps: int | None = None
    spent_seconds: float = 0.0
    grace_seconds: float = 2.5
    heartbeat_seconds: float = 5.0
    scope: Literal["full", "exploration"] = "full"
    deadline_seconds: float | None = None
    code_files: Mapping[str, str] = field(default_factory=dict)
    not_after: str = ""

    def __post_init__(self) -> None:
        if not self.run_uid or self.attempt < 1:
            raise InputError("attempt", self.attempt, "an attempt needs a run and a number from 1")
        if not self.command:
            raise InputError("command", list(self.command), "is empty", hint="Name the training program.")
        if not 0 <= self.grace_seconds <= 3:
            raise InputError(
                "grace_seconds", self.grace_seconds, "must be between 0 and 3",
                hint="Airflow kills a task five seconds after it asked for its end.",
            )  # fmt: skip

    @property
    def checkpoint_every(self) -> int | None:
        """After how many steps the configuration wants a checkpoint, None where it does not say."""
        every = self.configuration.get("checkpoint_every")
        return every if isinstance(every, int) and not isinstance(every, bool) and every > 0 else None

    @property
    def folder(self) -> Path:
        """The working folder of the program."""
        return self.program_folder or self.work_folder


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessRequest:
    """A process to start: nothing here is read from the machine, so a dry run can show it.

    ``files`` are written before the start; ``status``, ``events`` and ``log`` are written by the processes.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path
    files: Mapping[Path, bytes]
    status: Path
    events: Path
    log: Path

    def to_dict(self) -> dict[str, Any]:
        """The request as plain JSON; of the variables only those that this package sets."""
        own = {k: v for k, v in self.environment.items() if k.startswith("PRETRAIN_ARCHIVE_")}
        return {
            "argv": list(self.argv),
            "environment": own,
            "inherited": sorted(set(self.environment) - set(own)),
            "folder": str(self.folder),
            "files": {str(path): len(content) for path, content in self.files.items()},
            "log": str(self.log),
        }


def attempt_folder(work_root: Path, run_uid: str, attempt: int) -> Path:
    """The folder of one attempt below the work root."""
    return work_root / run_uid / f"attempt-{attempt}"


def worker_file(path: Path, worker: int) -> Path:
    """A file of worker ``worker`` beside worker 0's: ``status.jsonl`` is ``status-1.jsonl`` for worker 1."""
    return path if worker == 0 else path.with_name(f"{path.stem}-{worker}{path.suffix}")


def program_environment(spec: JobSpec, inherited: Mapping[str, str]) -> dict[str, str]:
    """What the program gets: a few usual variables, those the policy allows, and the contract's."""
    names = {*INHERITED, *spec.allowed_variables}
    base = {k: v for k, v in inherited.items() if k in names or k.startswith(INHERITED_PREFIXES)}
    folder = spec.work_folder
    return {
        **base,
        **spec.variables,
        "PRETRAIN_ARCHIVE_RUN_UID": spec.run_uid,
        "PRETRAIN_ARCHIVE_ATTEMPT": str(spec.attempt),
        "PRETRAIN_ARCHIVE_CONFIG": str(folder / "config.json"),
        "PRETRAIN_ARCHIVE_DATA_MANIFEST": str(spec.data_manifest or ""),
        "PRETRAIN_ARCHIVE_CHECKPOINT_DIR": str(spec.checkpoint_folder),
        "PRETRAIN_ARCHIVE_RESUME_FROM": str(spec.resume_from or ""),
        "PRETRAIN_ARCHIVE_EVENTS": str(folder / "events.jsonl"),
    }


def wall_limit_seconds(spec: JobSpec) -> float:
    """Seconds after which the job must be over by wall time, budget or an exploration's deadline: the first."""
    share = max(1, spec.budget.accelerators)
    left = max(0.0, spec.budget.minutes * 60 * share - spec.spent_seconds) / share
    limit = min(spec.stop.wall_minutes * 60, left)
    return limit if spec.deadline_seconds is None else min(limit, spec.deadline_seconds)


def backstop_seconds(spec: JobSpec, *, margin: float) -> float:
    """When the job ends itself, should nobody stop it: ``margin`` after the limit, so that the stop is recorded.

    An exploration's deadline has no margin: the last process is gone by then, the time to end it included.
    """
    limit = wall_limit_seconds(spec) + margin
    if spec.deadline_seconds is None:
        return limit
    return max(1.0, min(limit, spec.deadline_seconds - spec.grace_seconds))


def build_process(
    spec: JobSpec, *, inherited: Mapping[str, str], python: str = sys.executable, parent: int = 0,
    carried: bool = False,
) -> ProcessRequest:  # fmt: skip
    """Turn a specification into the wrapper's process. Pure (``carried`` reads the wrapper's own files).

    ``inherited`` is the worker's environment, ``python`` runs the wrapper, ``parent`` is the process that the
    wrapper follows (0: whoever starts it). With ``carried`` the wrapper lies in the attempt's folder, for a machine
    where this package is not installed, and keeps the program's log there itself.
    """
    folder = spec.work_folder
    wrapper = folder / WRAPPER.name if carried else WRAPPER
    configuration = json.dumps(dict(spec.configuration), ensure_ascii=False, indent=2, sort_keys=True)
    files = {folder / "config.json": configuration.encode()}
    files |= {folder / file.name: file.read_bytes() for file in CARRIED} if carried else {}
    options = _options(spec, parent)
    if carried:
        options += ["--log", str(folder / "log.txt")]
    if spec.code_files:
        files[folder / "expect.json"] = json.dumps(dict(spec.code_files), sort_keys=True).encode()
        options += ["--expect", str(folder / "expect.json")]
    return ProcessRequest(
        argv=(python, "-u", str(wrapper), *options, "--", *spec.command),
        environment=program_environment(spec, inherited),
        folder=spec.folder,
        files=files,
        status=folder / "status.jsonl",
        events=folder / "events.jsonl",
        log=folder / "log.txt",
    )


def _options(spec: JobSpec, parent: int) -> list[str]:
    """The wrapper's options that do not depend on where it runs."""
    from pretrain_archive.compute.stops import rules_for_wrapper  # noqa: PLC0415 (stops are made of specifications)

    # The wrapper's own limit is a backstop for a worker that hangs; the stop rules come first and are recorded.
    limit = backstop_seconds(spec, margin=15)
    options = [
        "--status", str(spec.work_folder / "status.jsonl"), "--folder", str(spec.folder),
        "--allow", ",".join(spec.allowed_variables), "--moment", "resume" if spec.resume_from else "start",
        "--parent", str(parent), "--grace", f"{spec.grace_seconds:g}",
        "--heartbeat", f"{spec.heartbeat_seconds:g}", "--max-seconds", f"{limit:.1f}",
        "--stop", json.dumps(rules_for_wrapper(spec), sort_keys=True),
    ]  # fmt: skip
    return [*options, "--not-after", spec.not_after] if spec.not_after else options


def check_command(command: tuple[str, ...], *, folder: Path, path: str | None = None) -> str:
    """The program's file; raises ``InputError`` that names field, value and remedy if it cannot be started."""
    if not command or not command[0]:
        raise InputError("command", list(command), "is empty", hint="Name the training program.")
    if not folder.is_dir():
        raise InputError(
            "program_folder", str(folder), "is not a folder", hint="Create it, or name another one."
        )
    found = _program(command[0], folder, path)
    script = next((word for word in command[1:2] if word.endswith(".py")), None)
    if script and not (folder / script).is_file():
        raise InputError("command", script, "there is no such script", hint=_relative(folder))
    return found


def _program(program: str, folder: Path, path: str | None) -> str:
    if os.sep not in program:
        found = shutil.which(program, path=path)
        if found:
            return found
        hint = "Install it on the worker, or give its full path."
        raise InputError("command", program, "no such program on PATH", hint=hint)
    file = folder / program
    if not file.exists():
        raise InputError("command", program, "there is no such file", hint=_relative(folder))
    if not file.is_file() or not os.access(file, os.X_OK):
        hint = "Make it executable (chmod +x), or start it through its interpreter."
        raise InputError("command", program, "is not an executable file", hint=hint)
    return str(file)


def _relative(folder: Path) -> str:
    return f"Relative paths start at {str(folder)!r}."
