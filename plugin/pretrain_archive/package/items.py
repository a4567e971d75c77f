"""What can be said of a run's evidence: tracks, gates, the items of a package (R143, R146).

An item is verified only where a check exists, and names it; what nobody recorded is unrecorded with a hint
and an owner; what contradicts is changed. Pure: the same records give the same items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pretrain_archive.domain import kinds
from pretrain_archive.domain.candidates import chosen_candidate, chosen_evaluation
from pretrain_archive.domain.policy import ROLES
from pretrain_archive.domain.records import Record, Track
from pretrain_archive.domain.run_view import GATES, RunView
from pretrain_archive.domain.verdicts import WORST_FIRST, Item, Verdict
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.package.outcomes import checkpoint_by_id, evaluation_item, results_digest_fault

REQUIREMENT = "R143"


def evidence_items(view: RunView) -> list[Item]:
    """The items of a run in reading order: tracks, gates, then the items of the package."""
    items = [check(view) for check in CHECKS]
    gates = [_gate(view, gate) for gate in GATES]
    tracks = [
        _track(track, [item for item in items if item.track == track.value])
        for track in (Track.DATA, Track.COMPUTE, Track.ARTIFACT)
    ]
    return [*tracks, *gates, *items]


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of ``verdicts``; unrecorded where there are none."""
    seen = set(verdicts)
    return next((verdict for verdict in WORST_FIRST if verdict in seen), Verdict.UNRECORDED)


def _verified(name: str, track: str, check: str, records: Sequence[Record], found: str = "") -> Item:
    return Item(
        id=name,
        track=track,
        verdict=Verdict.VERIFIED,
        check=check,
        checked_at=records[-1].recorded_at if records else "",
        found=found,
        evidence=tuple(record.record_id for record in records),
        requirement=REQUIREMENT,
    )


def _missing(name: str, track: str, view: RunView, *, role: str, hint: str, check: str = "") -> Item:
    people = view.opened.people if view.opened else {}
    return Item(
        id=name,
        track=track,
        verdict=Verdict.UNRECORDED,
        check=check,
        owner=people.get(role, ""),
        hint=hint,
        requirement=REQUIREMENT,
    )


def _changed(  # noqa: PLR0917 - the order in which a finding is told
    name: str, track: str, check: str, records: Sequence[Record], expected: str, found: str
) -> Item:
    return Item(
        id=name,
        track=track,
        verdict=Verdict.CHANGED,
        check=check,
        checked_at=records[-1].recorded_at if records else "",
        expected=expected,
        found=found,
        evidence=tuple(record.record_id for record in records),
        requirement=REQUIREMENT,
    )


def _track(track: Track, items: list[Item]) -> Item:
    verdict = worst(item.verdict for item in items)
    good = sum(item.verdict is Verdict.VERIFIED for item in items)
    bad = [item.id for item in items if item.verdict is verdict and verdict is not Verdict.VERIFIED]
    return Item(
        id=f"track.{track.value}",
        track=track.value,
        verdict=verdict,
        check=f"{good} of {len(items)} items of this track are verified",
        checked_at=max((item.checked_at for item in items), default=""),
        expected="every item verified" if bad else "",
        found=", ".join(bad),
        hint="See the items of this track." if bad else "",
        requirement="R142",
    )


def _gate(view: RunView, gate: str) -> Item:  # noqa: PLR0911 - one way out per finding
    name, check = (
        f"gate.{gate}",
        "the decision names the digest of the dossier that was shown, by an entitled person",
    )
    found = view.decision(gate)
    if found is None:
        return _missing(name, "gates", view, role="acceptance", hint=f"Answer the {gate} gate.")
    record, decision = found
    shown = next((f for f in view.all(kinds.GateDossier) if f[0].record_id == decision.dossier_record), None)
    if shown is None:
        return _changed(name, "gates", check, [record], decision.dossier_record, "no such dossier in the run")
    computed = digest_of(shown[0].payload["document"])
    records = [shown[0], record]
    if {computed, shown[1].digest} != {decision.dossier_digest}:
        return _changed(name, "gates", check, records, decision.dossier_digest, computed)
    if not {decision.person_id, decision.person_name} & set(shown[1].eligible):
        return _changed(name, "gates", check, records, ", ".join(shown[1].eligible), decision.person_id)
    newest = view.dossier(gate)
    if newest and newest[0].sequence > record.sequence:
        return _missing(
            name, "gates", view, role="acceptance", hint="Signed for older evidence: answer the new question."
        )
    if decision.decision != "approve":
        return _missing(
            name,
            "gates",
            view,
            role="acceptance",
            hint=f"Rejected by {decision.person_name}: {decision.reason}",
        )
    by = decision.person_name + (" (self-signed)" if decision.self_signed else "")
    return _verified(name, "gates", check, records, f"approved by {by}")


# -- the items of the package -------------------------------------------------------------------------------------


def _summary(view: RunView) -> Item:
    found = view.last(kinds.RunOpened)
    check = "what the form sent hashes to the digest recorded with it"
    if found is None or found[1].purpose is None:
        return _missing(
            "run.summary", "gates", view, role="model_owner", hint="Trigger the run with its purpose."
        )
    record, opened = found
    computed = digest_of(record.payload["conf"])
    if computed != opened.conf_digest:
        return _changed("run.summary", "gates", check, [record], opened.conf_digest, computed)
    return _verified("run.summary", "gates", check, [record], found[1].purpose.objective)


def _source(view: RunView) -> Item:
    found, snapshot = view.last(kinds.SourceRegistered), view.latest(kinds.SnapshotCreated)
    check = "licence, permission and owner are recorded for the source that the snapshot names"
    if found is None or snapshot is None or snapshot.source_id is None:
        return _missing(
            "data.source", "data", view, role="data_owner", hint="Register the source with its licence."
        )
    record, source = found
    if source.source_id != snapshot.source_id:
        return _changed("data.source", "data", check, [record], snapshot.source_id, source.source_id)
    return _verified(
        "data.source", "data", check, [record], f"{source.name}, {source.licence}: {source.authorisation}"
    )


def _quality(view: RunView) -> Item:
    found, snapshot = view.last(kinds.QualityReported), view.latest(kinds.SnapshotCreated)
    check = "the report's digest is recorded and it is about this snapshot"
    if found is None or snapshot is None:
        return _missing(
            "data.quality", "data", view, role="data_owner", hint="Check the quality of the snapshot."
        )
    name = f"{snapshot.name}@{snapshot.version}"
    if found[1].snapshot != name:
        return _changed("data.quality", "data", check, [found[0]], name, found[1].snapshot)
    passed = sum(gate.passed for gate in found[1].gates)
    text = f"{passed} of {len(found[1].gates)} quality gates passed on {found[1].documents} documents"
    return _verified("data.quality", "data", check, [found[0]], text)


def _snapshot(view: RunView) -> Item:
    found = view.last(kinds.SnapshotCreated)
    if found is None:
        return _missing(
            "data.snapshot", "data", view, role="data_owner", hint="Make a snapshot of the source."
        )
    record, snapshot = found
    name = f"{snapshot.name}@{snapshot.version}"
    used = {payload.snapshot for _, payload in view.all(kinds.CheckpointRegistered)} - {name}
    if used:
        return _changed(
            "data.snapshot", "data", "checkpoints name the snapshot", [record], name, ", ".join(sorted(used))
        )
    return _verified("data.snapshot", "data", snapshot.check, [record], f"{name}, {snapshot.manifest_digest}")


def _configuration(view: RunView) -> Item:
    name, check = (
        "compute.configuration",
        "configuration and environment hash to their ids; workers found the same",
    )
    declared, environment = view.last(kinds.ConfigurationDeclared), view.last(kinds.EnvironmentDeclared)
    if declared is None or environment is None:
        return _missing(
            name, "compute", view, role="platform_owner", hint="Declare configuration and environment."
        )
    records = [declared[0], environment[0]]
    pairs = (
        (declared[1].configuration_digest, digest_of(declared[0].payload["configuration"])),
        (environment[1].environment_digest, digest_of(environment[0].payload["environment"])),
    )
    for expected, computed in pairs:
        if expected != computed:
            return _changed(name, "compute", check, records, expected, computed)
    observed = list(view.all(kinds.EnvironmentObserved))
    drift = [(record, d) for record, payload in observed for d in payload.differences]
    if drift:
        texts = sorted({str(d.get("field", d)) for _, d in drift})
        return _changed(
            name, "compute", check, [drift[0][0]], "the declared environment", "other: " + ", ".join(texts)
        )
    if not observed:
        return _missing(
            name,
            "compute",
            view,
            role="platform_owner",
            hint="No worker reported its environment.",
            check=check,
        )
    return _verified(name, "compute", check, [*records, observed[-1][0]], declared[1].configuration_digest)


def _events(view: RunView) -> Item:
    name, check = "compute.events", "every attempt that began has a recorded end"
    started = {payload.attempt: record for record, payload in view.all(kinds.AttemptStarted)}
    ended = {payload.attempt: record for record, payload in view.all(kinds.AttemptEnded)}
    if not started:
        return _missing(name, "compute", view, role="platform_owner", hint="No attempt was started.")
    if open_ones := sorted(started.keys() - ended.keys()):
        return _missing(
            name, "compute", view, role="platform_owner", check=check,
            hint=f"Attempt {', '.join(map(str, open_ones))} has no recorded end.",
        )  # fmt: skip
    return _verified(name, "compute", check, list(ended.values()), f"{len(started)} attempts")


def _checkpoints(view: RunView) -> Item:
    found = list(view.all(kinds.CheckpointRegistered))
    if not found:
        return _missing(
            "artifact.checkpoints", "artifact", view, role="restore_owner", hint="Register a checkpoint."
        )
    check = "every file was read and hashed when the checkpoint was registered"
    deleted = {p.ref.partition(":")[2] for _, p in view.all(kinds.TombstoneWritten)}
    kept = [p for _, p in found if p.checkpoint_id not in deleted]
    text = f"{len(kept)} kept, {len(found) - len(kept)} deleted with a tombstone"
    return _verified("artifact.checkpoints", "artifact", check, [record for record, _ in found], text)


def _candidate(view: RunView) -> Item:
    name, check = "artifact.candidate", "the candidate names a registered checkpoint with its digest"
    found = chosen_candidate(view)
    if found is None:
        return _missing(
            name, "artifact", view, role="model_owner", hint="Name the checkpoint that may become the model."
        )
    source = checkpoint_by_id(view, found[1].checkpoint_id)
    if fault := results_digest_fault(source, found[1].checkpoint_digest):
        return _changed(name, "artifact", check, [found[0]], *fault)
    return _verified(name, "artifact", check, [found[0]], f"{found[1].checkpoint_id}: {found[1].reason}")


def _evaluation(view: RunView) -> Item:
    return evaluation_item(view, missing=_missing, changed=_changed, verified=_verified)


def _limits(view: RunView) -> Item:
    found = view.last(kinds.ReleaseMade)
    evaluation = chosen_evaluation(view) or view.last(kinds.EvaluationReported)
    if found is None or not found[1].known_limits or evaluation is None:
        return _missing(
            "artifact.limits",
            "artifact",
            view,
            role="acceptance",
            hint="State known limits at the close gate.",
        )
    check = "limits are stated, with the data set that they were found on"
    text = "; ".join(found[1].known_limits) + f" (evaluated on {evaluation[1].data_set})"
    return _verified("artifact.limits", "artifact", check, [found[0]], text)


def _people(view: RunView) -> Item:
    found = view.last(kinds.RunOpened)
    gaps = [role for role in ROLES if not (found and found[1].people.get(role))]
    if found is None or gaps or not found[1].submitter:
        gap = ", ".join(gaps) or "submitter"
        return _missing(
            "run.people", "gates", view, role="platform_owner", hint=f"Name in the policy: {gap}."
        )
    check = "each of the six roles and the submitter is a named person"
    text = ", ".join(f"{role}: {found[1].people[role]}" for role in ROLES)
    return _verified("run.people", "gates", check, [found[0]], text)


def _retention(view: RunView) -> Item:
    declared = view.last(kinds.ConfigurationDeclared)
    if declared is None or not declared[1].checkpoints.retention_rule:
        return _missing(
            "artifact.retention",
            "artifact",
            view,
            role="data_owner",
            hint="Give the retention rule in the policy.",
        )
    check = "a rule per artifact class stands in the policy whose digest the run carries"
    return _verified(
        "artifact.retention", "artifact", check, [declared[0]], declared[1].checkpoints.retention_rule
    )


CHECKS: tuple[Callable[[RunView], Item], ...] = (
    _summary,
    _source,
    _snapshot,
    _quality,
    _configuration,
    _events,
    _checkpoints,
    _candidate,
    _evaluation,
    _limits,
    _people,
    _retention,
)
