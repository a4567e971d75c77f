"""A run that cannot go on: what a new run in its place is asked for, and what of the old one may be removed (R196).

Nothing is triggered and nothing is deleted here. The new run has its own data, gates and launches; it names the old
one as what it is derived from. The old one's files go through the retention plan, with approval and tombstones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pretrain_archive.artifacts.location import to_path
from pretrain_archive.artifacts.registration import current
from pretrain_archive.artifacts.verification import search_verified
from pretrain_archive.compute.leftovers import processes_of
from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import ArchiveError, RefusedError
from pretrain_archive.domain.gates import recorded_policy
from pretrain_archive.domain.request import check_against_policy, read_request
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.permit import open_attempt

NEEDED = frozenset({"candidate", "evaluation"})


@dataclass(frozen=True, kw_only=True)
class Resubmission:
    """The values of the trigger form for a new run, and what is left of the old one.

    ``removable`` are ``{what, path, reason}``; ``kept`` the same for what stays.
    """

    run_uid: str
    conf: Mapping[str, Any]
    resume_step: int | None
    removable: tuple[Mapping[str, str], ...]
    kept: tuple[Mapping[str, str], ...]

    def to_dict(self) -> dict[str, Any]:
        """The resubmission as plain JSON."""
        return {
            "run_uid": self.run_uid,
            "conf": dict(self.conf),
            "resume_step": self.resume_step,
            "removable": [dict(item) for item in self.removable],
            "kept": [dict(item) for item in self.kept],
        }


def resubmission_of(
    view: RunView, runs_folder: Path, changes: Mapping[str, Any] | None = None
) -> Resubmission:
    """What a new run in place of ``view`` is asked for; :class:`RefusedError` with every reason against it.

    ``changes`` replace values of the old form. ``resume_step`` is where the old run could still go on from: with a
    verified checkpoint a resume costs less than a new run.
    """
    faults = _faults(view)
    opened = view.opened
    if faults or opened is None:
        raise RefusedError(
            f"run {view.run_uid} is not resubmitted", reasons=tuple(faults),
            hint="Mend what is named first; nothing was triggered and nothing was removed.",
        )  # fmt: skip
    conf = {**opened.conf, **(changes or {}), "derived_from": view.run_uid}
    _require_readable(view, conf)
    found = search_verified(view).found
    removable, kept = _files(view, runs_folder)
    return Resubmission(
        run_uid=view.run_uid, conf=conf, resume_step=found[0].step if found else None,
        removable=tuple(removable), kept=tuple(kept),
    )  # fmt: skip


def _faults(view: RunView) -> list[str]:
    if view.opened is None:
        return [f"run {view.run_uid} is not in the ledger"]
    faults = []
    if not view.opened.policy:
        faults.append("its request could not be read: there is nothing to ask for again")
    intent = open_attempt(view)
    if intent is not None:
        alive = processes_of(view.run_uid, intent.attempt)
        what = f"{len(alive)} of its processes live here" if alive else "its end is not recorded yet"
        faults.append(
            f"attempt {intent.attempt} may be running: {what}; stop its task, or clear it to have it closed"
        )
    if any(end.state == "completed" for _, end in view.all(kinds.AttemptEnded)):
        faults.append(
            "an attempt completed: its result is to be judged at the run gate, not to be made again"
        )
    if view.state == "closed" and view.latest(kinds.ReleaseMade) is not None:
        faults.append("the run is closed with a release: withdraw the release, or trigger a run of your own")
    return faults


def _require_readable(view: RunView, conf: Mapping[str, Any]) -> None:
    """The new form must be one that opens a run: better refused here than in a failed task."""
    try:
        request = read_request(conf)
        check_against_policy(request, recorded_policy(view))
    except ArchiveError as error:
        raise RefusedError(
            f"run {view.run_uid} is not resubmitted", reasons=(error.message,), hint=error.hint
        ) from error


def _files(view: RunView, runs_folder: Path) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """What lies around of the run: may it go, and why."""
    gone = {stone.ref.partition(":")[2] for _, stone in view.all(kinds.TombstoneWritten) if not stone.parts}
    removable, kept = [], []
    closed = view.state == "closed"
    for checkpoint in current(view).values():
        path = to_path(checkpoint.location)
        if checkpoint.checkpoint_id in gone or path is None or not path.exists():
            continue
        entry = {"what": f"checkpoint of step {checkpoint.step}", "path": str(path)}
        if checkpoint.artifact_class in NEEDED:
            kept.append(entry | {"reason": f"it serves as {checkpoint.artifact_class}"})
        elif not closed:
            kept.append(entry | {"reason": "the run is open: reject it at its gate first"})
        else:
            removable.append(entry | {"reason": "by retention plan, with approval and a tombstone"})
    data = runs_folder / view.run_uid / "data"
    if data.is_dir():
        removable.append(
            {"what": "laid out data", "path": str(data), "reason": "a copy of what the store holds"}
        )
    kept += [
        {"what": "evidence of an attempt", "path": str(folder), "reason": "its log is named in the ledger"}
        for folder in sorted((runs_folder / view.run_uid).glob("attempt-*"))
    ]
    return removable, kept
