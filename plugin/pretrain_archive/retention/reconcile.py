"""What is recorded against what is there, both ways, on file systems and in stores (R150, R152).

Only looks: nothing is deleted and nothing is recorded. Each finding comes with a proposal that a plan or a command
carries out; where two explanations fit, the finding says both and proposes neither's deletion.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.identity import utc_now
from pretrain_archive.domain.kinds import CheckpointRegistered, read_payload
from pretrain_archive.domain.verdicts import Item, Verdict
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.retention.files import ArtifactFiles, Look, choose, target_for
from pretrain_archive.retention.folders import FolderFiles
from pretrain_archive.retention.strays import Stray, folder_strays, store_strays
from pretrain_archive.retention.world import World, observe
from pretrain_archive.storage.port import ObjectStore

CHECK = "recorded files and sizes compared with what is at the location (contents are not hashed)"

FindingKind = Literal[
    "missing", "half_deleted", "changed", "came_back", "unregistered", "orphan", "left_over", "journal",
    "unreachable",
]  # fmt: skip
"""``missing``: recorded, gone, without a tombstone. ``half_deleted``: a removal was cut, or some of it is gone.
``came_back``: a tombstone stands and bytes are there. ``unregistered``: a checkpoint that no record names. ``orphan``:
content that nothing names. ``left_over``: what a plan, an upload or a writer left. ``journal``: a finished removal
whose journal is still there. ``unreachable``: nobody could look."""

Act = Literal["finish", "plan", "restore", "register", "verify", "mount"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """What may be done: by which command, in words, and what else would explain the finding."""

    act: Act
    command: str
    text: str

    def to_dict(self) -> dict[str, str]:
        """As plain JSON."""
        return {"act": self.act, "command": self.command, "text": self.text}


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One difference between records and storage. ``size`` is what lies there in bytes."""

    kind: FindingKind
    ref: str
    location: str
    size: int
    detail: str
    proposal: Proposal
    run: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "kind": self.kind, "id": self.ref, "run": self.run, "location": self.location, "bytes": self.size,
            "detail": self.detail, "proposal": self.proposal.to_dict(),
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Reconciled:
    """One item per recorded artifact and per stray; ``findings`` are those that differ, with what to do.

    ``ownerless_bytes`` is what strays hold.
    """

    items: tuple[Item, ...]
    findings: tuple[Finding, ...] = ()
    ownerless_bytes: int = 0
    checked: Mapping[str, int] = field(default_factory=dict)

    @property
    def clean(self) -> bool:
        """Whether records and storage say the same."""
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON; the items that hold are only counted."""
        return {
            "clean": self.clean,
            "checked": dict(self.checked),
            "ownerless_bytes": self.ownerless_bytes,
            "findings": [finding.to_dict() for finding in self.findings],
        }


def reconcile(
    ledger: Ledger,
    *,
    places: Sequence[ArtifactFiles] = (FolderFiles(),),
    roots: Iterable[Path] = (),
    store: ObjectStore | None = None,
) -> Reconciled:
    """Compare the ledger with what is there, at every recorded location, beside it and below ``roots``.

    ``store`` is the archive's own: its snapshots, content, plans and journals are compared, too. Raises
    :class:`InputError` for a root that cannot be looked into.
    """
    roots = [_looked_into(root) for root in roots]
    world = observe(ledger, places)
    items: list[Item] = []
    findings: list[Finding] = []
    newest = {
        str(record.payload["checkpoint_id"]): record.position
        for record in ledger.records(kinds=["checkpoint.registered"])
    }
    for record in ledger.records(kinds=["checkpoint.registered"]):
        if newest.get(str(record.payload["checkpoint_id"])) == record.position:
            item, found = _recorded(world, record.stream, read_payload(record, CheckpointRegistered), places)
            items.append(item)
            findings += [found] if found else []
    recorded = len(items)
    strays = [*folder_strays(world, roots), *(store_strays(world, store) if store is not None else ())]
    for stray in strays:
        items.append(_stray_item(stray))
        findings.append(_stray_finding(stray))
    return Reconciled(
        items=tuple(items),
        findings=tuple(findings),
        ownerless_bytes=sum(stray.size for stray in strays if stray.kind != "journal"),
        checked={"checkpoints": recorded, "strays": len(strays)},
    )


def _looked_into(root: Path) -> Path:
    try:
        next(root.iterdir(), None)
    except OSError as error:
        problem = f"cannot be looked into: {error.strerror}"
        raise InputError("--root", str(root), problem, hint="Name a folder that exists.") from error
    return root


def _recorded(
    world: World, run_uid: str, fact: CheckpointRegistered, places: Sequence[ArtifactFiles]
) -> tuple[Item, Finding | None]:
    ref = f"checkpoint:{fact.checkpoint_id}"
    place = choose(places, fact.location)
    gone = frozenset(world.liveness.facts.checkpoints[ref].gone_parts)
    target = target_for(fact, gone=gone)
    seen = place.look(target) if place else Look(presence="unreachable", detail="not on this machine")
    deleted = ref in world.tombstones
    replaced = deleted and fact.location in world.liveness.facts.at_location
    found = _difference(ref, run_uid, fact, seen, deleted=deleted) if not replaced else None
    told = f"{seen.presence}{': ' if seen.detail else ''}{seen.detail}"
    if seen.begun:
        told += "; a deletion is under way"
    if replaced:
        told = "replaced by a later checkpoint at the same location"
    verdict = Verdict.VERIFIED
    if found is not None:
        verdict = Verdict.UNRECORDED if found.kind == "unreachable" else Verdict.CHANGED
    item = Item(
        id=ref, track="artifact", verdict=verdict, check=CHECK, checked_at=utc_now(),
        expected="absent, by its tombstone" if deleted else f"{len(target.files)} files", found=told,
        owner=fact.responsible, hint=found.proposal.text if found else "", requirement="R150",
    )  # fmt: skip
    return item, found


def _difference(
    ref: str, run_uid: str, fact: CheckpointRegistered, seen: Look, *, deleted: bool
) -> Finding | None:
    """What differs, if anything does."""
    kind, proposal = _judge(ref, seen, deleted=deleted)
    if kind is None or proposal is None:
        return None
    return Finding(
        kind=kind, ref=ref, location=fact.location, size=seen.bytes_present, run=run_uid, proposal=proposal,
        detail=seen.detail or seen.presence,
    )  # fmt: skip


def _judge(ref: str, seen: Look, *, deleted: bool) -> tuple[FindingKind | None, Proposal | None]:
    if seen.presence == "unreachable":
        return "unreachable", MOUNT
    if deleted:
        return _judge_deleted(seen)
    if seen.begun:
        return "half_deleted", FINISH
    if seen.presence == "changed":
        return "changed", replace(VERIFY, command=f"{VERIFY.command} {ref.partition(':')[2]}")
    if seen.presence == "present":
        return None, None
    return ("missing" if seen.presence == "missing" else "half_deleted"), RESTORE


def _judge_deleted(seen: Look) -> tuple[FindingKind | None, Proposal | None]:
    if seen.presence == "missing":
        return ("journal", FINISH) if seen.begun else (None, None)
    return ("half_deleted", FINISH) if seen.begun else ("came_back", CAME_BACK)


MOUNT = Proposal(
    act="mount",
    command="pretrain-archive retention reconcile",
    text="Make the place reachable (is its disk mounted, may this user read it?) and look again.",
)
VERIFY = Proposal(
    act="verify",
    command="pretrain-archive checkpoint verify",
    text="Read it again to see which files differ; restore them from a copy, or use another checkpoint.",
)
RESTORE = Proposal(
    act="restore",
    command="pretrain-archive retention plan",
    text="Restore it from a copy; or, if it was removed by hand, a plan that lets it go leaves a tombstone that says "
    "so.",
)
CAME_BACK = Proposal(
    act="plan",
    command="pretrain-archive retention plan",
    text="Its tombstone stands and bytes are there: restored, or written anew. Register them to keep them; a plan with "
    "a rule about leftovers lets them go.",
)
FINISH = Proposal(
    act="finish",
    command="pretrain-archive retention apply PLAN",
    text="A removal was cut: run the clean-up's plan again (its journal names it), it is completed from the record.",
)

PROPOSALS: Mapping[str, Proposal] = {
    "unregistered": Proposal(
        act="register",
        command="pretrain-archive checkpoint register",
        text="Register it with its run to keep it; a plan with a rule about leftovers lets it go.",
    ),
    "orphan": Proposal(
        act="plan",
        command="pretrain-archive retention plan",
        text="Nothing names it: a snapshot may be under way, or one failed. Made again, it finds its content; a plan "
        "with a rule about leftovers lets it go once no run is open.",
    ),
    "left_over": Proposal(
        act="plan",
        command="pretrain-archive retention plan",
        text="A plan with a rule about leftovers lets it go.",
    ),
    "missing": Proposal(
        act="restore",
        command="pretrain-archive snapshot verify",
        text="Restore the version's document and manifest from a copy; its content is found again by digest.",
    ),
    "came_back": Proposal(
        act="verify",
        command="pretrain-archive snapshot verify",
        text="Its tombstone stands and its document is there: restored from a copy. See whether it is whole.",
    ),
    "journal": FINISH,
    "unreachable": MOUNT,
}
"""What to do about what no checkpoint's record names."""

MAKE_AGAIN = Proposal(
    act="register",
    command="pretrain-archive snapshot create SRC --name",
    text="Its making ended before its record: made again from its source it finds this version and is recorded.",
)


def _proposal(stray: Stray) -> Proposal:
    made = stray.kind == "unregistered" and stray.ref.startswith("snapshot:")
    return MAKE_AGAIN if made else PROPOSALS[stray.kind]


def _stray_item(stray: Stray) -> Item:
    return Item(
        id=stray.ref, track="data" if stray.ref.startswith(("snapshot:", "content:")) else "artifact",
        verdict=Verdict.CHANGED if stray.blocking else Verdict.UNRECORDED, check=CHECK, checked_at=utc_now(),
        expected=stray.expected, found=stray.found, blocking=stray.blocking,
        hint=_proposal(stray).text, requirement="R152",
    )  # fmt: skip


def _stray_finding(stray: Stray) -> Finding:
    return Finding(
        kind=stray.kind, ref=stray.ref, location=stray.location, size=stray.size, detail=stray.found,
        proposal=stray.proposal(_proposal(stray)),
    )  # fmt: skip
