"""Opening a ledger. Heavy imports happen here, when a ledger is really opened."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from pretrain_archive.domain.errors import LedgerUnavailableError

if TYPE_CHECKING:
    from pretrain_archive.ledger.anchors import Anchor
    from pretrain_archive.ledger.engine import Database
    from pretrain_archive.ledger.signing import VerifyKey
    from pretrain_archive.ledger.sql import SqlLedger


class NoLedgerError(LedgerUnavailableError):
    """There is no ledger where one was to be read, and reading makes none."""

    code = "no_ledger"


def open_ledger(
    url: str,
    *,
    signing_key: Path | None,
    anchors: Sequence[Anchor],
    create: bool = False,
    auto_seal: bool = True,
    public_keys: Sequence[Path] = (),
) -> SqlLedger:
    """Open the ledger at ``url``.

    ``create`` makes what is missing: tables (as a migration would) and the signing key. Without it nothing is made:
    ``NoLedgerError`` where there is no SQLite file with a ledger (a server's missing tables are an error at the
    first use), and a missing key means a ledger that does not seal. Files of ``public_keys`` that do not exist are
    skipped.
    """
    from pretrain_archive.ledger.engine import Database  # noqa: PLC0415
    from pretrain_archive.ledger.signing import load_public_keys, load_signer  # noqa: PLC0415
    from pretrain_archive.ledger.sql import SqlLedger  # noqa: PLC0415

    if create:
        from pretrain_archive.ledger.migrate import migrate  # noqa: PLC0415

        migrate(url)
    signer = load_signer(signing_key, create=create) if signing_key else None
    keys = load_public_keys(path for path in public_keys if path.exists())
    database = Database(url, create=False)  # what was made above is never made again by a connection
    if not create:
        _require_ledger(database, anchors, [*([signer.verify_key] if signer else []), *keys])
    return SqlLedger(database, signer=signer, keys=keys, anchors=anchors, auto_seal=auto_seal)


def _require_ledger(database: Database, anchors: Sequence[Anchor], keys: Sequence[VerifyKey]) -> None:
    """Raise ``NoLedgerError`` unless the SQLite file is there and holds a ledger; it is read and not changed."""
    from pretrain_archive.ledger.engine import sqlite_path  # noqa: PLC0415
    from pretrain_archive.ledger.tables import record  # noqa: PLC0415

    path = sqlite_path(database.engine)
    if path is None:
        return
    problem = f"there is no file {path}"
    if path.exists():
        try:
            address = f"file:{quote(str(path.absolute()))}?mode=rw"  # so that the last reader of a WAL file clears up
            with closing(sqlite3.connect(address, uri=True, timeout=30)) as reader:
                query = "SELECT 1 FROM sqlite_master WHERE name = ?"
                problem = (
                    ""
                    if reader.execute(query, (record.name,)).fetchone()
                    else f"{path} does not hold the ledger's tables"
                )
        except sqlite3.Error as error:
            problem = f"{path} cannot be read ({error})"
    if problem:
        raise NoLedgerError(
            f"There is no ledger at {database.name}: {problem}.{_remembered(anchors, keys)}",
            hint="Mend [pretrain_archive] database_url, or make a ledger: 'airflow db migrate' or "
            "'pretrain-archive ledger migrate'.",
        )


def _remembered(anchors: Sequence[Anchor], keys: Sequence[VerifyKey]) -> str:
    """What the anchors know of the ledger that is not there, as a sentence."""
    from pretrain_archive.ledger.anchors import AnchorError  # noqa: PLC0415
    from pretrain_archive.ledger.standing import standing  # noqa: PLC0415

    for anchor in anchors:
        try:
            found = standing(anchor, keys).checkpoint
        except AnchorError:
            continue
        if found is not None and found.size:
            return (
                f" The anchor {anchor.name} knows {found.size} records of it: the database was removed, or "
                "[pretrain_archive] database_url names another place."
            )
    return ""
