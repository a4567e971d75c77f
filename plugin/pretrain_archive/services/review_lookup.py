"""Look at a document of a sample, and draw a recorded sample again to compare it."""

from __future__ import annotations

from pathlib import Path

from pretrain_archive.data.layout import parse_snapshot
from pretrain_archive.data.snapshots import open_version
from pretrain_archive.domain.errors import InputError, RefusedError
from pretrain_archive.domain.gates import recorded_policy
from pretrain_archive.domain.kinds import LabelsSampled, SampledItem, SnapshotCreated, read_payload
from pretrain_archive.gates.service import load_run
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.review_sample import sample_of, texts_of
from pretrain_archive.storage.port import ObjectStore


def find_document(ledger: Ledger, store: ObjectStore, snapshot: str, digest: str) -> tuple[SampledItem, str]:
    """A document of a recorded sample of ``snapshot`` (NAME@VERSION) by the beginning of its digest, and its text.

    Raises ``InputError`` if no sample has exactly one such document, or its bytes are no longer the same.
    """
    wanted = digest.removeprefix("sha256:")
    found: dict[str, tuple[SampledItem, str]] = {}
    for record in ledger.records(kinds=["labels.sampled"]):
        sampled = read_payload(record, LabelsSampled)
        if sampled.snapshot == snapshot:
            hits = (item for item in sampled.items if item.digest[7:].startswith(wanted))
            found |= {item.digest: (item, record.stream) for item in hits}
    if len(found) != 1 or not wanted:
        problem = "names several documents" if found else "names no document of a sample"
        raise InputError("document", digest, f"{problem} of {snapshot}", hint="Copy it from the question.")
    [(item, stream)] = found.values()
    field = recorded_policy(load_run(ledger, stream)).data.quality.text_field
    version = open_version(store, *parse_snapshot(snapshot))
    [(_, text)] = texts_of(store, version, [item], field=field)
    return item, text


def drawn_again(
    ledger: Ledger, store: ObjectStore, run_uid: str, *, folder: Path
) -> tuple[LabelsSampled, LabelsSampled]:
    """The newest recorded sample of a run and the same drawn again, with the definition as it stands in ``folder``."""
    view = load_run(ledger, run_uid)
    recorded = view.latest(LabelsSampled)
    if recorded is None:
        raise InputError("run", run_uid, "has no sample of labels")
    policy = recorded_policy(view)
    labels = policy.data.labels
    snapshot = next(
        (s for _, s in view.all(SnapshotCreated) if f"{s.name}@{s.version}" == recorded.snapshot), None
    )
    if labels is None or labels.review is None or snapshot is None:
        raise RefusedError(f"run {run_uid} has no policy or snapshot to draw its sample from")
    drawn = sample_of(
        store, snapshot, labels, labels.review, recorded.reviewers,
        folder=folder, text_field=policy.data.quality.text_field,
    )  # fmt: skip
    return recorded, drawn
