"""A ledger on SQLite with very many registered checkpoints, filled in bulk; and a plan over it, as a program.

``python million_checkpoints.py plan LEDGER STORE`` prints one JSON line: seconds, peak bytes, counts. The bodies are
those that the real services write; only the inserts go around the port, with the same leaf hashes.
"""

from __future__ import annotations

import json
import resource
import sqlite3
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[2]
sys.path.insert(0, str(HERE))

from tests.support.artifact_run import policies  # noqa: E402
from tests.support.memory import peak_bytes  # noqa: E402

from pretrain_archive.domain.identity import format_time  # noqa: E402
from pretrain_archive.domain.merkle import leaf_hash  # noqa: E402
from pretrain_archive.ledger import beside  # noqa: E402
from pretrain_archive.ledger.canonical import canonical_bytes  # noqa: E402
from pretrain_archive.ledger.factory import open_ledger  # noqa: E402
from pretrain_archive.retention import planning  # noqa: E402
from pretrain_archive.retention.files import Look, Removed, Target  # noqa: E402
from pretrain_archive.storage.files import FileStore  # noqa: E402

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 12, 1, tzinfo=UTC)
EVALUATED = 20
"""Every so many checkpoints one is evaluated."""
_RECORD = "INSERT INTO pretrain_archive_record VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL, ?, ?, ?)"
_COLUMNS = (
    "position, record_id, stream, sequence, kind, attempt, recorded_at, idempotency_key, unique_key, leaf, previous, "
    "stored"
)


@dataclass
class _Place:
    """Every recorded byte is there: the disk of a million checkpoints is no part of the measurement."""

    looks: int = 0

    def handles(self, location: str) -> bool:
        """Every address."""
        return bool(location)

    def look(self, target: Target) -> Look:
        """Present."""
        self.looks += 1
        return Look(presence="present", bytes_present=sum(file.size for file in target.files))

    def remove(self, target: Target, *, plan_digest: str) -> Removed:
        """A plan removes nothing."""
        raise AssertionError(f"{target.ref} {plan_digest}")

    def finish(self, target: Target) -> None:
        """Nothing was begun."""


def _template(kind: str, payload: dict[str, Any], edges: list[dict[str, str]]) -> str:
    """A canonical body in which ``@WORD@`` stands for what differs."""
    body = {
        "format": "pretrain-archive/record/1", "record_id": "rec_@ID@", "stream": "@RUN@", "sequence": 7777777,
        "previous": "0" * 64, "kind": kind, "schema_version": 1, "attempt": 1, "ordinal": 0, "payload": payload,
        "actor": {"type": "task", "name": "register_checkpoints"},
        "origin": {
            "dag_id": "pretraining_reference", "dag_run_id": "manual__2026-11-29T10:00:00+00:00",
            "task_id": "register_checkpoints", "map_index": -1, "try_number": 1,
        },
        "recorded_at": "@TIME@", "edges": edges, "unique": "",
    }  # fmt: skip
    return canonical_bytes(body).decode()


def _checkpoint() -> str:
    this, digest = "checkpoint:ckpt_@ID@", "sha256:" + "d" * 64
    files = [{"path": "model.safetensors", "size": 4_000_000_000, "sha256": "a" * 64},
             {"path": "optimizer.safetensors", "size": 8_000_000_000, "sha256": "b" * 64},
             {"path": "state.json", "size": 1000, "sha256": "c" * 64}]  # fmt: skip
    payload = {
        "checkpoint_id": "ckpt_@ID@", "step": 8888888, "tokens": 9999999, "attempt": 1,
        "location": "file:///archive/@RUN@/checkpoints/step_@STEP@", "format": "safetensors",
        "digest": "sha256:@DIGEST@",
        "files": files, "components": {"weights": 4_000_000_000, "optimizer": 8_000_000_000, "data_state": 1000},
        "tensors": 300, "tensors_digest": digest, "snapshot": "stdlib@1", "configuration_digest": digest,
        "data_position": {"document": 1, "epoch": 0}, "responsible": "alice", "artifact_class": "recovery",
        "purpose": "recovery",
    }  # fmt: skip
    edges = [{"subject": this, "relation": relation, "object": object_} for relation, object_ in (
        ("was_generated_by", "run:@RUN@"), ("was_derived_from", "snapshot:stdlib@1"),
        ("used", f"configuration:{digest}"), ("was_attributed_to", "person:alice"))]  # fmt: skip
    return _template("checkpoint.registered", payload, edges)


def _evaluation() -> str:
    payload = {
        "evaluation_id": "eval_@ID@", "checkpoint_id": "ckpt_@ID@", "checkpoint_digest": "sha256:@DIGEST@",
        "data_set": "validation", "data_set_digest": "sha256:" + "e" * 64, "definition": {"metric": "loss"},
        "definition_digest": "sha256:" + "f" * 64, "baselines": [], "flags": [], "passed": True, "rules": [],
        "metrics": [{"name": "loss", "unit": "nats", "direction": "lower", "value": 0.75, "not_finite": ""}],
        "report_uri": "file:///x", "report_digest": "sha256:" + "e" * 64,
    }  # fmt: skip
    edges = [{"subject": "evaluation:eval_@ID@", "relation": "used", "object": "checkpoint:ckpt_@ID@"}]
    return _template("evaluation.reported", payload, edges)


def _rows(count: int, runs: int) -> Iterator[tuple[str, str, str, str, str]]:
    """Kind, stream, id, time and body of each record, in the order of the log."""
    opened = _template("run.opened", {
        "run_uid": "@RUN@", "project": "demo", "dag_id": "pretraining_reference", "dag_run_id": "manual__1",
        "submitter": "alice", "purpose": {}, "people": {}, "policy_digest": "sha256:" + "d" * 64,
        "policy_name": "demo.toml", "conf": {}, "conf_digest": "sha256:" + "d" * 64, "derived_from": None,
    }, [])  # fmt: skip
    closed = _template("run.closed", {"outcome": "register", "reason": "done"}, [])
    checkpoint, evaluation = _checkpoint(), _evaluation()
    each, number, moment = count // runs, 0, FIRST
    for run in range(runs):
        uid = f"run_019a0000-0000-7000-8000-{run:012d}"
        steps: list[tuple[str, str]] = [("run.opened", opened)]
        for step in range(each):
            steps.append(("checkpoint.registered", checkpoint))
            if step % EVALUATED == 0:
                steps.append(("evaluation.reported", evaluation))
        steps.append(("run.closed", closed))
        step = 0
        for kind, body in steps:
            step += kind == "checkpoint.registered"
            number += 1
            moment += timedelta(seconds=20)
            at, name = format_time(moment), f"{run:012d}{step:020d}"
            made = body.replace("@RUN@", uid).replace("@ID@", name).replace("@TIME@", at)
            made = made.replace("8888888", str(step * 100), 1).replace("@STEP@", str(step * 100))
            made = made.replace("@DIGEST@", f"{number:064x}").replace("0.75", f"{1 + 1 / (step + 1):.6f}")
            yield kind, uid, f"{name}-{number}", at, made


def fill(path: Path, *, count: int, runs: int) -> None:
    """A migrated ledger with ``count`` checkpoints in ``runs`` closed runs of one project."""
    open_ledger(f"sqlite:///{path}", signing_key=None, anchors=(), create=True)
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode=OFF").fetchall()
    database.execute("PRAGMA synchronous=OFF")
    database.execute("PRAGMA cache_size=-200000")
    database.execute("BEGIN")
    records: list[tuple[Any, ...]] = []
    edges: list[tuple[Any, ...]] = []
    insert = _RECORD.replace("_record ", f"_record ({_COLUMNS}) ")
    edge = "INSERT INTO pretrain_archive_edge VALUES (?, 0, ?, 'used', ?, ?)"
    for position, (kind, uid, name, at, body) in enumerate(_rows(count, runs)):
        stored = body.encode()
        key = position.to_bytes(32, "big")
        records.append(
            (position, name, uid, position, kind, 1, at, key, leaf_hash(stored), b"\0" * 32, stored)
        )
        if kind == "evaluation.reported":
            id_ = name.partition("-")[0]
            edges.append((position, f"evaluation:eval_{id_}", f"checkpoint:ckpt_{id_}", at))
        if len(records) >= 10_000:
            database.executemany(insert, records)
            records.clear()
    database.executemany(insert, records)
    database.executemany(edge, edges)
    database.execute("COMMIT")
    database.close()


def plan(path: Path, store: Path) -> dict[str, Any]:
    """Make the plan and measure it."""
    place = _Place()
    ledger = open_ledger(f"sqlite:///{path}", signing_key=None, anchors=())
    rules = policies(keep_last=3, age=1)
    reading, observe = [0.0], planning.observe

    def timed(*words: Any, **named: Any) -> Any:
        begun = time.process_time()
        world = observe(*words, **named)
        reading[0] = time.process_time() - begun
        return world

    planning.observe = timed
    start, used = time.perf_counter(), time.process_time()
    made = planning.make_plan(ledger, rules, places=(place,), store=FileStore(store), now=NOW)
    seconds, cpu = time.perf_counter() - start, time.process_time() - used
    helped = resource.getrusage(resource.RUSAGE_CHILDREN)
    project = (made.summary or {})["projects"]["demo"]
    return {
        "seconds": seconds, "cpu": cpu, "peak": peak_bytes(), "items": made.item_count, "actions": project["actions"],
        "reading_cpu": reading[0],
        "helpers_cpu": helped.ru_utime + helped.ru_stime, "helpers_peak": beside.helpers() * helped.ru_maxrss * 1024,
        "bytes": made.total_bytes, "inline": len(made.items), "digest": made.items_digest, "looks": place.looks,
    }  # fmt: skip


def peer(path: Path) -> dict[str, Any]:
    """What cannot be avoided: every body read from the same file, its leaf hashed, its JSON parsed by the library."""
    start, used, count = time.perf_counter(), time.process_time(), 0
    database = sqlite3.connect(path)
    for stored, leaf in database.execute(
        "SELECT stored, leaf FROM pretrain_archive_record ORDER BY position"
    ):
        assert leaf_hash(stored) == leaf
        count += "payload" in json.loads(stored)
    return {"seconds": time.perf_counter() - start, "cpu": time.process_time() - used, "records": count}


if __name__ == "__main__":
    if sys.argv[1] == "plan":
        sys.stdout.write(json.dumps(plan(Path(sys.argv[2]), Path(sys.argv[3]))))
    elif sys.argv[1] == "peer":
        sys.stdout.write(json.dumps(peer(Path(sys.argv[2]))))
    else:
        fill(Path(sys.argv[2]), count=int(sys.argv[3]), runs=int(sys.argv[4]))
