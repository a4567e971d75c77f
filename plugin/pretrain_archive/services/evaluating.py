"""Evaluate a run's checkpoint with the program that the request names, and name the candidate."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pretrain_archive.artifacts.candidates import name_candidate, propose
from pretrain_archive.artifacts.evaluation import record_evaluation
from pretrain_archive.artifacts.location import to_path
from pretrain_archive.artifacts.rules import rules_of
from pretrain_archive.artifacts.verification import newest_verified
from pretrain_archive.compute.events import Place, number_of, read_lines
from pretrain_archive.compute.spec import INHERITED, INHERITED_PREFIXES, WRAPPER
from pretrain_archive.domain.errors import ArchiveError, RefusedError
from pretrain_archive.domain.kinds import (
    CandidateNamed,
    CheckpointRegistered,
    ConfigurationDeclared,
    EvaluationReported,
    SplitCreated,
)
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.service import load_run
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.code import changed_files, read_code, resolve_command
from pretrain_archive.services.human_items import SAMPLES, keep_samples
from pretrain_archive.services.laying import lay_out
from pretrain_archive.services.runs import opened_of, policy_of, run_of, snapshot_of
from pretrain_archive.storage.port import ObjectStore

STATUS = "status.jsonl"
LOG_TAIL = 4000
MOST_NAMED = 5


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """The recorded evaluation and the candidate that was named from it, if any."""

    report: EvaluationReported
    candidate: CandidateNamed | None


def evaluate(
    ledger: Ledger, store: ObjectStore, caller: Caller, run_uid: str, runs_folder: Path, *,
    hold: Callable[[subprocess.Popen[bytes]], None], checkpoint_id: str | None = None,
) -> Evaluated:  # fmt: skip
    """Run the evaluation program on a checkpoint and record what it measured.

    ``checkpoint_id`` names the checkpoint, by default it is the newest verified one. The record is kept under
    that name, whatever place a mapped task has in its list. ``hold`` is given the process, so that a signal
    can end it. Rules that were fixed before the launch decide, measured by the program that was signed then:
    :class:`RefusedError` names what changed in it.
    """
    view = run_of(ledger, caller, run_uid)
    evaluator_digest = _require_signed(view)
    checkpoint, folder = _subject(view, checkpoint_id)
    work = runs_folder / run_uid
    work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=work, prefix="evaluation-") as scratch:
        output = _run_program(
            view, store, caller, checkpoint=folder, scratch=Path(scratch), work=work, hold=hold
        )
        seconds, devices = _took(Path(scratch) / STATUS)
        report = record_evaluation(
            ledger, store, run_uid=run_uid, checkpoint=checkpoint, output=output,
            rules=rules_of(opened_of(view)), actor=caller.actor, origin=caller.origin,
            evaluator_digest=evaluator_digest, seconds=seconds, devices=devices,
        )  # fmt: skip
        keep_samples(store, run_uid, report.evaluation_id, Path(scratch) / SAMPLES)
    return Evaluated(report=report, candidate=_name(ledger, caller, run_uid))


def _require_signed(view: RunView) -> str:
    """The digest of the evaluation program, which must be the one that stood in the prepare dossier."""
    config = view.latest(ConfigurationDeclared)
    if config is None or config.evaluate_code_digest is None:
        raise RefusedError(
            "no evaluation: the code of the evaluation program is unrecorded",
            hint="Trigger a new run with a command that names the program's script or module.",
        )
    now = read_code(config.evaluate_command)
    if now.digest != config.evaluate_code_digest:
        names = changed_files(config.evaluate_code_files or config.code_files, now.files)
        more = [f"and {len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
        raise RefusedError(
            "no evaluation: the evaluation program changed after it was signed",
            reasons=(*names[:MOST_NAMED], *more),
            hint="Put the signed files back, or trigger a new run with the new ones.",
        )
    return now.digest


def _subject(view: RunView, checkpoint_id: str | None) -> tuple[CheckpointRegistered, Path]:
    """The checkpoint to evaluate and its folder; :class:`RefusedError` if there is none of that name."""
    if checkpoint_id is None:
        found = newest_verified(view)
        if found is None:
            raise RefusedError(
                f"run {view.run_uid} has no verified checkpoint", hint="Run 'register_checkpoints' first."
            )
        return found
    named = [c for _, c in view.all(CheckpointRegistered) if c.checkpoint_id == checkpoint_id]
    if not named:
        raise RefusedError(f"run {view.run_uid} has no checkpoint {checkpoint_id!r}")
    folder = to_path(named[-1].location)
    if folder is None:
        raise RefusedError(f"checkpoint {checkpoint_id} is not on this machine: {named[-1].location}")
    return named[-1], folder


def _took(status: Path) -> tuple[float | None, int | None]:
    """How long the program ran and how many accelerators it saw, as its wrapper wrote; None is unrecorded."""
    lines, _ = read_lines(status, Place(), final=True)
    facts = {line.data.get("status"): line.data for line in lines if line.data}
    seconds = number_of(facts.get("ended", {}).get("seconds"))
    seen = (facts.get("environment", {}).get("environment") or {}).get("accelerators")
    return seconds, len(seen) if isinstance(seen, list) else None


def _name(ledger: Ledger, caller: Caller, run_uid: str) -> CandidateNamed | None:
    """Record every evaluated checkpoint as kept or dropped; return the kept one."""
    kept: CandidateNamed | None = None
    for ordinal, proposal in enumerate(propose(load_run(ledger, run_uid))):
        named = name_candidate(
            ledger, run_uid=run_uid, checkpoint_id=proposal.checkpoint.checkpoint_id, kept=proposal.kept,
            reason=proposal.reason, actor=caller.actor, origin=caller.origin, ordinal=ordinal,
        )  # fmt: skip
        kept = named if proposal.kept else kept
    return kept


def _run_program(
    view: RunView, store: ObjectStore, caller: Caller, *, checkpoint: Path, scratch: Path, work: Path,
    hold: Callable[[subprocess.Popen[bytes]], None],
) -> Path:  # fmt: skip
    """Start the evaluation program under the wrapper and return the file that it wrote."""
    config, split = view.latest(ConfigurationDeclared), view.latest(SplitCreated)
    if config is None or split is None:
        raise RefusedError(f"run {view.run_uid} has no recorded configuration or split")
    command = resolve_command(config.evaluate_command, field="evaluate_command")
    (scratch / "config.json").write_text(json.dumps(config.configuration))
    manifest = lay_out(store, caller, snapshot_of(view), split, work / "data")
    output, log, status = scratch / "evaluation.json", scratch / "log.txt", scratch / STATUS
    allowed = {*INHERITED, *policy_of(view).environment.allowed_variables}
    environment = {k: v for k, v in os.environ.items() if k in allowed or k.startswith(INHERITED_PREFIXES)}
    environment |= {
        "PRETRAIN_ARCHIVE_RUN_UID": view.run_uid,
        "PRETRAIN_ARCHIVE_CONFIG": str(scratch / "config.json"),
        "PRETRAIN_ARCHIVE_DATA_MANIFEST": str(manifest),
        "PRETRAIN_ARCHIVE_RESUME_FROM": str(checkpoint),
        "PRETRAIN_ARCHIVE_EVALUATION": str(output),
        "PRETRAIN_ARCHIVE_SAMPLES": str(scratch / SAMPLES),
        "PRETRAIN_ARCHIVE_EVENTS": str(scratch / "events.jsonl"),
    }
    caller.say(f"evaluating {checkpoint.name} with {' '.join(command)}")
    wrapped = [sys.executable, str(WRAPPER), "--status", str(status), "--", *command]
    with log.open("w+b") as raw:
        process = subprocess.Popen(
            wrapped, stdout=raw, stderr=subprocess.STDOUT, env=environment, cwd=scratch
        )
        hold(process)
        code = process.wait()
        raw.seek(max(0, raw.seek(0, os.SEEK_END) - LOG_TAIL))  # not by its name: the program could replace it
        tail = raw.read(LOG_TAIL).decode("utf-8", "replace")
    caller.say(tail)
    if code != 0:
        last = tail.strip().splitlines()[-1:] or [""]
        raise ArchiveError(
            f"the evaluation program ended with exit code {code}: {last[0]}", hint="Read the task's log."
        )
    return output
