"""What a release carries for a registry or a serving team, gathered from the run's records (R104–R110, R112–R114).

Nothing is looked up elsewhere: the same records give the same account. What they do not hold is named with the reason.
"""

from __future__ import annotations

from typing import Any

from pretrain_archive.artifacts.candidate_account import stated
from pretrain_archive.domain.kinds import (
    CandidateNamed,
    CheckpointRegistered,
    ConfigurationDeclared,
    EnvironmentObserved,
    EvaluationReported,
    ReleaseAccount,
    ReleaseDependencies,
    ReleasedFile,
)
from pretrain_archive.domain.policy_release import Release
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.serving import serving_of

WHY = {
    "evaluation": "the candidate's evaluation is not on record",
    "tokens": "the training program told no number of tokens",
    "intended_use": "the request names no intended use",
    "dependencies.packages": "no worker reported its installed packages",
    "dependencies.libraries": "no worker reported its loaded libraries",
    "dependencies.python": "no worker reported its interpreter",
    "dependencies.image": "the workers ran in no image that they could name",
    "dependencies.base_model": "the configuration names none: trained from the beginning, or nobody said",
    "dependencies.code_digest": "no file of the training program was found",
    "dependencies.code_version": "the training program's folder is under no version control that could be read",
}
"""Why a field may be unrecorded, for people."""


def release_policy(view: RunView) -> Release:
    """The section ``[release]`` of the policy that the run was opened under."""
    section = (view.opened.policy.get("release") if view.opened else None) or {}
    return Release.model_validate(section, extra="ignore")


def release_account(view: RunView, candidate: CandidateNamed) -> ReleaseAccount | None:
    """The account of ``candidate`` as a release; None where its checkpoint is not registered."""
    found = [c for _, c in view.all(CheckpointRegistered) if c.digest == candidate.checkpoint_digest]
    if not found:
        return None
    checkpoint = found[-1]
    reports = [r for _, r in view.all(EvaluationReported) if r.evaluation_id == candidate.evaluation_id]
    report = reports[-1] if reports else None
    purpose = view.opened.purpose if view.opened else None
    serving = serving_of(view, release_policy(view))
    fields: dict[str, Any] = {
        "evaluation": stated(report) if report else None,
        "tokens": checkpoint.tokens,
        "intended_use": purpose.intended_use if purpose else None,
    }
    dependencies = dependencies_of(view)
    unrecorded = {name: WHY[name] for name, value in fields.items() if value is None}
    unrecorded |= {
        f"dependencies.{name}": WHY[f"dependencies.{name}"] for name, value in dependencies if value is None
    }
    unrecorded |= {f"serving.{aspect}": reason for aspect, reason in serving.gaps.items()}
    return ReleaseAccount(
        checkpoint_id=checkpoint.checkpoint_id, step=checkpoint.step, attempt=checkpoint.attempt,
        snapshot=checkpoint.snapshot, configuration_digest=checkpoint.configuration_digest,
        responsible=checkpoint.responsible, conclusion=_conclusion(report, candidate), dependencies=dependencies,
        files=[ReleasedFile(path=f.path, size=f.size, sha256=f.sha256) for f in checkpoint.files],
        serves=serving.serves, serving=list(serving.checks), unrecorded=unrecorded, **fields,
    )  # fmt: skip


def dependencies_of(view: RunView) -> ReleaseDependencies:
    """What the training ran with, as its first worker observed it last."""
    config = view.latest(ConfigurationDeclared)
    facts: dict[str, Any] = {}
    for _, observed in view.all(EnvironmentObserved):
        if observed.worker == 0:
            facts |= {key: value for key, value in observed.environment.items() if value is not None}
    python, git = facts.get("python"), facts.get("git")
    version = python.get("version") if isinstance(python, dict) else python
    return ReleaseDependencies(
        packages=_versions(facts.get("packages")),
        libraries=_versions(facts.get("libraries"), known=False),
        python=str(version) if version else None,
        image=str(facts["image"]) if facts.get("image") else None,
        base_model=config.base_model if config else None,
        code_digest=config.code_digest if config else None,
        code_version=_commit(git) or (view.opened.code_version if view.opened else None),
    )


def _versions(value: Any, *, known: bool = True) -> Any:
    """Name → version of a mapping, or None; a version that is not known stays None unless ``known`` is demanded."""
    if not isinstance(value, dict) or not value:
        return None
    pairs = {str(name): None if version is None else str(version) for name, version in value.items()}
    return {name: version for name, version in sorted(pairs.items()) if version is not None or not known}


def _commit(git: Any) -> str | None:
    if not isinstance(git, dict) or not git.get("commit"):
        return None
    return str(git["commit"]) + ("-dirty" if git.get("dirty") else "")


def _conclusion(report: EvaluationReported | None, candidate: CandidateNamed) -> str | None:
    if report is None:
        return None
    rules = [str(rule.get("name", "")) for rule in report.rules]
    word = "passed" if report.passed else "not passed"
    return (
        f"{word} on {report.data_set}: {'; '.join(rules) or 'no rules'}. Chosen because: {candidate.reason}"
    )
