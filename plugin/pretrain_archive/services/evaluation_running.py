"""Run an evaluation program on a checkpoint, under the wrapper, and find what it wrote."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pretrain_archive.compute.events import Place, number_of, read_lines
from pretrain_archive.compute.spec import INHERITED, INHERITED_PREFIXES, WRAPPER
from pretrain_archive.domain.errors import EvaluationFailedError, InputError, RefusedError
from pretrain_archive.domain.kinds import ConfigurationDeclared, SplitCreated
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.evaluation_plans import Plan
from pretrain_archive.services.human_files import SAMPLES
from pretrain_archive.services.laying import lay_out
from pretrain_archive.services.runs import policy_of, snapshot_of
from pretrain_archive.storage.port import ObjectStore

STATUS = "status.jsonl"
OUTPUT = "evaluation.json"
LOG_TAIL = 4000
LOG_KEPT = 256 * 1024
"""Bytes of the end of a failed program's log that are kept in the store."""

GRACE_SECONDS = 20

Hold = Callable[[subprocess.Popen[bytes]], None]


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A program that ended with exit code 0: what it wrote, how long it took, how many accelerators it saw."""

    output: Path
    seconds: float | None
    devices: int | None


def run_program(
    view: RunView, store: ObjectStore, caller: Caller, plan: Plan, *, checkpoint: Path, scratch: Path, work: Path,
    hold: Hold,
) -> Ran:  # fmt: skip
    """Start a program under the wrapper and wait for it; :class:`EvaluationFailedError` if it gives nothing.

    It is ended after the policy's ``evaluation.max_minutes``.
    """
    policy = policy_of(view)
    environment = _environment(view, store, caller, checkpoint=checkpoint, scratch=scratch, work=work)
    caller.say(f"evaluating {checkpoint.name} with {' '.join(plan.command)}")
    wrapped = [sys.executable, str(WRAPPER), "--status", str(scratch / STATUS), "--", *plan.command]
    with (scratch / "log.txt").open("w+b") as raw:
        process = subprocess.Popen(
            wrapped, stdout=raw, stderr=subprocess.STDOUT, env=environment, cwd=scratch
        )
        hold(process)
        ended = _wait(process, policy.evaluation.max_minutes * 60)
        raw.seek(max(0, raw.seek(0, os.SEEK_END) - LOG_TAIL))  # not by its name: the program could replace it
        tail = raw.read(LOG_TAIL).decode("utf-8", "replace")
    caller.say(tail)
    if not ended:
        minutes = policy.evaluation.max_minutes
        raise EvaluationFailedError(
            f"the evaluation program ran longer than {minutes:g} minutes and was ended",
            exit_code_of_program=None,
            detail=f"ended after {minutes:g} minutes",
            hint="Raise evaluation.max_minutes in the policy of a new run, or measure less.",
        )
    if process.returncode != 0:
        last = tail.strip().splitlines()[-1:] or [""]
        raise EvaluationFailedError(
            f"the evaluation program ended with exit code {process.returncode}: {last[0]}",
            exit_code_of_program=process.returncode,
            detail=f"the program ended with exit code {process.returncode}",
            hint="Read the task's log.",
        )
    seconds, devices = took(scratch)
    return Ran(output=_written(scratch), seconds=seconds, devices=devices)


def took(scratch: Path) -> tuple[float | None, int | None]:
    """How long the program ran and how many accelerators it saw, as its wrapper wrote; None is unrecorded."""
    lines, _ = read_lines(scratch / STATUS, Place(), final=True)
    facts = {line.data.get("status"): line.data for line in lines if line.data}
    seconds = number_of(facts.get("ended", {}).get("seconds"))
    seen = (facts.get("environment", {}).get("environment") or {}).get("accelerators")
    return seconds, len(seen) if isinstance(seen, list) else None


def keep_log(store: ObjectStore, run_uid: str, try_id: str, scratch: Path) -> tuple[str | None, str | None]:
    """Put the end of a program's log into the store; its location and digest, None where there is no log."""
    try:
        with (scratch / "log.txt").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_KEPT))
            kept = file.read(LOG_KEPT)
    except OSError:
        return None, None
    key = f"runs/{run_uid}/evaluation-tries/{try_id}/log.txt"
    store.put_if_absent(key, io.BytesIO(kept))
    return store.location(key), "sha256:" + hashlib.sha256(kept).hexdigest()


def _environment(
    view: RunView, store: ObjectStore, caller: Caller, *, checkpoint: Path, scratch: Path, work: Path
) -> dict[str, str]:
    """What a program is told: the contract's variables, and of the worker's own only allowed ones."""
    config, split = view.latest(ConfigurationDeclared), view.latest(SplitCreated)
    if config is None or split is None:
        raise RefusedError(f"run {view.run_uid} has no recorded configuration or split")
    (scratch / "config.json").write_text(json.dumps(config.configuration))
    manifest = lay_out(store, caller, snapshot_of(view), split, work / "data")
    allowed = {*INHERITED, *policy_of(view).environment.allowed_variables}
    environment = {k: v for k, v in os.environ.items() if k in allowed or k.startswith(INHERITED_PREFIXES)}
    return environment | {
        "PRETRAIN_ARCHIVE_RUN_UID": view.run_uid,
        "PRETRAIN_ARCHIVE_CONFIG": str(scratch / "config.json"),
        "PRETRAIN_ARCHIVE_DATA_MANIFEST": str(manifest),
        "PRETRAIN_ARCHIVE_RESUME_FROM": str(checkpoint),
        "PRETRAIN_ARCHIVE_EVALUATION": str(scratch / OUTPUT),
        "PRETRAIN_ARCHIVE_SAMPLES": str(scratch / SAMPLES),
        "PRETRAIN_ARCHIVE_EVENTS": str(scratch / "events.jsonl"),
    }


def _wait(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether the program ended by itself in time; otherwise it and its tree are ended."""
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.terminate()  # the wrapper ends the tree
        try:
            process.wait(timeout=GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        return False
    return True


def _written(scratch: Path) -> Path:
    """The result: a file or folder of the agreed name, else the one that carries a date behind it.

    lm-evaluation-harness makes ``evaluation_<date>.json`` of the path that it is given, and puts its records of
    samples (``samples_<task>_<date>.jsonl``) beside it.
    """
    output = scratch / OUTPUT
    if output.exists() or output.is_symlink():
        return output
    dated = sorted(scratch.glob(f"{output.stem}_*.json"))
    if not dated:
        return output
    samples = sorted(scratch.glob("samples_*.jsonl"))
    if len(dated) == 1 and not samples:
        return dated[0]
    folder = scratch / "results"
    if folder.exists() or folder.is_symlink():
        raise InputError("evaluation output", folder.name, "stands beside the result; leave that name free")
    folder.mkdir()
    for path in (*dated, *samples):
        path.rename(folder / path.name)
    return folder
