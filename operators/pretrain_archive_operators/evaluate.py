"""Evaluate a run's checkpoint against its baselines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pretrain_archive_operators.base import ArchiveOperator

if TYPE_CHECKING:
    import subprocess

    from pretrain_archive.services.caller import Caller


def brief(text: str, most: int = 70) -> str:
    """The beginning of a text that is at most ``most`` bytes of JSON, whatever characters it is made of."""
    shown = text[:most]
    while len(json.dumps(shown)) > most + 2:
        shown = shown[: len(shown) * 3 // 4]
    return shown


class EvaluateOperator(ArchiveOperator):
    """Run the signed evaluation programs on the newest verified checkpoint and judge what they measured.

    The rules were fixed before the launch. What is missing, repeated, contradictory or not finite is flagged
    and cannot pass. The checkpoint is named as candidate, kept or dropped, with the reason. Each try is on record, also
    one that gave no numbers: that one is tried again. While a program reads, its checkpoint counts as in use.

    Mapped over checkpoints, each result is recorded under its checkpoint's id, never by place in the list; an
    empty list evaluates nothing, and the run gate shows that as unrecorded.

    :param checkpoint_id: the checkpoint; by default the newest verified one.
    """

    template_fields = ("run_uid", "checkpoint_id")

    def __init__(self, *, checkpoint_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.checkpoint_id = checkpoint_id

    _process: subprocess.Popen[bytes] | None = None
    _ended = False

    def work(self, caller: Caller, run_uid: str) -> dict[str, Any]:
        """Return ``evaluation_id, passed, flags, metrics, compared, further, candidate_id``; all is in the ledger."""
        from pretrain_archive.services.evaluating import evaluate  # noqa: PLC0415 (heavy)
        from pretrain_archive.services.wiring import runs_folder  # noqa: PLC0415

        done = evaluate(
            self.ledger,
            self.store,
            caller,
            run_uid,
            runs_folder(),
            hold=self._hold,
            checkpoint_id=self.checkpoint_id,
        )
        return {
            "checkpoint_id": done.report.checkpoint_id,
            "evaluation_id": done.report.evaluation_id,
            "passed": done.report.passed,
            "flags": [brief(flag, 120) for flag in done.report.flags[:10]],
            "metrics": [
                {"name": brief(m.name), "value": m.value, "not_finite": m.not_finite}
                for m in done.report.metrics[:15]
            ],
            "compared": [
                {"metric": brief(one["metric"]), "baseline": brief(one["baseline"]), "told": one["told"]}
                for one in done.report.comparisons[:8]
            ],
            "further": [
                {"program": one.program, "evaluation_id": one.evaluation_id, "passed": one.passed}
                for one in done.further[:5]
            ],
            "candidate_id": done.candidate.candidate_id if done.candidate else None,
        }

    def _hold(self, process: subprocess.Popen[bytes]) -> None:
        """Keep the process for :meth:`on_kill`; a signal that came before it ends it at once."""
        self._process = process
        if self._ended:
            process.terminate()

    def on_kill(self) -> None:
        """End the evaluation program and its tree."""
        self._ended = True
        if self._process is not None:
            self._process.terminate()
