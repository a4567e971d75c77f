"""Items about the sources of a run, all of them: scope of use, rights that still stand, who may read (R035–R040)."""

from __future__ import annotations

from pretrain_archive.domain import kinds
from pretrain_archive.domain.checklists.common import item
from pretrain_archive.domain.policy import Policy
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.source_rights import Standing, standings
from pretrain_archive.domain.verdicts import Item

NOT_FOLLOWED = "the lineage of the data is too long to be followed to its sources"


def _purpose(view: RunView) -> tuple[str, str]:
    """Intended use and training type; empty where no purpose is recorded."""
    purpose = view.opened.purpose if view.opened else None
    return (purpose.intended_use, purpose.training_type) if purpose else ("", "")


def _unrooted(view: RunView) -> list[str]:
    """Snapshots of the run whose lineage leads to no source."""
    rooted = view.around.rooted if view.around else ()
    names = [f"{s.name}@{s.version}" for _, s in view.all(kinds.SnapshotCreated) if not s.source_id]
    return [name for name in dict.fromkeys(names) if f"snapshot:{name}" not in rooted]


def _evidence(view: RunView, sources: tuple[Standing, ...]) -> tuple[Record, ...]:
    snapshots = [record for record, _ in view.all(kinds.SnapshotCreated)]
    return (*(record for source in sources for record, _ in source.registrations), *snapshots)


def _scope_faults(view: RunView, policy: Policy, sources: tuple[Standing, ...]) -> list[str]:
    use, task = _purpose(view)
    faults = [f"{source.name}: {why}" for source in sources if (why := source.allows(use, task))]
    faults += [f"{source.name}: not registered" for source in sources if source.registered is None]
    faults += [f"{snapshot}: made from no registered source" for snapshot in _unrooted(view)]
    if use not in policy.data.usage_scope:
        faults.append(f"use {use!r} is outside the project's scope")
    if view.around is not None and not view.around.complete:
        faults.append(NOT_FOLLOWED)
    return faults


def data_scope(view: RunView, policy: Policy) -> Item:
    """Data version and usage scope are confirmed for every source of the run's snapshots (R126)."""
    sources, snapshot = standings(view), view.latest(kinds.SnapshotCreated)
    holds: bool | None = None
    found = ""
    if snapshot is not None and any(source.registered for source in sources):
        faults = _scope_faults(view, policy, sources)
        holds = not faults
        told = [
            f"{source.name}, licence {fact.licence}, scope {', '.join(fact.usage_scope)}"
            for source in sources
            if (fact := source.registered)
        ]
        found = "; ".join([f"{snapshot.name}@{snapshot.version}", *told, *faults])
    use, task = _purpose(view)
    return item(
        "prepare.data_scope",
        "data",
        evidence=_evidence(view, sources),
        holds=holds,
        found=found,
        check="the intended use lies inside the usage scope of every source of the snapshots and of the project",
        expected=f"use {use!r} for {task!r} allowed",
        owner=policy.people.data_owner,
        requirement="R126",
        hint="Register the source with a scope that covers the intended use, or change the intended use.",
    )


def _rights_faults(sources: tuple[Standing, ...]) -> list[str]:
    faults: list[str] = []
    for source in sources:
        if source.withdrawal is not None:
            fact = source.withdrawal[1]
            faults.append(f"{source.name}: withdrawn at {fact.at} by {fact.by}: {fact.reason}")
        faults += [f"{source.name}: {fault}" for fault in (source.revoked(), source.ended()) if fault]
    return faults


def source_rights(view: RunView, policy: Policy) -> Item:
    """No source of the run is withdrawn, and nobody who reads it lost the right to (R037, R056)."""
    sources = standings(view)
    holds: bool | None = None
    found = ""
    # Later facts of a source stand outside of the run: where nobody looked there, nothing can be said.
    if view.around is not None and any(source.registered for source in sources):
        faults = _rights_faults(sources) + ([] if view.around.complete else [NOT_FOLLOWED])
        holds = not faults
        found = "; ".join(faults or [f"{source.name}: may be used" for source in sources])
    return item(
        "prepare.source_rights",
        "data",
        evidence=tuple(record for source in sources for record in source.evidence),
        holds=holds,
        found=found,
        check="no source was withdrawn, and no right to read one was revoked",
        expected="every source may be used",
        owner=policy.people.data_owner,
        requirement="R056",
        hint="Trigger a run with data that may be used, or have the data owner grant the right again.",
    )


def access_granted(view: RunView, policy: Policy) -> Item:
    """When the identity that reads each source got the right to is recorded, or why none is needed (R056)."""
    sources = standings(view)
    told = [(source, source.permitted()) for source in sources]
    holds = True if told and all(permitted for _, permitted in told) else None
    return item(
        "prepare.access_granted",
        "data",
        evidence=tuple(record for source in sources for record in source.evidence),
        holds=holds,
        found="; ".join(f"{source.name}: {permitted}" for source, permitted in told),
        check="the moment at which reading was permitted is recorded, or why nobody has to permit it",
        owner=policy.people.data_owner,
        requirement="R056",
        hint="Give the moment in the form, or record it: pretrain-archive source grant.",
        blocking=False,
    )


def access_identity(view: RunView, policy: Policy) -> Item:
    """The identity that reads each source is recorded, as observed and as declared (R055)."""
    sources = standings(view)
    holds = True if sources and all(source.identities for source in sources) else None
    return item(
        "prepare.access_identity",
        "data",
        evidence=tuple(record for source in sources for record, _ in source.registrations),
        holds=holds,
        found="; ".join(f"{source.name}: read by {source.readers()}" for source in sources),
        check="the identity that read the data is recorded",
        owner=policy.people.data_owner,
        requirement="R055",
        hint="Read the data with a named service identity.",
        blocking=False,
    )


def release_rights(view: RunView, policy: Policy) -> Item:
    """Every source that the model rests on may still be used for the release's purpose (R113, R037)."""
    sources = standings(view)
    use, task = _purpose(view)
    holds: bool | None = None
    found = ""
    if view.around is not None and sources and all(source.registered for source in sources):
        faults = _rights_faults(sources)
        faults += [f"{source.name}: {why}" for source in sources if (why := source.allows(use, task))]
        faults += [] if view.around.complete else [NOT_FOLLOWED]
        holds = not faults
        found = "; ".join(faults or [f"{source.name}: may be used" for source in sources])
    return item(
        "release.rights",
        "artifact",
        evidence=tuple(record for source in sources for record in source.evidence),
        holds=holds,
        found=found,
        check="every source that the model rests on may still be used for this purpose",
        expected="every source may be used",
        blocking=False,
        owner=policy.people.data_owner,
        requirement="R113",
        hint="Do not register the model: choose clean up, or ask the data owner.",
    )
