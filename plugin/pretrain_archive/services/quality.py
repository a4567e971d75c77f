"""The quality check of a run: the policy's suite over the run's snapshot, held against what the ledger knows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pretrain_archive.domain.errors import StorageError
from pretrain_archive.domain.kinds import QualityReported, SnapshotCreated, SplitCreated
from pretrain_archive.domain.policy import Policy
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.processing import content
from pretrain_archive.services.progress import every
from pretrain_archive.services.runs import policy_of, run_of, snapshot_of
from pretrain_archive.services.wiring import runs_folder
from pretrain_archive.storage.port import ObjectStore

if TYPE_CHECKING:
    from pretrain_archive.data.quality.asking import Source
    from pretrain_archive.data.quality.check import Compared
    from pretrain_archive.data.quality.labels import Definition

REPORT_LIMIT = 64 << 20
"""Bytes of an earlier report that are read to compare with."""


def quality(ledger: Ledger, store: ObjectStore, caller: Caller, run_uid: str) -> QualityReported:
    """Check the run's snapshot against the policy's suite; a failed check is recorded, not raised.

    What was measured lies in the run's work folder until it is recorded, so that a killed task goes on where it was.
    """
    from pretrain_archive.data.quality.check import check_quality, record_quality  # noqa: PLC0415 (heavy)
    from pretrain_archive.data.quality.suite import Limits  # noqa: PLC0415

    view = run_of(ledger, caller, run_uid)
    policy, snapshot = policy_of(view), snapshot_of(view)
    work = runs_folder() / run_uid / "quality"
    compared = compared_with(ledger, store, policy, snapshot, view.latest(SplitCreated))
    # A recipe holds no bytes: its content is made for the time of the check.
    with content(store, snapshot, caller) as (place, shown):
        found = check_quality(
            store,
            limits=Limits.of(policy.data),
            quality=policy.data.quality,
            snapshot=shown,
            read_from=place,
            compared=compared,
            language=policy.language,
            work=work,
            progress=every(caller.say, "checked"),
        )
    recorded = record_quality(ledger, found, stream=run_uid, actor=caller.actor, origin=caller.origin)
    shutil.rmtree(work, ignore_errors=True)
    return recorded


def compared_with(
    ledger: Ledger, store: ObjectStore, policy: Policy, snapshot: SnapshotCreated, split: SplitCreated | None
) -> Compared:
    """What a snapshot is held against: its parent's report (and its parent, if a limit asks), its split, the labels."""
    from pretrain_archive.data.quality.check import Compared  # noqa: PLC0415

    parent: Source | None = None
    wanted = {*policy.data.quality.limits, *policy.data.quality.severities}
    if snapshot.parent and "parent_overlap" in wanted:
        parent = _files_of(store, snapshot.parent)
    labels = policy.data.labels
    return Compared(
        parent=parent,
        before=report_of(ledger, store, snapshot.parent) if snapshot.parent else None,
        labels=definition_of(policy),
        label_field=labels.field if labels is not None else "label",
        validation=_validation(store, split, snapshot),
    )


def report_of(ledger: Ledger, store: ObjectStore, snapshot: str) -> dict[str, Any] | None:
    """The newest report about a snapshot (NAME@VERSION) that can still be read, None if there is none."""
    uri = ""
    for record in ledger.records(kinds=("quality.reported",)):
        if record.payload["snapshot"] == snapshot:
            uri = str(record.payload["report_uri"])
    prefix = store.location("x")[:-1]
    if not uri.startswith(prefix):
        return None
    try:
        with store.open(unquote(uri[len(prefix) :])) as stream:
            report = json.loads(stream.read(REPORT_LIMIT))
    except (OSError, StorageError, ValueError):
        return None
    return report if isinstance(report, dict) and "gates" in report else None


def definition_of(policy: Policy) -> Definition | None:
    """The label definition that the policy names, None if it names none."""
    from pretrain_archive import config  # noqa: PLC0415
    from pretrain_archive.services.review_sample import load_definition  # noqa: PLC0415

    labels = policy.data.labels
    return load_definition(labels, folder=config.policies_folder()) if labels is not None else None


def _files_of(store: ObjectStore, name: str) -> Source:
    from pretrain_archive.data.layout import parse_snapshot  # noqa: PLC0415
    from pretrain_archive.data.shards import of_snapshot  # noqa: PLC0415
    from pretrain_archive.data.snapshots import open_version  # noqa: PLC0415

    version = open_version(store, *parse_snapshot(name))
    return lambda: (shard for _, shard in of_snapshot(store, version))


def _validation(store: ObjectStore, split: SplitCreated | None, snapshot: SnapshotCreated) -> Source | None:
    """The validation part of the run's split, if it is one of this snapshot."""
    if split is None or split.snapshot.removeprefix("snapshot:") != f"{snapshot.name}@{snapshot.version}":
        return None
    from pretrain_archive.data.layout import blob_key  # noqa: PLC0415
    from pretrain_archive.data.quality.documents import Shard  # noqa: PLC0415
    from pretrain_archive.data.splits import read_split  # noqa: PLC0415

    if snapshot.mode != "copy":
        return None

    def files() -> Iterator[Shard]:
        for entry in read_split(store, split):
            if entry.split == "validation":
                key = blob_key(entry.sha256)
                yield Shard(path=entry.path, size=entry.size, open=partial(store.open, key))

    return files
