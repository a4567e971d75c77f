"""Which programs measure a run's checkpoints and by which suites: declared when the run is opened, held to then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pretrain_archive.artifacts.suites import load_suite, used
from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.kinds import ConfigurationDeclared, EvaluationPlanned
from pretrain_archive.domain.policy import Policy
from pretrain_archive.domain.policy_evaluation import Evaluation, Suite
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.services.code import changed_files, read_code, resolve_command
from pretrain_archive.services.runs import policy_of

MOST_NAMED = 5


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A program that measures: its command as it was signed, its code's digest now, its suites."""

    program: str
    command: list[str]
    code_digest: str
    suites: tuple[Suite, ...] = ()
    runs: Literal["refuse", "named"] = "refuse"


def declare(policy: Policy, own: EvaluationPlanned) -> list[EvaluationPlanned]:
    """The programs of a run that is opened: the request's ``own`` first; empty where the policy asks for nothing.

    Raises :class:`InputError` for a suite or program that cannot be read.
    """
    asked = policy.evaluation
    if not asked.suites and not asked.programs:
        return []
    made = [own.model_copy(update={"suites": [used(suite) for suite in suites_of(asked, asked.suites)]})]
    for program in asked.programs:
        field = f"policy evaluation program {program.name}"
        command = resolve_command(program.command, field=field)
        code = read_code(command)
        made.append(
            EvaluationPlanned(
                program=program.name,
                command=command,
                code_digest=code.digest or None,
                code_files=code.files,
                suites=[used(suite) for suite in suites_of(asked, program.suites)],
            )
        )
    return made


def suites_of(asked: Evaluation, names: Sequence[str]) -> tuple[Suite, ...]:
    """The suites behind ``names``: the policy's own, shipped ones, or files beside the policy."""
    return tuple(
        load_suite(name, definitions=asked.definitions, folder=_folder() if _is_file(name) else None)
        for name in names
    )


def _is_file(name: str) -> bool:
    return Path(name).suffix in {".toml", ".json"}


def _folder() -> Path:
    from pretrain_archive import config  # noqa: PLC0415 - only where a suite is a file

    return config.policies_folder()


def plans_of(view: RunView) -> list[Plan]:
    """The programs to run, the request's own last; :class:`RefusedError` for one that is not what was signed."""
    config = view.latest(ConfigurationDeclared)
    if config is None:
        raise RefusedError(f"run {view.run_uid} has no recorded configuration")
    asked = policy_of(view).evaluation
    declared = {one.program: one for one in config.evaluations}
    own = declared.get("") or EvaluationPlanned()
    own = own.model_copy(
        update={
            "command": config.evaluate_command,
            "code_digest": config.evaluate_code_digest,
            "code_files": config.evaluate_code_files or config.code_files,
        }
    )
    further = [_held(one, asked) for name, one in declared.items() if name]
    return [*further, _held(own, asked)]


def _held(signed: EvaluationPlanned, asked: Evaluation) -> Plan:
    """``signed`` as it stands now, which must be what was signed: its code and its suites."""
    program = next((one for one in asked.programs if one.name == signed.program), None)
    names = asked.suites if program is None else program.suites
    suites = suites_of(asked, names)
    changed = [one.name for one, suite in zip(signed.suites, suites, strict=False) if used(suite) != one]
    if signed.suites and (changed or len(suites) != len(signed.suites)):
        raise RefusedError(
            "no evaluation: metric definitions changed after they were signed",
            reasons=tuple(changed) or ("the list of suites",),
            hint="Put the signed suites back, or trigger a new run with the new ones.",
        )
    return Plan(
        program=signed.program,
        command=resolve_command(signed.command, field=_field(signed)),
        code_digest=_require_signed(signed),
        suites=suites,
        runs=asked.runs if program is None else program.runs,
    )


def _field(signed: EvaluationPlanned) -> str:
    return f"policy evaluation program {signed.program}" if signed.program else "evaluate_command"


def _require_signed(signed: EvaluationPlanned) -> str:
    """The digest of an evaluation program, which must be the one that stood in the prepare dossier."""
    if signed.code_digest is None:
        raise RefusedError(
            "no evaluation: the code of the evaluation program is unrecorded",
            hint="Trigger a new run with a command that names the program's script or module.",
        )
    now = read_code(signed.command)
    if now.digest != signed.code_digest:
        names = changed_files(signed.code_files, now.files)
        more = [f"and {len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
        raise RefusedError(
            "no evaluation: the evaluation program changed after it was signed",
            reasons=(*names[:MOST_NAMED], *more),
            hint="Put the signed files back, or trigger a new run with the new ones.",
        )
    return now.digest
