"""The ledger's facts about artifacts, gathered record by record: what is registered, chosen, named, held, deleted.

A million checkpoints fit: one row each, and the rest only where there is something to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from pretrain_archive.retention import running
from pretrain_archive.retention.naming import NamedByRuns, mentions
from pretrain_archive.retention.registered import Registrations
from pretrain_archive.retention.running import RunNow

KINDS = (
    *running.KINDS, "checkpoint.registered", "checkpoint.classified", "evaluation.started", "evaluation.failed",
    "evaluation.finished", "evaluation.reported", "candidate.named", "release.made", "release.exported",
    "configuration.declared", "tombstone.written", "hold.placed", "hold.released",
)  # fmt: skip
"""The kinds that can make something live or dead."""

Body = Mapping[str, Any]


class Facts:
    """Fed by :meth:`take` with records by position and by :meth:`link` with edges; then asked.

    ``checkpoints`` and ``tombstones`` are by reference; a checkpoint of which parts went is in ``checkpoints`` with its
    ``gone_parts``. ``users`` maps a reference to what has an edge to it and the stream that says so. ``measured`` maps
    an evaluation to the live candidate or release that it decided. ``held`` maps a name to its holds. Of a checkpoint
    that is not in ``special`` nothing is known but its registration and its run.
    """

    def __init__(self) -> None:
        self.position, self.newest = -1, ""
        self.runs: dict[str, RunNow] = {}
        self.checkpoints = Registrations()
        self.tombstones: dict[str, int] = {}
        self.users: dict[str, set[tuple[str, str]]] = {}
        self.at_location: dict[str, str] = {}
        self.candidates: dict[str, Body] = {}
        self.of_checkpoint: dict[str, set[str]] = {}
        self.of_run: dict[str, set[str]] = {}
        self.released: dict[str, str] = {}
        self.exported: dict[str, str] = {}
        self.measured: dict[str, str] = {}
        self.special: set[str] = set()
        self.evaluated: set[str] = set()
        self.classified: set[str] = set()
        self.leases: dict[str, dict[str, str]] = {}
        self.approved: dict[str, str] = {}
        self.held: dict[str, dict[str, str]] = {}
        self._asked: dict[str, frozenset[str]] = {}
        self.named = NamedByRuns()
        self._children: dict[str, set[str]] = {}
        self._digests: dict[str, set[str]] | None = None
        self._take: dict[str, Callable[[int, Body, Body], None]] = {
            "checkpoint.registered": self._checkpoint, "checkpoint.classified": self._classified,
            "evaluation.started": self._lease, "evaluation.failed": self._unlease,
            "evaluation.finished": self._unlease, "evaluation.reported": self._evaluated,
            "candidate.named": self._candidate, "release.made": self._release,
            "release.exported": self._exported, "configuration.declared": self._configured,
            "tombstone.written": self._tombstone, "hold.placed": self._hold, "hold.released": self._unhold,
        }  # fmt: skip

    def take(self, position: int, body: Body) -> None:
        """One more record, as :meth:`~pretrain_archive.domain.records.Record.body` gives it."""
        kind, payload = body["kind"], body["payload"]
        self.position = max(self.position, position)
        self.newest = max(self.newest, body["recorded_at"])
        special = self._take.get(kind)
        if special is not None:
            special(position, body, payload)
        else:
            self._run_record(body, payload)

    def link(self, subject: str, object_: str, stream: str) -> None:
        """One more edge that ends at a checkpoint."""
        self.special.add(object_)
        users = self.users.get(object_)
        if users is None:
            self.users[object_] = {(subject, stream)}
        else:
            users.add((subject, stream))

    def run(self, uid: str) -> RunNow:
        """The run as it stands; an unknown one is unrecorded, which is not closed."""
        return self.runs.get(uid) or RunNow(uid=uid)

    def live_refs(self) -> Iterator[str]:
        """Every registered checkpoint without a tombstone over its whole."""
        return (ref for ref in self.checkpoints if ref not in self.tombstones)

    def is_quiet(self, uid: str) -> bool:
        """Whether nothing about a run needs its checkpoints, and nothing in general that names them otherwise."""
        run = self.run(uid)
        if (
            not run.closed
            or not run.opened
            or run.jobs
            or run.attempts
            or self.named
            or self.held
            or self._asked
        ):
            return False
        return not any(self.open_children(uid))

    def replaced_by(self, ref: str) -> str | None:
        """The later checkpoint at the same location, or None."""
        holder = self.at_location.get(self.checkpoints[ref].location, ref)
        return None if holder == ref else holder

    def selected(self, ref: str) -> list[str]:
        """Kept candidates and releases whose source it is, candidates first."""
        found: list[str] = []
        for candidate_id in sorted(self.of_checkpoint.get(ref.partition(":")[2], ())):
            found += [f"candidate:{candidate_id}"] if self.candidates[candidate_id]["kept"] else []
            found += [f"release:{self.released[candidate_id]}"] if candidate_id in self.released else []
        found.sort()
        return [name + self.exported.get(name, "") for name in found]

    def effective_class(self, ref: str) -> str:
        """The highest of release, candidate, evaluation and its own class; a late classification is not raised."""
        subject = self.checkpoints[ref]
        names = self.of_checkpoint.get(ref.partition(":")[2], ())
        if any(name in self.released for name in names):
            return "release"
        if any(self.candidates[name]["kept"] for name in names):
            return "candidate"
        if subject.artifact_class == "recovery" and ref in self.evaluated and ref not in self.classified:
            return "evaluation"
        return subject.artifact_class

    def named_by(self, ref: str, uid: str) -> Iterator[str]:
        """Other runs that name it as where they begin or go on from."""
        if self.named:
            subject = self.checkpoints[ref]
            names = (ref, ref.partition(":")[2], subject.location, subject.digest)
            yield from (f"run:{user}" for user in self.named.users(names) if user != uid)

    def open_children(self, uid: str) -> Iterator[str]:
        """Runs that derive from ``uid`` and are not closed: they may still need its checkpoints."""
        yield from (f"run:{child}" for child in self._children.get(uid, ()) if not self.run(child).closed)

    def asked_by(self, ref: str) -> str | None:
        """A run whose open gate mentions it, or None."""
        name = ref.partition(":")[2]
        for uid, mentioned in self._asked.items():
            if name in mentioned and self.run(uid).state.startswith("waiting_"):
                return uid
        return None

    def choices_of(self, uid: str) -> str | None:
        """A kept candidate or a release of the run, or None."""
        for candidate_id in self.of_run.get(uid, ()):
            if self.candidates[candidate_id]["kept"] or candidate_id in self.released:
                release = self.released.get(candidate_id)
                return f"release:{release}" if release else f"candidate:{candidate_id}"
        return None

    def _run_record(self, body: Body, payload: Body) -> None:
        uid, kind = body["stream"], body["kind"]
        run = self.runs.get(uid)
        if run is None:
            run = self.runs[uid] = RunNow(uid=uid)
        run.take(kind, payload, body["recorded_at"])
        if kind == "gate.dossier":
            self._asked[uid] = frozenset(mentions(payload))
        elif kind == "gate.decision":
            asked = self._asked.pop(uid, frozenset())
            if running.registers(payload):
                self.approved.update((name, run.decisions[-1][0]) for name in asked)
                self.special.update(f"checkpoint:{name}" for name in asked)
        elif kind == "gate.expired":
            self._asked.pop(uid, None)
        elif kind == "attempt.started":
            self.named.add(payload.get("resume_from"), uid)
        elif kind == "run.opened" and run.derived_from:
            self._children.setdefault(run.derived_from, set()).add(uid)

    def _checkpoint(self, position: int, body: Body, payload: Body) -> None:
        ref, stream = "checkpoint:" + payload["checkpoint_id"], body["stream"]
        run = self.runs.get(stream)
        uid, project = (run.uid, run.project) if run else (stream, "")
        self.checkpoints.register(ref, uid, project, position, body)
        self.at_location[payload["location"]] = ref

    def _change(self, checkpoint_id: str, **changes: Any) -> None:
        ref = f"checkpoint:{checkpoint_id}"
        self.special.add(ref)
        if ref in self.checkpoints:
            self.checkpoints[ref] = replace(self.checkpoints[ref], **changes)

    def _classified(self, position: int, body: Body, payload: Body) -> None:
        del position, body
        self.classified.add("checkpoint:" + payload["checkpoint_id"])
        self._change(
            payload["checkpoint_id"], artifact_class=payload["artifact_class"], purpose=payload["purpose"]
        )

    def _lease(self, position: int, body: Body, payload: Body) -> None:
        del position
        self.leases.setdefault(payload["checkpoint_id"], {})[payload["try_id"]] = payload["lease_until"]
        self._change(payload["checkpoint_id"], last_used_at=body["recorded_at"])

    def _unlease(self, position: int, body: Body, payload: Body) -> None:
        del position, body
        self.leases.get(payload["checkpoint_id"], {}).pop(payload["try_id"], None)

    def _evaluated(self, position: int, body: Body, payload: Body) -> None:
        del position
        values = {m["name"]: m["value"] for m in payload["metrics"] if m["value"] is not None}
        self.evaluated.add("checkpoint:" + payload["checkpoint_id"])
        if payload.get("imported") or payload.get("program"):  # they decide nothing, so neither what is best
            self._change(payload["checkpoint_id"], last_used_at=body["recorded_at"])
            return
        self._change(
            payload["checkpoint_id"], metrics=values, metrics_of=str(payload["definition_digest"]),
            last_used_at=body["recorded_at"],
        )  # fmt: skip

    def _candidate(self, position: int, body: Body, payload: Body) -> None:
        del position
        name = payload["candidate_id"]
        self.candidates[name] = {
            "checkpoint": payload["checkpoint_id"], "evaluation": payload["evaluation_id"],
            "kept": bool(payload["kept"]), "run": body["stream"],
        }  # fmt: skip
        self.of_checkpoint.setdefault(payload["checkpoint_id"], set()).add(name)
        self.of_run.setdefault(body["stream"], set()).add(name)
        self.special.add("checkpoint:" + payload["checkpoint_id"])
        measured = f"evaluation:{payload['evaluation_id']}"
        if payload["kept"]:
            self.measured[measured] = f"candidate:{name}"
        elif self.measured.get(measured) == f"candidate:{name}":
            del self.measured[measured]

    def _release(self, position: int, body: Body, payload: Body) -> None:
        del position, body
        self.released[payload["candidate_id"]] = payload["release_id"]
        candidate = self.candidates.get(payload["candidate_id"])
        if candidate is not None:
            self.measured[f"evaluation:{candidate['evaluation']}"] = f"release:{payload['release_id']}"

    def _exported(self, position: int, body: Body, payload: Body) -> None:
        del position, body
        where = f" (in {payload['registry']} as {payload['name']} {payload['version']})"
        self.exported[f"release:{payload['release_id']}"] = where

    def _configured(self, position: int, body: Body, payload: Body) -> None:
        del position
        self.named.add(payload.get("base_model"), body["stream"])

    def _tombstone(self, position: int, body: Body, payload: Body) -> None:
        del body
        ref, parts = str(payload["ref"]), tuple(payload.get("parts") or ())
        if not parts:
            self.tombstones[ref] = position
            subject = self.checkpoints.get(ref)
            if subject is not None and self.at_location.get(subject.location) == ref:
                del self.at_location[subject.location]
        elif ref in self.checkpoints:
            gone = {*self.checkpoints[ref].gone_parts, *parts}
            self._change(ref.partition(":")[2], gone_parts=tuple(sorted(gone)))

    def _hold(self, position: int, body: Body, payload: Body) -> None:
        del position, body
        why = f"{payload['reason']} ({payload['placed_by']})"
        self.held.setdefault(payload["target"], {})[payload["hold_id"]] = why

    def _unhold(self, position: int, body: Body, payload: Body) -> None:
        del position, body
        for holds in self.held.values():
            holds.pop(payload["hold_id"], None)
