"""Snapshot, configuration, image, environment or quality changed after the approval: each field by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.bypass.ground import Ground, Try

from pretrain_archive.domain import kinds
from pretrain_archive.domain.records import Draft
from pretrain_archive.domain.source_rights import source_stream

OTHER = "sha256:" + "0" * 64


def _again(
    model: type[kinds.Payload], words: str = "stale approval", **changes: Any
) -> Callable[[Ground], object]:
    """A later record of the same kind says something else."""

    def act(ground: Ground) -> None:
        now = ground.line.view().latest(model)
        assert now is not None
        ground.add(kinds.BY_MODEL[model], now.model_copy(update=changes))
        ground.refused(words)

    return act


def _data(change: Callable[[bytes], bytes], *, which: str = "document") -> Callable[[Ground], object]:
    """Bytes of the snapshot are changed in the store."""

    def act(ground: Ground) -> None:
        changed = 0
        for path in sorted((ground.line.folder / "store").rglob("*")):
            if path.is_file() and which.encode() in (data := path.read_bytes()):
                path.chmod(0o644)
                path.write_bytes(change(data))
                changed += 1
        assert changed
        ground.refused()

    return act


def _gone(pattern: str) -> Callable[[Ground], object]:
    def act(ground: Ground) -> None:
        found = [p for p in sorted((ground.line.folder / "store").rglob(pattern)) if p.is_file()]
        assert found
        found[0].unlink()
        ground.refused()

    return act


def _source(kind: str, words: str, **fact: Any) -> Callable[[Ground], object]:
    """Somebody records something of the source, outside of the run."""

    def act(ground: Ground) -> None:
        source = ground.line.view().latest(kinds.SourceRegistered)
        assert source is not None
        payload = {"source_id": source.source_id, "by": "dana", "at": "2026-11-29T10:00:00Z"} | fact
        caller = ground.line.caller("withdraw")
        ground.line.ledger.append([
            Draft(stream=source_stream(source.source_id), kind=kind, payload=payload, actor=caller.actor,
                  origin=caller.origin)
        ])  # fmt: skip
        ground.refused(words)

    return act


def _variable(ground: Ground) -> None:
    """The worker's environment is another one, and the policy stops at drift: no launch."""
    ground.line.policy = ground.line.policy
    ground.monkeypatch.setenv("OMP_NUM_THREADS", "97")
    environment = ground.line.view().latest(kinds.EnvironmentDeclared)
    assert environment is not None
    text = ground.policy_text().replace('drift = "warn"', 'drift = "stop"')
    ground.set_policy(text)
    ground.refused("changed")


SNAPSHOT, SPLIT, ENVIRONMENT = kinds.SnapshotCreated, kinds.SplitCreated, kinds.EnvironmentDeclared
TRIES = [
    Try("snapshot name", "signed", _again(SNAPSHOT, name="other")),
    Try("snapshot version", "signed", _again(SNAPSHOT, version=2)),
    Try("snapshot version far ahead", "signed", _again(SNAPSHOT, version=77)),
    Try("snapshot manifest", "signed", _again(SNAPSHOT, manifest_digest=OTHER)),
    Try("snapshot file count", "signed", _again(SNAPSHOT, "", file_count=1)),
    Try("split digest", "signed", _again(SPLIT, split_digest=OTHER)),
    Try("split documents", "signed", _again(SPLIT, "", train_documents=1)),
    Try("environment digest", "signed", _again(ENVIRONMENT, environment_digest=OTHER)),
    Try("quality no longer passed", "signed", _again(kinds.QualityReported, "is changed", passed=False)),
    Try("quality of another snapshot", "signed", _again(kinds.QualityReported, "", snapshot="other@1")),
    Try("source's licence", "signed", _again(kinds.SourceRegistered, "", licence="LicenseRef-other")),
    Try("source's scope", "signed", _again(kinds.SourceRegistered, "", usage_scope=["nothing"])),
    Try("source's authorisation", "signed", _again(kinds.SourceRegistered, "", authorisation="")),
    Try("source's right ended", "signed",
        _again(kinds.SourceRegistered, "ended", access_revoked_at="2026-01-01T00:00:00Z")),
    Try("documents edited in the store", "signed", _data(lambda data: data.replace(b"document", b"dokument"))),
    Try("a blank in every document", "signed", _data(lambda data: data.replace(b"document ", b"document_"))),
    Try("documents cut", "signed", _data(lambda data: data[:-1])),
    Try("documents longer", "signed", _data(lambda data: data + b"x")),
    Try("documents emptied", "signed", _data(lambda _: b"")),
    Try("a file of the store gone", "signed", _gone("*")),
    Try("source withdrawn", "signed", _source("source.withdrawn", "was withdrawn", name="corpus", reason="over")),
    Try("right revoked", "signed", _source("source.access", "source_rights", action="revoked", identity="anybody")),
    Try("environment of the worker", "signed", _variable),
]  # fmt: skip
