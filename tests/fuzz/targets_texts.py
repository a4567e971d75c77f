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
from pretrain_archive.compute.kubernetes.waiting import wait_of
from pretrain_archive.data.quality.documents import Fields, read_stream
from pretrain_archive.domain.run_view import RunView  # noqa: F401 - what kinds need is imported before the watch
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
    """A job and a pod as a cluster might answer: any JSON in any place."""
    said = json.loads(raw)
    if not isinstance(said, dict):
        raise ValueError("not an object")  # noqa: TRY004 - what json.loads raises too
    pod = said.get("pod") if isinstance(said.get("pod"), dict) else said
    job = said.get("job") if isinstance(said.get("job"), dict) else said
    member = member_of(pod, attempt=1, at="2026-01-01T00:00:00Z")
    verdict_of(job, [member])
    wait_of(job, [pod], [said], now=NOW, start_limit_seconds=60)


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
    return [json.dumps({"pod": waiting, "job": job}).encode(), json.dumps(waiting).encode()]


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
    Target(name="answers of a cluster", call=cluster, seeds=answers, refuses=(ValueError, RecursionError),
           modules=("pretrain_archive.compute.kubernetes",)),
    Target(name="scan for secrets", call=secrets, seeds=lambda: [b"key = 'AKIAIOSFODNN7EXAMPLE'\n", LINES],
           modules=("pretrain_archive.package.secrets",)),
]  # fmt: skip
