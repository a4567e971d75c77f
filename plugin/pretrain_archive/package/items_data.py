"""Items of the data track: source, its rights and readers, snapshot, quality."""

from __future__ import annotations

from pretrain_archive.domain import kinds
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.source_rights import standings
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


def rights(view: RunView) -> Item:
    """Whether every source may still be used for what the run is for."""
    check = "no source was withdrawn, no right to read was revoked, and the purpose lies inside every scope"
    sources = standings(view)
    if view.around is None or not any(source.registered for source in sources):
        return missing(
            "data.rights", "data", view, role="data_owner", hint="Look up what the ledger says of each source.",
        )  # fmt: skip
    purpose = view.opened.purpose if view.opened else None
    records = [record for source in sources for record in source.evidence]
    faults: list[str] = []
    for source in sources:
        gone = source.withdrawal
        why = [f"withdrawn at {gone[1].at} by {gone[1].by}: {gone[1].reason}"] if gone else []
        why += [source.revoked(), source.ended()]
        if purpose is not None:
            why.append(source.allows(purpose.intended_use, purpose.training_type))
        faults += [f"{source.name}: {text}" for text in why if text]
    if faults:
        return changed("data.rights", "data", check, records, "every source may be used", "; ".join(faults))
    text = f"{', '.join(source.name for source in sources)} may be used"
    return verified("data.rights", "data", check, records, text)


def access(view: RunView) -> Item:
    """Who reads each source, and since when that is permitted."""
    check = "the identity that reads each source and the moment at which that was permitted are recorded"
    sources = standings(view)
    gaps = [source for source in sources if not source.identities or not source.granted_at()]
    if gaps or not sources:
        return missing(
            "data.access", "data", view, role="data_owner",
            hint="Record who reads and since when: pretrain-archive source grant.",
        )  # fmt: skip
    records = [record for source in sources for record in source.evidence]
    told = [f"{s.name}: {', '.join(s.identities)} since {s.granted_at()}" for s in sources]
    return verified("data.access", "data", check, records, "; ".join(told))


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
