"""Apply the project's rules of processing to a run's snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pretrain_archive_operators.base import ArchiveOperator

if TYPE_CHECKING:
    from pretrain_archive.services.caller import Caller


class DataProcessOperator(ArchiveOperator):
    """Clean, filter, deduplicate, mix and sample as the policy says; then split by document.

    Each step makes a snapshot of its own, with counts in, out and dropped by reason. A step that leaves nothing is
    refused and makes no version. Without steps in the policy nothing is done.
    """

    def work(self, caller: Caller, run_uid: str) -> dict[str, Any]:
        """Return ``steps`` (rule, version, snapshot, documents_in, documents_out), ``snapshot`` and the split."""
        from pretrain_archive.services.processing import process  # noqa: PLC0415 (heavy)

        made = process(self.ledger, self.store, caller, run_uid)
        return {
            "steps": [
                {
                    "rule": applied.account.rule.name,
                    "version": applied.account.rule.version,
                    "snapshot": f"{applied.snapshot.name}@{applied.snapshot.version}",
                    "documents_in": applied.account.documents_in,
                    "documents_out": applied.account.documents_out,
                }
                for applied in made.steps[:SHOWN]
            ],
            "step_count": len(made.steps),
            "snapshot": f"{made.snapshot.name}@{made.snapshot.version}",
            "manifest_digest": made.snapshot.manifest_digest,
            "split_digest": made.split.split_digest,
            "train_documents": made.split.train_documents,
            "validation_documents": made.split.validation_documents,
        }


SHOWN = 20
"""Steps that the task's value names; the ledger has all."""
