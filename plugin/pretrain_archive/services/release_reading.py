"""Find a release, tell it as a document, and verify it: records, bytes, signature, registry."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from pretrain_archive.artifacts.parts import gone_parts
from pretrain_archive.artifacts.signing import fingerprint, signature_fault
from pretrain_archive.artifacts.verification import verify_checkpoint
from pretrain_archive.domain.candidates import named_candidates
from pretrain_archive.domain.errors import ArchiveError, InputError, StorageError
from pretrain_archive.domain.identity import utc_now
from pretrain_archive.domain.kinds import (
    ReleaseExported,
    ReleaseMade,
    ReleaseSigned,
    TombstoneWritten,
    read_payload,
)
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.releases import standing_release
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item, Verdict, counts, worst_first
from pretrain_archive.gates.service import load_run
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.releasing import read_bundle, registration, released_checkpoint
from pretrain_archive.storage.port import ObjectStore

MADE = "release.made"


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A release with the record that made it and its run."""

    record: Record
    made: ReleaseMade
    view: RunView


@dataclass(frozen=True, kw_only=True, slots=True)
class Verified:
    """The findings of a release. ``verdict``: verified, intact (no key from outside, or unsigned) or changed."""

    verdict: str
    items: tuple[Item, ...]

    def to_dict(self, *, everything: bool = True) -> dict[str, Any]:
        """As plain JSON, worst first; without ``everything`` only what is not verified."""
        shown = [i for i in worst_first(self.items) if everything or i.verdict is not Verdict.VERIFIED]
        return {
            "verdict": self.verdict,
            "counts": counts(self.items),
            "items": [item.to_dict() for item in shown],
        }


def find_release(ledger: Ledger, name: str) -> Found:
    """The release named by run, ``NAME@VERSION`` or release id; :class:`InputError` lists what there is."""
    known: list[str] = []
    found: dict[str, Record] = {}
    for record in ledger.records(kinds=[MADE]):
        made = read_payload(record, ReleaseMade)
        known.append(f"{made.name}@{made.version}")
        if name in {record.stream, made.release_id, known[-1]}:
            found[record.stream] = record
    if len(found) != 1:
        raise InputError(
            "RELEASE", name, "names several releases" if found else "is not a release",
            hint=f"Name a run, or one of: {', '.join(sorted(known)[:20]) or 'nothing is released yet'}.",
        )  # fmt: skip
    record = next(iter(found.values()))
    return Found(record=record, made=read_payload(record, ReleaseMade), view=load_run(ledger, record.stream))


def release_document(found: Found) -> dict[str, Any]:
    """Everything that is recorded of the release; what is not stands as null or in ``account.unrecorded``."""
    view, made = found.view, found.made
    signed, registered = view.latest(ReleaseSigned), registration(view)
    return {
        "run": view.run_uid,
        "created_at": found.record.recorded_at,
        "record": found.record.record_id,
        "stands": standing_release(view) is not None,
        "handed_over": standing_release(view) is not None and view.state == "closed",
        **made.to_json(),
        "candidates": [fact.to_json() for _, fact in named_candidates(view)],
        "signature": signed.to_json() if signed else None,
        "registration": None
        if registered is None
        else {
            "state": "registered" if isinstance(registered, ReleaseExported) else "pending",
            **registered.to_json(),
        },
    }


def verify_release(store: ObjectStore, found: Found, *, public_key: str | None) -> Verified:
    """Read every released byte again, check the signature by ``public_key`` (PEM, from outside), look at the records.

    Without a key from outside the key that the record names is used, and the verdict is at most *intact*.
    """
    items = [*_files(found), *_signature(store, found, public_key), _registry(found)]
    if any(item.verdict is Verdict.CHANGED for item in items):
        verdict = "changed"
    elif public_key is not None and all(i.verdict is Verdict.VERIFIED for i in items if i.blocking):
        verdict = "verified"
    else:
        verdict = "intact"
    return Verified(verdict=verdict, items=tuple(items))


def _item(item_id: str, verdict: Verdict, check: str, **more: Any) -> Item:
    return Item(id=item_id, track="artifact", verdict=verdict, check=check, checked_at=utc_now(), **more)


def _files(found: Found) -> Iterator[Item]:
    checkpoint = released_checkpoint(found.view, found.made)
    ref = f"checkpoint:{checkpoint.checkpoint_id}"
    stones = [s for _, s in found.view.all(TombstoneWritten) if s.ref == ref and not s.parts]
    if stones:
        yield _item(
            "release.files", Verdict.UNRECORDED, "", expected=checkpoint.digest,
            hint=f"The bytes were deleted: {stones[-1].reason}.",
        )  # fmt: skip
        return
    gone = gone_parts(found.view).get(checkpoint.checkpoint_id, frozenset())
    yield from verify_checkpoint(checkpoint, gone=gone)
    account = found.made.account
    if account is None:
        return
    said = {file.path: file.sha256 for file in account.files}
    same = said == {file.path: file.sha256 for file in checkpoint.files}
    yield _item(
        "release.account", Verdict.VERIFIED if same else Verdict.CHANGED,
        "the files that the release names are those of the registered checkpoint",
        expected=f"{len(checkpoint.files)} files", found=f"{len(said)} files",
        evidence=(found.record.record_id,),
    )  # fmt: skip


def _signature(store: ObjectStore, found: Found, public_key: str | None) -> Iterator[Item]:
    last, name = found.view.last(ReleaseSigned), "release.signature"
    if last is None:
        hint = "Unsigned: no signing key was configured when the run was closed."
        yield _item(name, Verdict.UNRECORDED, "", hint=hint)
        return
    record, signed = last
    check = "the bundle is a signature of the key over exactly the registered files"
    if public_key is None:
        check += "; the key is the one that the record names, none was given from outside"
    elif fingerprint(public_key) != signed.key_fingerprint:
        yield _item(
            name, Verdict.CHANGED, check, expected=fingerprint(public_key), found=signed.key_fingerprint,
            evidence=(record.record_id,), hint="Another key signed; ask who holds it.",
        )  # fmt: skip
        return
    try:
        bundle = read_bundle(store, _key(store, signed.bundle_uri))
    except (StorageError, OSError) as error:
        yield _item(name, Verdict.UNRECORDED, check, hint=f"The bundle cannot be read: {error}")
        return
    found_digest = "sha256:" + hashlib.sha256(bundle).hexdigest()
    files = released_checkpoint(found.view, found.made).files
    fault = ""
    if found_digest == signed.bundle_digest:
        fault = signature_fault(
            bundle, files, name=found.made.name, public_key=public_key or signed.public_key
        )
    verdict = Verdict.CHANGED if fault or found_digest != signed.bundle_digest else Verdict.VERIFIED
    yield _item(
        name, verdict, check, expected=signed.bundle_digest, found=fault or found_digest,
        evidence=(record.record_id,),
    )  # fmt: skip


def _registry(found: Found) -> Item:
    """Where it is registered, by the record alone: the registry itself is not asked."""
    known = registration(found.view)
    check = "the record of the export names the registry's version"
    if isinstance(known, ReleaseExported):
        where = f"{known.registry_url}: {known.name} version {known.version}"
        return _item("release.registry", Verdict.VERIFIED, check, found=where, blocking=False)
    hint = f"Registration pending: {known.reason}" if known else "No registry was configured."
    return _item("release.registry", Verdict.UNRECORDED, check, blocking=False, hint=hint)


def _key(store: ObjectStore, uri: str) -> str:
    """The store's key of a location in it."""
    prefix = store.location("x")[:-1]
    if not uri.startswith(prefix):
        raise ArchiveError(
            f"{uri} is not in the store {prefix}.", hint="Set [pretrain_archive] store_url to the store."
        )
    return unquote(uri[len(prefix) :])
