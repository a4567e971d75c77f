"""Register the data source of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pretrain_archive_operators.base import ArchiveOperator

if TYPE_CHECKING:
    from pretrain_archive.services.caller import Caller


class RegisterSourceOperator(ArchiveOperator):
    """Record where the data came from, under which licence, by whose authority and who reads it."""

    def work(self, caller: Caller, run_uid: str) -> dict[str, Any]:
        """Return ``source_id, uri, licence``."""
        from pretrain_archive.services.data import register  # noqa: PLC0415 (heavy)

        source = register(self.ledger, caller, run_uid)
        caller.say(f"{source.name} is registered as {source.source_id}: {source.uri}, {source.licence}")
        return {"source_id": source.source_id, "uri": source.uri, "licence": source.licence}
