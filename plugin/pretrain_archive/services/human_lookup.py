"""Look at a run's human evaluation afterwards: draw the recorded sample again, and compare the kept lines."""

from __future__ import annotations

from dataclasses import dataclass

from pretrain_archive.domain.checklists.human import report_of
from pretrain_archive.domain.errors import ArchiveError, InputError, RefusedError, StorageError
from pretrain_archive.domain.kinds import (
    CheckpointRegistered,
    EvaluationReported,
    HumanAnswerRefused,
    HumanEvaluationReported,
    HumanEvaluationSampled,
)
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import WORST_FIRST, Verdict
from pretrain_archive.services.human_files import kept_items
from pretrain_archive.services.human_sample import sample_of
from pretrain_archive.services.human_state import rules_of
from pretrain_archive.storage.port import ObjectStore


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A recorded sample compared with what is there now; ``found`` is the digest of the sample drawn again.

    ``source`` is unrecorded where the file is gone or cannot be read, ``kept`` where the drawn lines are.
    """

    sampled: HumanEvaluationSampled
    source: Verdict
    kept: Verdict
    found: str
    report: HumanEvaluationReported | None
    refused: tuple[HumanAnswerRefused, ...]

    @property
    def verdict(self) -> Verdict:
        """The worse of both."""
        return next(one for one in WORST_FIRST if one in {self.source, self.kept})


def check_outputs(store: ObjectStore, view: RunView) -> Checked:
    """Draw the newest sample of a run again, with nothing written; ``InputError`` if there is none."""
    sampled = view.latest(HumanEvaluationSampled)
    if sampled is None:
        raise InputError("run", view.run_uid, "has no human evaluation")
    source, found = _drawn_again(store, view, sampled)
    refused = (one for _, one in view.all(HumanAnswerRefused) if one.sample_digest == sampled.sample_digest)
    return Checked(
        sampled=sampled,
        source=source,
        kept=_kept(store, view, sampled),
        found=found,
        report=report_of(view, sampled)[1],
        refused=tuple(refused),
    )


def _drawn_again(store: ObjectStore, view: RunView, sampled: HumanEvaluationSampled) -> tuple[Verdict, str]:
    try:
        drawn = sample_of(
            store, view, _subject_then(view, sampled), rules_of(view), sampled.reviewers, keep=False
        )
    except (StorageError, RefusedError):
        return Verdict.UNRECORDED, ""
    except InputError as error:
        # A file that is gone proves nothing; one that is no longer a file of items is another one.
        gone = error.field == "human_items"
        return (Verdict.UNRECORDED if gone else Verdict.CHANGED), ""
    same = drawn == sampled
    return (Verdict.VERIFIED if same else Verdict.CHANGED), drawn.sample_digest


def _subject_then(
    view: RunView, sampled: HumanEvaluationSampled
) -> tuple[CheckpointRegistered, EvaluationReported | None]:
    """Checkpoint and evaluation that the sample names, whatever is the candidate by now."""
    found = [c for _, c in view.all(CheckpointRegistered) if c.digest == sampled.checkpoint_digest]
    reports = [r for _, r in view.all(EvaluationReported) if r.evaluation_id == sampled.evaluation_id]
    if not found:
        raise RefusedError(f"checkpoint {sampled.checkpoint_id} of run {view.run_uid} is not registered")
    return found[-1], reports[-1] if reports else None


def _kept(store: ObjectStore, view: RunView, sampled: HumanEvaluationSampled) -> Verdict:
    try:
        kept = kept_items(store, view.run_uid, sampled.items_digest)
    except StorageError:
        return Verdict.UNRECORDED
    except ArchiveError:
        return Verdict.CHANGED
    same = [item.digest for item in kept] == [item.digest for item in sampled.items]
    return Verdict.VERIFIED if same else Verdict.CHANGED
