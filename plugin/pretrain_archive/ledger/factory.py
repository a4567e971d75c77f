"""Opening a ledger. Heavy imports happen here, when a ledger is really opened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pretrain_archive.ledger.anchors import Anchor
    from pretrain_archive.ledger.sql import SqlLedger


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

    ``create`` makes what is missing: tables (as a migration would) and the signing key. Without it a missing
    key means a ledger that does not seal, and missing tables are an error at the first use. Files of
    ``public_keys`` that do not exist are skipped.
    """
    from pretrain_archive.ledger.engine import Database  # noqa: PLC0415
    from pretrain_archive.ledger.signing import load_public_keys, load_signer  # noqa: PLC0415
    from pretrain_archive.ledger.sql import SqlLedger  # noqa: PLC0415

    if create:
        from pretrain_archive.ledger.migrate import migrate  # noqa: PLC0415

        migrate(url)
    signer = load_signer(signing_key, create=create) if signing_key else None
    keys = load_public_keys(path for path in public_keys if path.exists())
    return SqlLedger(Database(url), signer=signer, keys=keys, anchors=anchors, auto_seal=auto_seal)
