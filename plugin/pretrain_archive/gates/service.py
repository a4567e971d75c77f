"""A gate as the ledger tells it: the dossier now, what was shown, what was decided, and what is stale."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pretrain_archive.domain.checklists import checklist
from pretrain_archive.domain.gates import Dossier, changed_parts, eligible_people, recorded_policy
from pretrain_archive.domain.kinds import GateDecision, GateDossier, GateExpired, GateRefused
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item, Verdict
from pretrain_archive.gates.facts import consequences_of, differences, facts_of
from pretrain_archive.gates.releases import release_holder
from pretrain_archive.gates.review import prepare_facts, prepare_items
from pretrain_archive.gates.sources import with_sources
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.ledger.port import Ledger, RunQuery

PAGE = 50


@dataclass(frozen=True, kw_only=True)
class GateView:
    """A gate of one run.

    ``digest`` is over the dossier as it stands now. ``stale`` names what changed since the decision: a
    decision with stale parts counts for nothing. ``eligible`` are the people who may answer now. ``used``: a review
    was carried out, since an attempt was launched after it; that it is stale by now is no fault.
    """

    gate: str
    run_uid: str
    dossier: Dossier
    digest: str
    shown: tuple[Record, GateDossier] | None
    decision: tuple[Record, GateDecision] | None
    stale: tuple[str, ...]
    eligible: tuple[str, ...]
    submitter: str | None
    waiting: bool
    refusals: tuple[tuple[Record, GateRefused], ...]
    expired: tuple[Record, GateExpired] | None
    policy_changed: bool = False
    used: bool = False

    @property
    def approved(self) -> bool:
        """A person approved exactly what stands now, and the gate did not expire since."""
        return (
            self.decision is not None
            and self.decision[1].decision == "approve"
            and not (self.stale or self.lapsed)
        )

    @property
    def lapsed(self) -> bool:
        """The gate was asked again after the decision and nobody answered in time."""
        return (
            self.expired is not None
            and self.decision is not None
            and self.expired[0].position > self.decision[0].position
        )


def load_run(ledger: Ledger, run_uid: str) -> RunView:
    """Every record of a run."""
    return RunView.of(run_uid, ledger.records(streams=[run_uid]))


def _last_approved(ledger: Ledger, view: RunView) -> RunView | None:
    """The newest run of the project whose prepare gate was approved before this run was opened.

    Pinned to the log position of this run's opening, its facts too, so that the comparison never changes
    afterwards.
    """
    opened = next((record for record in view.records if record.kind == "run.opened"), None)
    if opened is None:
        return None
    before: int | None = opened.position
    while True:
        rows = ledger.runs(RunQuery(project=str(opened.payload["project"]), before=before, limit=PAGE))
        found = ledger.records(streams=[row.run_uid for row in rows], kinds=["gate.decision"]) if rows else ()
        approved = {d.stream for d in found if _approves(d) and d.position < opened.position}
        for row in rows:
            if row.run_uid in approved:
                return _before(ledger, row.run_uid, opened)
        if len(rows) < PAGE:
            return None
        before = rows[-1].position


def _approves(decision: Record) -> bool:
    return (decision.payload["gate"], decision.payload["decision"]) == ("prepare", "approve")


def _before(ledger: Ledger, run_uid: str, opened: Record) -> RunView:
    """A run as it stood when another one was opened."""
    return RunView.of(run_uid, (r for r in ledger.records(streams=[run_uid]) if r.position < opened.position))


def _compared(ledger: Ledger, view: RunView, signed: GateDossier) -> RunView | None:
    """The run that the signed dossier was compared with, without looking for it again.

    Which one it was follows from the log before the run's opening, and that never changes; the answer was taken
    only because it named exactly the dossier that was computed in full. So a launch asks for that run alone.
    """
    uid = str(signed.document.get("compared_with") or "")
    opened = next((record for record in view.records if record.kind == "run.opened"), None)
    if not uid or opened is None:
        return None
    known = _before(ledger, uid, opened)
    return (
        known
        if any(_approves(record) for record, _ in known.all(GateDecision))
        else _last_approved(ledger, view)
    )


def _with_taken_name(ledger: Ledger, view: RunView, items: tuple[Item, ...]) -> tuple[Item, ...]:
    """The release's version is changed where another run released this name and version already."""
    conf = view.opened.conf if view.opened else {}
    name, version = str(conf.get("release_name") or ""), str(conf.get("release_version") or "")
    holder = release_holder(ledger, view.run_uid, name, version) if name else None
    if holder is None:
        return items
    taken = {
        "verdict": Verdict.CHANGED, "found": f"{name} {version} is released by {holder.stream}",
        "expected": "a version of its own", "hint": "Trigger a run with another release version.",
        "evidence": (holder.record_id,),
    }  # fmt: skip
    return tuple(replace(item, **taken) if item.id == "release.version" else item for item in items)  # type: ignore[arg-type]


def compute_dossier(
    ledger: Ledger, view: RunView, gate: str, *, until: int | None = None, signed: GateDossier | None = None
) -> Dossier:
    """The dossier of ``gate`` from the ledger alone; the same records give the same dossier.

    Later facts of the run's sources belong to it, up to the position ``until`` of the log where one is given.
    ``signed`` is the dossier that was signed: then what it settles is not looked for again, and a view that was built
    by :func:`with_sources` is taken as it is, so that the time does not grow with the ledger.
    """
    if signed is None or view.around is None:
        view = with_sources(ledger, view, until=until)
    items = checklist(gate, view, recorded_policy(view))
    facts = facts_of(gate, view)
    if gate == "close":
        items = _with_taken_name(ledger, view, items)
    if gate == "review":
        prepare = gate_view(ledger, view, "prepare", until=until)
        items, facts = (
            (*items, *prepare_items(view, prepare, recorded_policy(view))),
            (*facts, *prepare_facts(view, prepare)),
        )
    previous = _last_approved(ledger, view) if signed is None else _compared(ledger, view, signed)
    return Dossier(
        gate=gate,
        run_uid=view.run_uid,
        items=items,
        facts=facts,
        compared_with=previous.run_uid if previous else "",
        differences=differences(previous, view) if previous else (),
        consequences=consequences_of(gate, view),
    )


def _shown_for(view: RunView, decision: GateDecision) -> GateDossier | None:
    for record, dossier in view.all(GateDossier):
        if record.record_id == decision.dossier_record:
            return dossier
    return None


def stale_parts(view: RunView, decision: GateDecision, dossier: Dossier) -> tuple[str, ...]:
    """What changed since ``decision``; empty if exactly the signed dossier stands."""
    document = dossier.document()
    shown = _shown_for(view, decision)
    if shown is None:
        return ("the dossier that was signed is not in the ledger",)
    if digest_of(shown.document) != decision.dossier_digest:
        return ("the recorded dossier does not have the signed digest",)
    if digest_of(document) == decision.dossier_digest:
        return ()
    return changed_parts(shown.document, document)


def signed_in_its_time(ledger: Ledger, view: RunView, gate: str) -> bool:
    """Whether ``gate`` stands approved by what was known when it was signed.

    A source that is withdrawn while the training runs forbids the next launch; the gates that follow must still be
    asked, so that what was trained can be judged and cleaned up.
    """
    decision = view.decision(gate)
    until = decision[0].position if decision else None
    return gate_view(ledger, view, gate, until=until).approved


def gate_view(
    ledger: Ledger, view: RunView, gate: str, policy: LoadedPolicy | None = None, *, until: int | None = None,
    launching: bool = False,
) -> GateView:  # fmt: skip
    """The whole picture of ``gate``; ``policy`` (the file as it stands now) only flags a changed policy.

    ``until`` is the last position of the log up to which facts of the run's sources count. ``launching`` takes from
    the signed dossier what cannot have changed since: see :func:`compute_dossier`.
    """
    decision = view.decision(gate)
    signed = _shown_for(view, decision[1]) if launching and decision else None
    dossier = compute_dossier(ledger, view, gate, until=until, signed=signed)
    submitter = view.opened.submitter if view.opened else None
    return GateView(
        gate=gate,
        run_uid=view.run_uid,
        dossier=dossier,
        digest=digest_of(dossier.document()),
        shown=view.dossier(gate),
        decision=decision,
        stale=stale_parts(view, decision[1], dossier) if decision else (),
        eligible=eligible_people(recorded_policy(view), gate, submitter),
        submitter=submitter,
        waiting=view.waiting_gate() == gate and view.state != "closed",
        refusals=tuple(found for found in view.all(GateRefused) if found[1].gate == gate),
        expired=next((f for f in reversed(list(view.all(GateExpired))) if f[1].gate == gate), None),
        policy_changed=policy is not None
        and view.opened is not None
        and policy.digest != view.opened.policy_digest,
        used=gate == "review"
        and decision is not None
        and any(r.kind == "launch.intended" and r.position > decision[0].position for r in view.records),
    )
