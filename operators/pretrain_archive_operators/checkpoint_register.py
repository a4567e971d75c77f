"""Register the checkpoints of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pretrain_archive_operators.base import ArchiveOperator

if TYPE_CHECKING:
    from pretrain_archive.services.caller import Caller

MOST_REFUSED = 5
MOST_LISTED = 50
"""The newest ones are listed for mapped evaluations: 50 ids stay well below the limit of XCom."""


class CheckpointRegisterOperator(ArchiveOperator):
    """Verify every checkpoint folder of the run and commit those that hold; the others are refused by name.

    What was registered while training is found again and not recorded twice. No complete checkpoint is an error. Files
    that were not written since they were hashed are not read again; how far a long read is stands on the task's log.

    :param scan: look at every value of the tensors for NaN and infinity; weights with NaN are refused.
    """

    def __init__(self, *, scan: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scan = scan

    def work(self, caller: Caller, run_uid: str) -> dict[str, Any]:
        """Return ``registered, newest_step, newest_digest, checkpoint_id, checkpoint_ids, refused``."""
        from pretrain_archive.services.checkpoints import register_all  # noqa: PLC0415 (heavy)

        found = register_all(self.ledger, caller, run_uid, scan=self.scan)
        newest = found.kept[-1]
        return {
            "registered": len(found.kept),
            "newest_step": newest.step,
            "newest_digest": newest.digest,
            "checkpoint_id": newest.checkpoint_id,
            "checkpoint_ids": [made.checkpoint_id for made in found.kept[-MOST_LISTED:]],
            "refused": [text[:300] for text in found.refused[:MOST_REFUSED]],
        }
