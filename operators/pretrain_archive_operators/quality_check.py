"""Check the quality of a run's snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pretrain_archive_operators.base import ArchiveOperator

if TYPE_CHECKING:
    from pretrain_archive.services.caller import Caller


class QualityCheckOperator(ArchiveOperator):
    """Compute per-document statistics and hold them against the policy with Great Expectations.

    Format, exact duplicates, cleanliness and mixture are gates. A failed gate is evidence, not an error: the
    task succeeds, and the prepare gate shows a blocking item. Nothing checked counts as failed.
    """

    def work(self, caller: Caller, run_uid: str) -> dict[str, Any]:
        """Return ``passed, documents, exact_duplicates, failed, report_digest``."""
        from pretrain_archive.services.data import quality  # noqa: PLC0415 (heavy)

        report = quality(self.ledger, self.store, caller, run_uid)
        return {
            "passed": report.passed,
            "documents": report.documents,
            "exact_duplicates": report.exact_duplicates,
            "failed": [gate.name for gate in report.gates if not gate.passed],
            "report_digest": report.report_digest,
        }
