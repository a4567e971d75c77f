"""``pretrain-archive ledger``: the verifiable log itself."""

from __future__ import annotations

import getpass
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pretrain_archive.commands.output import FINDING, OK, Json, answer, command, plain, table, verdict_text

if TYPE_CHECKING:
    from pretrain_archive.ledger.port import SignedCheckpoint

app = typer.Typer(help="The verifiable log: check it, anchor it, migrate it.")


@command(app)
def verify(as_json: Json = False) -> None:
    """Read and hash every row again, and compare with signed checkpoints in the database and at the anchors."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.ledger.audit import audit  # noqa: PLC0415

    ledger = services.open_ledger(create=False)
    found = audit(ledger.database, anchors=ledger.anchors, keys=ledger.keys)
    document = {
        "verdict": found.verdict,
        "records": found.records,
        "findings": [
            {"record_id": f.record_id, "problem": f.problem, "position": f.position} for f in found.findings
        ],
        "unanchored": {"records": found.unanchored_records, "seconds": found.unanchored_seconds},
        "anchors": list(found.anchors),
    }
    lines = table([[plain(f.record_id), plain(f.problem)] for f in found.findings])
    lines.append(f"{verdict_text(found.verdict)}  {found.records} records, {len(found.findings)} findings")
    lines.append(
        f"newer than the last anchor: {found.unanchored_records} records, {found.unanchored_seconds:.0f} s"
    )
    answer(document, lines, as_json=as_json, code=OK if found.verdict == "verified" else FINDING)


@command(app)
def anchor(
    every: Annotated[
        float, typer.Option(min=0, help="Repeat after so many seconds until stopped; 0: once.")
    ] = 0,
    as_json: Json = False,
) -> None:
    """Re-hash what is new, sign a checkpoint and publish it to every anchor."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.domain.errors import ArchiveError  # noqa: PLC0415

    if not every:
        signed = services.open_ledger().seal()
        answer(_checkpoint(signed), [_checkpoint_line(signed)], as_json=as_json)
    stopped = _stop_signal()
    last: SignedCheckpoint | None = None
    ledger = services.open_ledger()
    while not stopped.is_set():
        try:
            signed = ledger.seal()
            if last is None or signed.size != last.size:
                print(_checkpoint_line(signed), file=sys.stderr, flush=True)
            last = signed
        except ArchiveError as error:
            # A database that restarts must not end the signer; the window that it leaves shows in `verify`.
            print(f"pretrain-archive: {plain(error)}", file=sys.stderr, flush=True)
        stopped.wait(every)
    answer(_checkpoint(last) if last else {"size": None}, ["stopped"], as_json=as_json)


def _stop_signal() -> threading.Event:
    stopped = threading.Event()

    def stop(_number: int, _frame: object) -> None:
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    return stopped


def _checkpoint(signed: SignedCheckpoint) -> dict[str, Any]:
    return {
        "origin": signed.origin,
        "size": signed.size,
        "root": signed.root,
        "signer": signed.signer,
        "key_id": signed.key_id,
        "checkpoint": signed.text,
    }


def _checkpoint_line(signed: SignedCheckpoint) -> str:
    return (
        f"{plain(signed.origin)}: {signed.size} records, root {signed.root}, signed by {plain(signed.signer)}"
    )


@command(app)
def migrate(as_json: Json = False) -> None:
    """Create the ledger's tables or bring them to this release."""
    from pretrain_archive import config  # noqa: PLC0415
    from pretrain_archive.ledger.engine import Database  # noqa: PLC0415
    from pretrain_archive.ledger.migrate import current  # noqa: PLC0415
    from pretrain_archive.ledger.migrate import migrate as bring  # noqa: PLC0415

    url = config.database_url()
    before = current(url)
    after = bring(url)
    name = Database(url).name
    document = {"database": name, "from": before, "revision": after, "changed": before != after}
    answer(document, [f"{name}: {before or 'nothing'} → {after}"], as_json=as_json)


@command(app)
def recover(
    reason: Annotated[str, typer.Option(help="What happened to the database, for a reader in a year.")],
    as_json: Json = False,
) -> None:
    """Sign for a database that lost records, so that appending works again; the loss stays on record."""
    from pretrain_archive import services  # noqa: PLC0415
    from pretrain_archive.ledger.recovery import recover as sign_for  # noqa: PLC0415

    made = sign_for(services.open_ledger(), person=getpass.getuser(), reason=reason)
    names = [record.record_id for record in made]
    answer({"recovered": names}, names or ["an interrupted recovery was completed"], as_json=as_json)


@command(app)
def key(
    public: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the public half there too, for those who verify."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make the signing key where there is none, and print its public half."""
    from pretrain_archive import config  # noqa: PLC0415
    from pretrain_archive.domain.errors import InputError  # noqa: PLC0415
    from pretrain_archive.ledger.signing import load_signer  # noqa: PLC0415

    file = config.signing_key()
    there = file.exists()
    signer = load_signer(file, create=True)
    if signer is None:
        raise InputError("[pretrain_archive] signing_key", str(file), "is not for this user to read")
    text = str(signer.verify_key)
    if public is not None:
        public.write_text(text + "\n", encoding="utf-8")
    document = {"signing_key": str(file), "public_key": text, "made": not there}
    answer(document, [text], as_json=as_json)
