"""Items of the data track: source, snapshot, quality."""

from __future__ import annotations

from pretrain_archive.domain import kinds
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item
from pretrain_archive.package.findings import changed, missing, verified


def source(view: RunView) -> Item:
    """Where the data come from, and under which licence."""
    found, snapshot = view.last(kinds.SourceRegistered), view.latest(kinds.SnapshotCreated)
    check = "licence, permission and owner are recorded for the source that the snapshot names"
    if found is None or snapshot is None or snapshot.source_id is None:
        return missing(
            "data.source", "data", view, role="data_owner", hint="Register the source with its licence."
        )
    record, source = found
    if source.source_id != snapshot.source_id:
        return changed("data.source", "data", check, [record], snapshot.source_id, source.source_id)
    return verified(
        "data.source", "data", check, [record], f"{source.name}, {source.licence}: {source.authorisation}"
    )


def snapshot(view: RunView) -> Item:
    """The snapshot, and that checkpoints rest on it."""
    found = view.last(kinds.SnapshotCreated)
    if found is None:
        return missing(
            "data.snapshot", "data", view, role="data_owner", hint="Make a snapshot of the source."
        )
    record, snapshot = found
    name = f"{snapshot.name}@{snapshot.version}"
    used = {payload.snapshot for _, payload in view.all(kinds.CheckpointRegistered)} - {name}
    if used:
        return changed(
            "data.snapshot", "data", "checkpoints name the snapshot", [record], name, ", ".join(sorted(used))
        )
    return verified("data.snapshot", "data", snapshot.check, [record], f"{name}, {snapshot.manifest_digest}")


def quality(view: RunView) -> Item:
    """The quality report of this snapshot."""
    found, snapshot = view.last(kinds.QualityReported), view.latest(kinds.SnapshotCreated)
    check = "the report's digest is recorded and it is about this snapshot"
    if found is None or snapshot is None:
        return missing(
            "data.quality", "data", view, role="data_owner", hint="Check the quality of the snapshot."
        )
    name = f"{snapshot.name}@{snapshot.version}"
    if found[1].snapshot != name:
        return changed("data.quality", "data", check, [found[0]], name, found[1].snapshot)
    passed = sum(gate.passed for gate in found[1].gates)
    text = f"{passed} of {len(found[1].gates)} quality gates passed on {found[1].documents} documents"
    return verified("data.quality", "data", check, [found[0]], text)
