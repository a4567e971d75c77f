"""Make an immutable version of the data and split it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pretrain_archive_operators.base import ArchiveOperator

if TYPE_CHECKING:
    from pretrain_archive.domain.kinds import SnapshotCreated, SplitCreated
    from pretrain_archive.services.caller import Caller


def summary(made: SnapshotCreated, split: SplitCreated | None) -> dict[str, Any]:
    """What a task that made a version, whole or from parts, hands on; None for a split that comes later."""
    return {
        "name": made.name,
        "version": made.version,
        "manifest_digest": made.manifest_digest,
        "file_count": made.file_count,
        "total_bytes": made.total_bytes,
        "unchanged": made.unchanged,
        "split_digest": split.split_digest if split else None,
        "train_documents": split.train_documents if split else None,
        "validation_documents": split.validation_documents if split else None,
    }


class DataSnapshotOperator(ArchiveOperator):
    """Read and hash every byte of the source, keep it as a version, and split it by document.

    Unchanged content gives the version that exists. A source that changes while it is read is refused with
    the files' names, and no version appears.
    """

    def work(self, caller: Caller, run_uid: str) -> dict[str, Any]:
        """Return ``name, version, manifest_digest, file_count, total_bytes, unchanged, split_digest``."""
        from pretrain_archive.services.data import make_snapshot  # noqa: PLC0415 (heavy)

        made, split = make_snapshot(self.ledger, self.store, caller, run_uid)
        caller.say(
            f"{made.name}@{made.version}: {made.file_count:,} files, {made.total_bytes:,} bytes, {made.manifest_digest}"
            f"{', unchanged' if made.unchanged else ''}"
        )
        return summary(made, split)
