"""Names of releases: one NAME@VERSION is one model in the whole ledger, whichever run made it."""

from __future__ import annotations

from urllib.parse import quote

from pretrain_archive.domain.kinds import ReleaseMade, read_payload
from pretrain_archive.domain.records import Record
from pretrain_archive.ledger.port import Ledger

KIND = "release.made"


def release_key(name: str, version: str) -> str:
    """The ledger's unique key of a release; ``@`` and ``%`` inside a name or version are escaped."""
    return f"release/{quote(name, safe=' ', errors='surrogatepass')}@{quote(version, safe=' ', errors='surrogatepass')}"


def release_holder(ledger: Ledger, run_uid: str, name: str, version: str | None) -> Record | None:
    """The release of another run than ``run_uid`` that holds this name and version; its stream is that run.

    None where the name is free, or where no version is said: what is unrecorded names nothing.
    """
    if not version:
        return None
    for record in ledger.records(kinds=[KIND]):
        made = read_payload(record, ReleaseMade)
        if record.stream != run_uid and (made.name, made.version) == (name, version):
            return record
    return None
