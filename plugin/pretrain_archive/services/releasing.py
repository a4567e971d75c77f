"""What follows a release: its signature before the package is written, its registry entry after.

Both are found again by a retry. A registry that is down keeps nobody from closing a run: the package is complete, the
export is recorded as pending, and the next close or ``release export`` tries again.
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from pathlib import Path

from pretrain_archive.artifacts.export_mlflow import DIGEST, RUN, TAG, Entry, MlflowRegistry
from pretrain_archive.artifacts.parts import whole_stones
from pretrain_archive.artifacts.signing import MAX_BUNDLE, require_signable, sign_files, signature_fault
from pretrain_archive.domain.errors import AlreadyRecordedError, ArchiveError, RefusedError, StorageError
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.kinds import (
    BY_MODEL,
    CheckpointRegistered,
    PackageWritten,
    Payload,
    PayloadT,
    ReleaseExported,
    ReleaseExportPending,
    ReleaseMade,
    ReleaseSigned,
)
from pretrain_archive.domain.records import Draft, Edge, Relation
from pretrain_archive.domain.releases import standing_release
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.service import load_run
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.model_life import find_life
from pretrain_archive.storage.port import ObjectStore

Registration = ReleaseExported | ReleaseExportPending


@dataclass(frozen=True, kw_only=True)
class Releasing:
    """The key that signs released files, and the registry; None where none is configured."""

    signing_key: Path | None = None
    registry: MlflowRegistry | None = None


def release_ref(made: ReleaseMade) -> Ref:
    """The release as edges name it."""
    return Ref(type="release", id=made.release_id, version=made.version.replace("@", "%40"))


def sign_release(
    ledger: Ledger, store: ObjectStore, caller: Caller, run_uid: str, releasing: Releasing
) -> ReleaseSigned | None:
    """Sign the files of the run's release where a key is configured; None where nothing is signed.

    A run that is closed stays as it was closed. Raises ``InputError`` for a key that cannot sign: what was to be
    signed is not handed over unsigned.
    """
    view = load_run(ledger, run_uid)
    standing, known = standing_release(view), view.latest(ReleaseSigned)
    made = standing[1] if standing else None
    if made is None or known is not None or releasing.signing_key is None or view.state == "closed":
        return known
    checkpoint = released_checkpoint(view, made)
    made_now = sign_files(checkpoint.files, name=made.name, key=releasing.signing_key)
    key = f"releases/{made.release_id}/{made_now.fingerprint.removeprefix('sha256:')[:16]}.sig"
    bundle = made_now.bundle
    if not store.put_if_absent(key, io.BytesIO(bundle)):
        # An earlier try, or a parallel one: each signature is another text, the first one counts.
        bundle = read_bundle(store, key)
        if signature_fault(bundle, checkpoint.files, name=made.name, public_key=made_now.public_key):
            raise RefusedError(
                f"{store.location(key)} is no signature over {made.name} {made.version}",
                hint="Move it away; nothing was overwritten.",
            )
    signed = ReleaseSigned(
        release_id=made.release_id, checkpoint_digest=made.checkpoint_digest, bundle_uri=store.location(key),
        bundle_digest="sha256:" + hashlib.sha256(bundle).hexdigest(), key_fingerprint=made_now.fingerprint,
        public_key=made_now.public_key, tool=made_now.tool,
    )  # fmt: skip
    kept = _append_once(ledger, caller, view, signed, unique=f"release.signed/{made.release_id}")
    caller.say(f"signed {made.name} {made.version} with key {kept.key_fingerprint[:23]}…")
    return kept


def require_signer(releasing: Releasing, checkpoint: CheckpointRegistered) -> None:
    """Refuse a key or files that cannot be signed, before anything is released; nothing without a key."""
    if releasing.signing_key is not None:
        require_signable(checkpoint.files, key=releasing.signing_key)


def export_release(ledger: Ledger, caller: Caller, run_uid: str, releasing: Releasing) -> Registration | None:
    """Make the run's release one version in the registry; None without a release that stands, or a registry.

    A registry that does not take it is recorded as pending with the reason, and never raised. Raises
    :class:`RefusedError` for a release that was not handed over yet: it is exported as it was closed, or not at all.
    """
    registry, view = releasing.registry, load_run(ledger, run_uid)
    standing = standing_release(view)
    if registry is None or standing is None:
        return None
    known, made = registration(view, registry.url), standing[1]
    if isinstance(known, ReleaseExported):
        return known
    if faults := _not_exported(ledger, view, made):
        raise RefusedError(f"{made.name} {made.version} is not exported", reasons=tuple(faults))
    place = {"release_id": made.release_id, "registry": registry.kind, "registry_url": registry.url}
    try:
        found = registry.register(entry_of(view, made))
    except ArchiveError as error:
        pending = ReleaseExportPending(reason=error.message, **place)
        if known != pending:
            _append(ledger, caller, view, pending)
        caller.say(f"registration pending: {error.message} {error.hint}".strip())
        return pending
    exported = ReleaseExported(
        name=made.name, version=found.version, found=found.found, duplicates=list(found.duplicates), **place
    )
    address = hashlib.sha256(registry.url.encode()).hexdigest()[:16]
    kept = _append_once(
        ledger, caller, view, exported, unique=f"release.exported/{made.release_id}/{address}"
    )
    caller.say(f"{registry.url}: {made.name} version {kept.version}{' stood already' if found.found else ''}")
    return kept


def still_listed(ledger: Ledger, run_uid: str, registry: MlflowRegistry, told: ReleaseExported) -> bool:
    """Whether the registry has the version that is on record now; :class:`ArchiveError` where it does not say.

    One that a person removed there is not made again: that was a decision.
    """
    view = load_run(ledger, run_uid)
    standing = standing_release(view)
    return standing is not None and registry.lists(entry_of(view, standing[1]), told.version)


def _not_exported(ledger: Ledger, view: RunView, made: ReleaseMade) -> list[str]:
    """Why the release is not to reach a registry now: not handed over, or at its end since."""
    if view.state != "closed":
        return ["its run is not closed: the close signs, packages and exports it"]
    faults = []
    if f"checkpoint:{released_checkpoint(view, made).checkpoint_id}" in whole_stones(view):
        faults.append("its bytes were deleted")
    if (ended := find_life(ledger, made.release_id).state) in {"taken_down", "retired"}:
        faults.append(f"it was {ended.replace('_', ' ')} since")
    return faults


def registration(view: RunView, registry_url: str | None = None) -> Registration | None:
    """What is recorded of the release and a registry (any one if None): the version, else the newest pending try."""
    exported = [f for _, f in view.all(ReleaseExported) if registry_url in {None, f.registry_url}]
    pending = [f for _, f in view.all(ReleaseExportPending) if registry_url in {None, f.registry_url}]
    if exported:
        return exported[0]
    return pending[-1] if pending else None


def entry_of(view: RunView, made: ReleaseMade) -> Entry:
    """The release as a registry gets it. A path of this machine is told in a tag: a registry takes none as source."""
    checkpoint, package = released_checkpoint(view, made), view.latest(PackageWritten)
    signed, account = view.latest(ReleaseSigned), made.account
    tags = {
        RUN: view.run_uid,
        DIGEST: made.checkpoint_digest,
        f"{TAG}release": made.release_id,
        f"{TAG}version": made.version,
        f"{TAG}candidate": made.candidate_id,
        f"{TAG}checkpoint": checkpoint.checkpoint_id,
        f"{TAG}step": str(checkpoint.step),
        f"{TAG}location": checkpoint.location,
        f"{TAG}snapshot": checkpoint.snapshot,
        f"{TAG}configuration_digest": checkpoint.configuration_digest,
        f"{TAG}package_digest": package.digest if package else "unrecorded",
        f"{TAG}evaluation": account.conclusion if account and account.conclusion else "unrecorded",
        f"{TAG}known_limits": "; ".join(made.known_limits) or "unrecorded",
        f"{TAG}usage_scope": "; ".join(made.usage_scope) or "unrecorded",
        f"{TAG}signature": signed.bundle_digest if signed else "unsigned",
    }
    local = checkpoint.location.startswith("file:")
    return Entry(
        name=made.name,
        source=f"pretrain-archive://{view.run_uid}/{made.release_id}" if local else checkpoint.location,
        description=f"Release {made.name} {made.version} of training run {view.run_uid}.",
        tags={name: value[:MOST_TAG] for name, value in tags.items()},
    )


MOST_TAG = 4000
"""Characters of a tag: MLflow takes 5000 in every release since 1.0."""


def released_checkpoint(view: RunView, made: ReleaseMade) -> CheckpointRegistered:
    """The checkpoint that was released; :class:`RefusedError` where it is not registered."""
    found = [c for _, c in view.all(CheckpointRegistered) if c.digest == made.checkpoint_digest]
    if not found:
        raise RefusedError(f"the released checkpoint {made.checkpoint_digest} is not registered")
    return found[-1]


def read_bundle(store: ObjectStore, key: str) -> bytes:
    """A stored signature; :class:`StorageError` where it is larger than any signature."""
    with store.open(key) as handle:
        data = handle.read(MAX_BUNDLE + 1)
    if len(data) > MAX_BUNDLE:
        raise StorageError(f"{store.location(key)}: larger than {MAX_BUNDLE} bytes, which no signature is.")
    return data


def _append(ledger: Ledger, caller: Caller, view: RunView, payload: Payload, *, unique: str = "") -> None:
    made = view.latest(ReleaseMade)
    edges: tuple[Edge, ...] = ()
    if made is not None and isinstance(payload, ReleaseExported):
        entry = Ref(type="registry", id=f"{payload.registry_url}/{payload.name}", version=payload.version)
        edges = (Edge(subject=entry, relation=Relation.WAS_DERIVED_FROM, object=release_ref(made)),)
    kind = BY_MODEL[type(payload)]
    draft = Draft(
        stream=view.run_uid, kind=kind, payload=payload.to_json(), actor=caller.actor, origin=caller.origin,
        attempt=view.attempts, edges=edges, unique=unique, ordinal=sum(r.kind == kind for r in view.records),
    )  # fmt: skip
    ledger.append([draft])


def _append_once(
    ledger: Ledger, caller: Caller, view: RunView, payload: PayloadT, *, unique: str
) -> PayloadT:
    """Append ``payload`` under a key of its own, or return what another try recorded under it."""
    try:
        _append(ledger, caller, view, payload, unique=unique)
    except AlreadyRecordedError:
        return load_run(ledger, view.run_uid).latest(type(payload)) or payload
    return payload
