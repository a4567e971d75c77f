"""What has to hold before training is a shared service that runs unattended (R238, R248), asked of the ledger."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import ArchiveError, InputError, RefusedError
from pretrain_archive.domain.governance_drill import drill_gaps
from pretrain_archive.domain.governance_runbook import EMPTY, WALKED
from pretrain_archive.domain.governance_texts import HINTS, STAGE, pair
from pretrain_archive.domain.identity import Ref, parse_time
from pretrain_archive.domain.policy import LoadedPolicy, Policy
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.verdicts import Item, Verdict
from pretrain_archive.gates.service import load_run
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.incidents import Grounds, incidents
from pretrain_archive.services.platform_boundaries import boundaries
from pretrain_archive.services.platform_drills import changed_since, drill_projects, drills, project_of
from pretrain_archive.services.platform_said import Speaker, sentence, state

Policies = Callable[[str], LoadedPolicy]


def _item(
    name: str, holds: bool | None, *, check: str, found: str = "", expected: str = "", owner: str = "",
    records: tuple[Record, ...] = (),
) -> Item:  # fmt: skip
    verdict = {True: Verdict.VERIFIED, False: Verdict.CHANGED, None: Verdict.UNRECORDED}[holds]
    return Item(
        id=name, track="compute", verdict=verdict, check=check, expected=expected, found=found, owner=owner,
        checked_at=max((r.recorded_at for r in records), default=""), evidence=tuple(r.record_id for r in records),
        hint="" if holds else HINTS[name][0], requirement="R248" if name == "stage.experts" else "R238",
    )  # fmt: skip


def stage_items(ledger: Ledger, policy: Policy, grounds: Grounds) -> list[Item]:
    """The preconditions of the fourth stage for a project, each with its evidence."""
    drill, *others = _ledger_items(ledger, policy)
    return [drill, _runbook(policy, grounds), _walked(ledger, policy, grounds), *others]


def _ledger_items(ledger: Ledger, policy: Policy) -> list[Item]:
    """Those that need no file of the project."""
    return [
        _drill(ledger, policy), _boundaries(ledger, policy), _history(ledger, policy), _permissions(policy),
        _experts(policy), _incidents(ledger, policy),
    ]  # fmt: skip


def _drill(ledger: Ledger, policy: Policy) -> Item:
    """The newest drill that stands for the project passed on its target, is recent, and nothing changed since."""
    platform, target = policy.platform, policy.compute.target
    found = list(drills(ledger, drill_projects(policy)))
    check = (
        "the newest recovery drill passed, within drill_valid_days, and the platform was not changed since"
    )
    expected = f"a passed drill within {platform.drill_valid_days or 'unrecorded'} days, target {target}"
    if platform.drill_valid_days is None or not found:
        return _item("stage.drill", None, check=check, expected=expected, owner=policy.people.platform_owner)
    record, drill = found[-1]
    age = datetime.now(UTC) - parse_time(record.recorded_at)
    later, gaps = changed_since(ledger, record.position), drill_gaps(drill)
    told = f"{drill.injected} in {record.stream} {'found a gap' if gaps else 'passed'}, {age.days} days ago"
    if later is not None:
        told += f"; the platform changed since ({later.payload['change_id']})"
    if drill.target != target:
        told += f"; it ran on the target {drill.target}, which proves nothing of {target}"
    holds = (
        not gaps
        and drill.target == target
        and later is None
        and age <= timedelta(days=platform.drill_valid_days)
    )
    return _item(
        "stage.drill", holds, check=check, expected=expected, found=told, owner=policy.people.platform_owner,
        records=(record, later) if later else (record,),
    )  # fmt: skip


def _runbook(policy: Policy, grounds: Grounds) -> Item:
    sections, authors = grounds.sections(), policy.platform.runbook_authors
    missing = [n for n in WALKED if sections is not None and sections.get(n, EMPTY) == EMPTY]
    holds = None if sections is None or not authors else not missing
    found = f"{grounds.runbook} by {', '.join(authors)}" + (
        f"; missing: {', '.join(missing)}" if missing else ""
    )
    return _item(
        "stage.runbook", holds, check="the runbook is there, its authors are named, it says what on-call needs",
        expected=", ".join(WALKED), found=found if holds is not None else "", owner=policy.people.platform_owner,
    )  # fmt: skip


def _walked(ledger: Ledger, policy: Policy, grounds: Grounds) -> Item:
    """Somebody else than its authors walked through it, as it stands now."""
    check = "somebody who did not write it walked through its sections on a drill, as they stand now"
    told = [
        record
        for record in ledger.records(streams=[f"runbook/{grounds.runbook}"], kinds=["runbook.drilled"])
        if project_of(ledger, str(record.payload["drill_run"])) in drill_projects(policy)
    ]
    now, owner = grounds.sections() or {}, policy.people.platform_owner
    if not told:
        return _item("stage.runbook_drilled", None, check=check, expected=", ".join(WALKED), owner=owner)
    walk = kinds.read_payload(told[-1], kinds.RunbookDrilled)
    against = [
        f"{name} was rewritten since" for name, digest in walk.sections.items() if now.get(name) != digest
    ]
    against += [f"{name} was not walked through" for name in WALKED if name not in walk.sections]
    if walk.person in {*walk.authors, *policy.platform.runbook_authors}:
        against.append(f"{walk.person} is an author")
    if not walk.completed:
        against.append(f"{walk.person} did not come through")
    found = "; ".join([f"{walk.person} on {walk.drill_run}", *against])
    return _item(
        "stage.runbook_drilled", not against, check=check, expected=", ".join(WALKED), found=found, owner=owner,
        records=(told[-1],),
    )  # fmt: skip


def _boundaries(ledger: Ledger, policy: Policy) -> Item:
    items = boundaries(ledger, policy)
    gaps = [item for item in items if item.verdict is not Verdict.VERIFIED]
    changed = [item for item in gaps if item.verdict is Verdict.CHANGED]
    return Item(
        id="stage.boundaries", track="compute", requirement="R237", owner=policy.people.platform_owner,
        verdict=Verdict.CHANGED if changed else Verdict.UNRECORDED if gaps else Verdict.VERIFIED,
        check="training, platform, storage and network confirmed their boundaries on the topology of today",
        checked_at=max((item.checked_at for item in items), default=""),
        evidence=tuple(record for item in items for record in item.evidence),
        expected="training, platform, storage, network", hint=HINTS["stage.boundaries"][0] if gaps else "",
        found="; ".join(f"{item.id}: {item.found or item.verdict.value}" for item in items),
    )  # fmt: skip


def _history(ledger: Ledger, policy: Policy) -> Item:
    """The past cannot be rewritten unseen, and what may be deleted is decided."""
    check = (
        "the log is sealed, every anchor outside of the database fits it, and the policy says what is kept"
    )
    try:
        attested = ledger.attest()
    except ArchiveError as error:
        return _item(
            "stage.history", holds=False, check=check, found=error.message, owner=policy.people.platform_owner
        )
    gaps = [f"anchor {name} holds nothing or is out of reach" for name in attested.silent]
    gaps += ["the policy has no [retention]"] if policy.retention is None else []
    holds: bool | None = not gaps if attested.configured and attested.sealed else None
    found = "; ".join(gaps) or f"{len(attested.configured)} anchors, sealed"
    return _item(
        "stage.history", holds, check=check, expected="anchors outside of the database, a retention policy",
        found=found if holds is not None else "", owner=policy.people.platform_owner,
    )  # fmt: skip


def _permissions(policy: Policy) -> Item:
    duties = policy.gates.separation_of_duties
    return _item(
        "stage.permissions", duties == "required", check="nobody approves what he submitted himself",
        expected="separation_of_duties required", found=f"separation_of_duties {duties}",
        owner=policy.people.platform_owner,
    )  # fmt: skip


def _experts(policy: Policy) -> Item:
    experts = policy.platform.experts
    return _item(
        "stage.experts", None if experts is None else not experts,
        check="the policy says that training does not depend on a few experts", expected="nobody",
        found="" if experts is None else ", ".join(experts) or "nobody", owner=policy.people.model_owner,
    )  # fmt: skip


def _incidents(ledger: Ledger, policy: Policy) -> Item:
    """Major incidents of the project's runs, or of no run at all, that are not closed."""
    open_ones = []
    for one in incidents(ledger):
        if one.state == "closed" or one.opened.severity != "major":
            continue
        projects = {v.project for uid in one.opened.runs if (v := load_run(ledger, uid).opened)}
        if not projects or policy.project in projects:
            open_ones.append(one)
    return _item(
        "stage.incidents", not open_ones, check="no major incident of the project, or of the platform, is open",
        expected="none", found=", ".join(f"{o.incident_id}: {o.opened.title}" for o in open_ones) or "none",
        owner=policy.people.platform_owner, records=tuple(one.records[0] for one in open_ones),
    )  # fmt: skip


def walk(
    ledger: Ledger, policy: Policy, grounds: Grounds, who: Speaker, *, drill_run: str,
    sections: tuple[str, ...] = WALKED, stuck: tuple[str, ...] = (), completed: bool = True,
) -> Record:  # fmt: skip
    """Record that somebody walked through the runbook on a drill, and where that person was stuck (R249).

    Raises ``RefusedError`` where the person wrote it, where nobody says who did, and for a run without a drill;
    ``InputError`` for a section that there is not.
    """
    authors, there = policy.platform.runbook_authors, grounds.sections()
    filed = load_run(ledger, drill_run).last(kinds.DrillFiled)
    reasons = []
    if not authors:
        reasons.append(f"the policy of {policy.project} does not say who wrote the runbook")
    if who.person in authors:
        reasons.append(f"{who.person} wrote it: what is not in it cannot be missed by an author")
    if there is None:
        reasons.append(f"there is no runbook at {grounds.root / grounds.runbook}")
    if filed is None:
        reasons.append(f"no drill was filed in run {drill_run}")
    elif (project := project_of(ledger, drill_run)) not in drill_projects(policy):
        reasons.append(f"a drill of project {project} does not stand for {policy.project}")
    if reasons or there is None or filed is None:
        raise RefusedError("the walk-through cannot be recorded", reasons=tuple(reasons))
    for name in sections:
        if name not in there:
            raise InputError("section", name, f"is no section of {grounds.runbook}")
    payload = kinds.RunbookDrilled(
        runbook=grounds.runbook, authors=authors, sections={name: there[name] for name in sections},
        drill_run=drill_run, drill_record=filed[0].record_id, completed=completed,
        stuck=[sentence("stuck", text) for text in stuck], **who.said,
    )  # fmt: skip
    return state(ledger, who, f"runbook/{grounds.runbook}", payload, about=Ref(type="run", id=drill_run))


def label(ledger: Ledger, loaded: LoadedPolicy, grounds: Grounds, who: Speaker) -> Record:
    """Call the project a shared service; ``RefusedError`` names every precondition that does not hold."""
    policy = loaded.policy
    items = stage_items(ledger, policy, grounds)
    reasons = [f"{item.id} is {item.verdict.value}" + (f": {item.found}" if item.found else "")
               for item in items if item.verdict is not Verdict.VERIFIED]  # fmt: skip
    if who.person != policy.people.platform_owner:
        reasons.insert(0, f"{who.person} is not the platform owner of {policy.project}")
    if reasons:
        raise RefusedError(
            f"project {policy.project} is no shared service", reasons=tuple(reasons),
            hint="It may go on as a controlled project; see pretrain-archive platform stage.",
        )  # fmt: skip
    payload = kinds.ServiceLabelled(
        project=policy.project, label="shared_service", policy_digest=loaded.digest,
        checks=[item.to_dict() for item in items], **who.said,
    )  # fmt: skip
    return state(
        ledger, who, f"service/{policy.project}", payload, about=Ref(type="project", id=policy.project)
    )


def standing(ledger: Ledger, policy: Policy, policy_digest: str | None) -> dict[str, Any]:
    """How a project may be called: ``controlled_project``, ``shared_service`` or ``unrecorded``, and why.

    ``lapsed`` of a shared service are the preconditions that no longer hold, as far as the ledger alone can tell.
    """
    if policy.platform.experts:
        return {"label": "controlled_project", "because": f"depends on {', '.join(policy.platform.experts)}"}
    told = list(ledger.records(streams=[f"service/{policy.project}"], kinds=["service.labelled"]))
    fitting = [record for record in told if record.payload["policy_digest"] == policy_digest]
    if fitting:
        lapsed = [item.id for item in _ledger_items(ledger, policy) if item.verdict is not Verdict.VERIFIED]
        return {"label": "shared_service", "because": fitting[-1].record_id, "lapsed": lapsed}
    return {
        "label": "unrecorded",
        "because": "labelled under another policy" if told else "nobody labelled it",
    }


def stage_document(ledger: Ledger, loaded: LoadedPolicy, grounds: Grounds) -> dict[str, Any]:
    """The preconditions with titles and hints in both languages, what is missing, and the label."""
    items = stage_items(ledger, loaded.policy, grounds)
    missing = [item.id for item in items if item.verdict is not Verdict.VERIFIED]
    told = standing(ledger, loaded.policy, loaded.digest)
    return {
        "project": loaded.policy.project, "ready": not missing, "missing": missing, "service": told,
        "lapsed": told["label"] == "shared_service" and bool(missing),
        "items": [
            {**item.to_dict(), "title": pair(STAGE, item.id), "hints": pair(HINTS, item.id) if item.hint else None}
            for item in items
        ],
        "boundaries": [item.to_dict() for item in boundaries(ledger, loaded.policy)],
    }  # fmt: skip
