"""Items of the data track: source, its rights and readers, snapshot, processing, rebuilding, quality."""

from __future__ import annotations

from pretrain_archive.domain import kinds
from pretrain_archive.domain.chains import chain_of, name_of, pool_of, told
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
    check = "the identity that reads each source is recorded, and since when that is permitted or why nobody has to"
    sources = standings(view)
    gaps = [source for source in sources if not source.identities or not source.permitted()]
    if gaps or not sources:
        return missing(
            "data.access", "data", view, role="data_owner",
            hint="Record who reads and since when: pretrain-archive source grant.",
        )  # fmt: skip
    records = [record for source in sources for record in source.evidence]
    told = [f"{s.name}: read by {s.readers()}, {s.permitted()}" for s in sources]
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


def processing(view: RunView) -> Item:
    """By which rules the data became what went in, with the counts of each (R042–R044, R050)."""
    check = "each step's account adds up and leads from the pool to the snapshot that was split"
    found, snapshot = view.last(kinds.SplitCreated), view.last(kinds.SnapshotCreated)
    if found is None or snapshot is None:
        return missing(
            "data.processing", "data", view, role="data_owner", hint="Process and split the snapshot."
        )
    chain, pool, name = chain_of(view), pool_of(view), f"{snapshot[1].name}@{snapshot[1].version}"
    records = [*([pool[0]] if pool else []), *(record for record, _ in chain), found[0]]
    if found[1].snapshot.removeprefix("snapshot:") != name:
        return changed("data.processing", "data", check, records, name, found[1].snapshot)
    if pool is not None and chain and chain[0][1].input_digest != pool[1].manifest_digest:
        return changed("data.processing", "data", check, records, name_of(pool[1]), chain[0][1].input)
    steps = "".join(f"{told(account)}; " for _, account in chain)
    text = (
        f"{steps}{found[1].train_documents} documents for training, {found[1].validation_documents} held out"
    )
    return verified("data.processing", "data", check, records, text)


def rebuilding(view: RunView) -> Item:
    """How the data can be had again, and for a recipe by whose leave (R053, R054)."""
    check = "how the data can be had again is recorded, and for a recipe who allows it for how long"
    found = view.last(kinds.SnapshotCreated)
    hint = "Give the policy a section [data.recipe]."
    if found is None:
        return missing("data.rebuilding", "data", view, role="data_owner", hint=hint)
    record, snapshot = found
    if snapshot.mode == "copy":
        text = "a copy is kept"
        return verified("data.rebuilding", "data", check, [record], text)
    if snapshot.mode == "reference":
        text = f"digests are kept, the content lies in {snapshot.source_uri}"
        return verified("data.rebuilding", "data", check, [record], text)
    rights = ((view.opened.policy if view.opened else None) or {}).get("data", {}).get("recipe")
    if rights is None or snapshot.recipe_digest is None:
        return missing("data.rebuilding", "data", view, role="data_owner", hint=hint)
    kept = f"{rights['keep_days']:g}"
    text = f"a recipe is kept for {kept} days, it may be rebuilt, approved by {rights['approver']}"
    if not rights["rebuild_allowed"]:
        text = f"a recipe is kept for {kept} days, it must not be rebuilt, decided by {rights['approver']}"
    return verified("data.rebuilding", "data", check, [record], text)


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
