"""Check the quality of a run's snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pretrain_archive_operators.base import ArchiveOperator
from pretrain_archive_operators.links import DossierLink, QualityLink

if TYPE_CHECKING:
    from pretrain_archive.services.caller import Caller


class QualityCheckOperator(ArchiveOperator):
    """Compute per-document statistics and hold them against the policy with Great Expectations.

    The gates are those of the policy's suite. A failed gate is evidence, not an error: the task succeeds, and the
    prepare gate shows a blocking item, or advice to acknowledge. Nothing checked counts as failed.
    """

    operator_extra_links = (QualityLink(), DossierLink())

    def work(self, caller: Caller, run_uid: str) -> dict[str, Any]:
        """Return ``passed, documents, exact_duplicates, near_duplicates, failed, warnings`` and two digests."""
        from pretrain_archive.services.quality import quality  # noqa: PLC0415 (heavy)

        report = quality(self.ledger, self.store, caller, run_uid)
        missed = [f"{g.name} ({g.severity})" for g in report.gates if not g.passed]
        caller.say(
            f"{report.documents:,} documents: {len(report.gates) - len(missed)} of {len(report.gates)} gates passed"
            f"{'; not passed: ' + ', '.join(missed) if missed else ''}"
        )
        return {
            "passed": report.passed,
            "documents": report.documents,
            "exact_duplicates": report.exact_duplicates,
            "near_duplicates": report.near_duplicates,
            "failed": [g.name for g in report.gates if not g.passed and g.severity == "blocking"],
            "warnings": report.warnings,
            "report_digest": report.report_digest,
            "html_digest": report.html_digest,
        }
