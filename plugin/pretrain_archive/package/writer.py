"""Writes the package of a run: assembled beside its place, flushed, checked, then renamed into it.

Order, and why: the content is made from records and store alone, so that a retry makes the same bytes; a
secret in it stops everything before anything is written. Then the record ``package.written`` with the digest
of the content goes to the ledger, the log is signed, and proofs for every record are added. The finished
folder is checked by the very verifier that it carries. Only then it gets its name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pretrain_archive.domain.errors import PackageError
from pretrain_archive.domain.identity import Ref, path_to_text
from pretrain_archive.domain.kinds import PackageWritten
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Record, Relation
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.source_rights import known_until
from pretrain_archive.gates.sources import with_sources
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.package.assembly import assemble, same_package, standing_package
from pretrain_archive.package.content import Content, make_content
from pretrain_archive.package.evidence import Part
from pretrain_archive.storage.port import ObjectStore


def _silent(_line: str) -> None:
    """Progress that nobody reads."""


Closing = Callable[[PackageWritten], Sequence[Draft]]
"""Makes what is appended in the same transaction as ``package.written``: the close itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Writer:
    """Who writes: the task try behind the records, and the ledger's verification key as notes print it.

    ``say`` takes lines of progress.
    """

    actor: Actor
    origin: Origin
    verifier_key: str
    say: Callable[[str], None] = _silent


def write_package(
    ledger: Ledger,
    store: ObjectStore,
    view: RunView,
    *,
    folder: Path,
    writer: Writer,
    closing: Closing | None = None,
    extra: Iterable[Part] = (),
    renew: bool = False,
) -> PackageWritten:
    """Write the package of ``view`` to ``folder`` and return what the ledger says of it.

    ``folder`` must not exist, or hold this very package (a retried close). ``extra`` are further evidence
    files. A retry finds its own record ``package.written`` and makes the same bytes again; what was recorded
    since is left out, unless ``renew`` asks for a further package that holds it. Where a closed run's package is not
    there and its bytes cannot be made again, a further one is written and recorded; the close stays as it is. The
    recorded location is the absolute path as ``identity.path_to_text`` writes it. Raises ``RefusedError`` on a
    secret; ``PackageError`` where another package is in the way, the run has no records, or the finished folder
    does not verify;
    ``AlreadyRecordedError`` where another try was faster: read the run again and repeat.
    """
    if not view.records:
        raise PackageError(f"run {view.run_uid} has no records.", hint="Name a run that the ledger knows.")
    standing = None if renew else _standing(view, folder)
    if standing is not None:
        return standing
    if view.around is None:
        view = with_sources(ledger, view)
    writer.say(f"package of {len(view.records)} records")
    known = None if renew else _known_statement(store, view, writer, tuple(extra))
    if known is None:
        if view.state == "closed":
            # The folder was lost or never came to be, and another release of this program, or evidence that changed
            # meanwhile, makes other bytes: what was said stays, and a further package says what holds now.
            closing = None
        told = replace(view, around=known_until(view.around, _newest(view.records)))
        content = make_content(store, told, verifier_key=writer.verifier_key, extra=tuple(extra))
        writer.say(f"{len(content.parts)} files are made and hold no secret that a scan finds")
        closed = _append_statement(ledger, view, content, folder=folder, writer=writer, closing=closing)
        records = [*view.records, *closed]
    else:
        content, records = known
    statement = next(r for r in records[::-1] if r.kind == "package.written")
    if folder.exists():
        same_package(folder, content)
    else:
        assemble(ledger, folder, content, records, verifier_key=writer.verifier_key, say=writer.say)
    return PackageWritten.model_validate(statement.payload, extra="ignore")


def _standing(view: RunView, folder: Path) -> PackageWritten | None:
    """What the ledger says of the package that stands in ``folder`` already; None where none or another does."""
    found = view.latest(PackageWritten)
    return found if found is not None and standing_package(folder, found.digest) else None


def _known_statement(
    store: ObjectStore, view: RunView, writer: Writer, extra: tuple[Part, ...]
) -> tuple[Content, list[Record]] | None:
    """A statement that an earlier try appended, with the content that it is about, or None."""
    for at in range(len(view.records) - 1, -1, -1):
        record = view.records[at]
        if record.kind != "package.written":
            continue
        earlier = view.records[:at]
        before = RunView.of(view.run_uid, earlier, known_until(view.around, _newest(earlier)))
        content = make_content(store, before, verifier_key=writer.verifier_key, extra=extra)
        if content.digest != record.payload["digest"]:
            return None
        after = view.records[at + 1 : at + 2]
        closed = [
            r for r in after if r.kind == "run.closed" and r.payload["package_digest"] == content.digest
        ]
        return content, [*before.records, record, *closed]
    return None


def _newest(records: Sequence[Record]) -> int:
    """The newest position: what is recorded elsewhere later does not change the bytes of a retry."""
    return records[-1].position if records else -1


def _append_statement(
    ledger: Ledger, view: RunView, content: Content, *, folder: Path, writer: Writer, closing: Closing | None
) -> list[Record]:
    payload = PackageWritten(
        location=path_to_text(os.fsencode(folder.resolve())),
        digest=content.digest,
        files=len(content.parts),
        total_bytes=sum(len(part.data) for part in content.parts),
        verdict=content.verdict.value,
    )
    statement = Draft(
        stream=view.run_uid,
        kind="package.written",
        payload=payload.to_json(),
        actor=writer.actor,
        origin=writer.origin,
        attempt=view.attempts,
        ordinal=sum(record.kind == "package.written" for record in view.records),
        unique=f"package:{view.run_uid}:{content.digest}",
        edges=(
            Edge(
                subject=Ref(type="package", id=view.run_uid, version=content.digest),
                relation=Relation.WAS_DERIVED_FROM,
                object=Ref(type="run", id=view.run_uid),
            ),
        ),
    )
    return ledger.append([statement, *(closing(payload) if closing else ())])
