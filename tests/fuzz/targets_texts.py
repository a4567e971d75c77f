"""What training programs, data sets and clusters give: event files, shards of data, answers of a cluster."""

from __future__ import annotations

import gzip
import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard
from tests.fuzz.target import Target

from pretrain_archive.compute.events import Place, read_event, read_lines
from pretrain_archive.compute.kubernetes.exits import member_of, verdict_of
from pretrain_archive.compute.kubernetes.follow_news import members_digest
from pretrain_archive.compute.kubernetes.launch_compare import edits
from pretrain_archive.compute.kubernetes.launch_facts import allocated_at
from pretrain_archive.compute.kubernetes.sound import sound
from pretrain_archive.compute.kubernetes.waiting import wait_of
from pretrain_archive.data.quality.documents import Fields, read_stream
from pretrain_archive.domain.run_view import RunView  # noqa: F401 - what kinds need is imported before the watch
from pretrain_archive.ledger.canonical import canonical_bytes
from pretrain_archive.package.secrets import scan

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def events(raw: bytes, folder: Path) -> None:
    """An event file, read in two goes as it grows."""
    path, half = folder / "events.jsonl", len(raw) // 2
    path.write_bytes(raw[:half])
    lines, place = read_lines(path, Place())
    path.write_bytes(raw)
    more, _ = read_lines(path, place, final=True)
    for line in [*lines, *more]:
        for found in read_event(line, attempt=1):
            repr(found)


def event_files() -> list[bytes]:
    """Each kind of event once."""
    said: list[dict[str, Any]] = [
        {
            "event": "metric",
            "step": 1,
            "name": "loss",
            "value": 2.5,
            "tokens": 10,
            "at": "2026-01-01T00:00:00Z",
        },
        {"event": "checkpoint", "step": 2, "path": "/c/2", "seconds": 0.5},
        {
            "event": "data_read",
            "step": 1,
            "reads": 4,
            "errors": 1,
            "empty": 0,
            "problem": "digest",
            "shard": "a",
        },
        {"event": "note", "text": "done", "complete": True},
    ]
    lines = b"".join(json.dumps(one).encode() + b"\n" for one in said)
    return [lines, b'{"event": "metric", "step": 3, "name": "loss", "value": NaN}\n', b"\xff\n"]


def shard(name: str) -> Any:
    """A reader of one kind of data file."""

    def read(raw: bytes) -> None:
        for unit in read_stream(name, io.BytesIO(raw), fields=Fields()):
            repr(unit)[:100]

    return read


def table() -> bytes:
    """A Parquet file of two documents."""
    file = io.BytesIO()
    pq.write_table(pa.table({"text": ["one", "two"], "label": ["a", "b"]}), file)
    return file.getvalue()


LINES = b'{"text": "one", "label": "a"}\n{"text": "two"}\n'
SHARDS = {
    "a.jsonl": [LINES, b"[1]\n{", b'{"text": "\\ud800"}\n'],
    "a.csv": [b'text,label\none,a\n"two\nlines",b\n', b"text;label\r\none;a\r\n"],
    "a.txt": [b"one\ntwo\n", "二\n".encode(), b"\xff\xfe"],
    "a.jsonl.gz": [gzip.compress(LINES, mtime=0), gzip.compress(LINES, mtime=0) * 2],
    "a.jsonl.zst": [zstandard.compress(LINES), zstandard.compress(LINES) * 2],
    "a.parquet": [table()],
}


def cluster(raw: bytes) -> None:
    """A job, a pod and an event as a cluster might answer, any JSON in any place, read as a visit reads them."""
    try:
        said = json.loads(raw)
    except (ValueError, RecursionError):
        return
    if not isinstance(said, dict):
        return
    pod, job, event, workload = (
        sound(said[name] if isinstance(said.get(name), dict) else said)
        for name in ("pod", "job", "event", "workload")
    )
    member = member_of(pod, attempt=1, at="2026-01-01T00:00:00Z")
    allocated = allocated_at(pod)
    canonical_bytes({**member.to_json(), "allocated_at": allocated})
    plain_text(verdict_of(job, [member]).reason)
    members_digest({"p": pod})
    for held in (job, {**job, "spec": {**(job.get("spec") or {}), "suspend": True}}):
        wait = wait_of(held, [pod], [event], workload, now=NOW, start_limit_seconds=60, position=workload)
        if wait is not None:
            canonical_bytes({"message": wait.message, "object": wait.object, "details": wait.details})
    for text in edits({}, job):
        plain_text(text)


def plain_text(text: str) -> None:
    """What goes into a record is text that can be encoded."""
    canonical_bytes(text)


def answers() -> list[bytes]:
    """A pod that waits, one that was killed, and a job that failed."""
    waiting = {
        "metadata": {"name": "p", "uid": "u", "annotations": {"batch.kubernetes.io/job-completion-index": "0"}},
        "spec": {"nodeName": "n"},
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                            "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."}],
            "containerStatuses": [{"name": "m", "restartCount": 1, "imageID": "x@sha256:1",
                                   "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}],
        },
    }  # fmt: skip
    job = {
        "metadata": {"name": "j", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"completions": 1, "parallelism": 1, "suspend": False},
        "status": {"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]},
    }
    queued = {
        "metadata": {"name": "w"}, "spec": {"queueName": "q", "active": True}, "positionInClusterQueue": 3,
        "status": {"conditions": [{"type": "QuotaReserved", "status": "False", "message": "insufficient quota"}],
                   "admissionChecks": [{"name": "c", "state": "Rejected", "message": "no"}]},
    }  # fmt: skip
    event = {
        "involvedObject": {"kind": "Job", "name": "j", "uid": "u"}, "reason": "FailedCreate", "count": 2,
        "message": "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0",
        "lastTimestamp": "2026-01-01T00:00:01Z",
    }  # fmt: skip
    ascend = "ascend.kubectl.kubernetes.io/ascend-910-configuration"
    given = {
        **waiting,
        "metadata": {"name": "p", "annotations": {ascend: '{"devices": [{"device_id": "0"}]}'}},
    }
    going = {**job, "status": {}}
    return [
        json.dumps({"pod": waiting, "job": job}).encode(),
        json.dumps(waiting).encode(),
        json.dumps({"pod": given, "job": going, "event": event, "workload": queued}).encode(),
    ]


def secrets(raw: bytes) -> None:
    """The scan for secrets, over anything that goes into a package."""
    for found in scan("evidence/x", raw):
        repr(found)


QUALITY = "pretrain_archive.data.quality."
TEXTS = [
    Target(name="event file", call=events, seeds=event_files, scratch=True,
           modules=("pretrain_archive.compute.events",)),
    *(
        Target(name=f"data file {name}", call=shard(name), seeds=lambda seeds=seeds: seeds,
               modules=(QUALITY + "documents", QUALITY + "readers"))
        for name, seeds in SHARDS.items()
    ),
    Target(name="answers of a cluster", call=cluster, seeds=answers, refuses=(),
           modules=("pretrain_archive.compute.kubernetes",)),
    Target(name="scan for secrets", call=secrets, seeds=lambda: [b"key = 'AKIAIOSFODNN7EXAMPLE'\n", LINES],
           modules=("pretrain_archive.package.secrets",)),
]  # fmt: skip
