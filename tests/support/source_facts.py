"""Later facts of a source on the main line: withdrawn, read by somebody else, behind a pool."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.main_line import Line

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.identity import Ref, new_id
from pretrain_archive.domain.kinds import SourceRegistered
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Relation
from pretrain_archive.services import data
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.withdrawing import find_source, record_access, withdraw


def dana(task: str = "withdraw") -> Caller:
    """A person at the command line; every call is a step of its own."""
    origin = Origin(dag_id="cli", dag_run_id=new_id("call"), task_id=task)
    return Caller(origin=origin, actor=Actor(type="cli", name="dana"))


def take_back(line: Line, reason: str = "the licence ended") -> None:
    """Withdraw the line's only source."""
    _, done = withdraw(line.ledger, dana(), find_source(line.ledger, "corpus"), reason=reason)
    assert done


def access(line: Line, action: str, identity: str, at: str = "") -> None:
    """Record a later fact of who may read."""
    source = find_source(line.ledger, "corpus")
    record_access(line.ledger, dana(), source, action=action, identity=identity, at=at, reason="")


def launches(line: Line) -> int:
    """How many launch tokens were consumed."""
    return sum(record.kind == "launch.intended" for record in line.view().records)


def refusal(line: Line) -> str:
    """The text with which the next launch is refused."""
    with pytest.raises(RefusedError) as refused:
        line.launch()
    return str(refused.value)


def pool(line: Line, *, stream: str = "source/source_pool", **rights: Any) -> str:
    """A source that another person registered, and a snapshot of the pool made from it; returns the source's id."""
    payload = SourceRegistered.model_validate(
        {
            "source_id": "source_pool", "name": "pool", "uri": "s3://pool/raw", "licence": "contract: 2026/7",
            "obtained": "bought", "authorisation": "contract 2026/7", "usage_scope": ["research"],
            "origin_class": "bought", "owner": "olga", "responsible": "rita", "access_identity": "svc-pool",
        } | rights
    )  # fmt: skip
    pooled = Ref(type="snapshot", id="pool-raw", version="1")
    edge = Edge(
        subject=pooled, relation=Relation.WAS_DERIVED_FROM, object=Ref(type="source", id="source_pool")
    )
    caller = dana("pool")
    line.ledger.append([
        Draft(stream=stream, kind="source.registered", payload=payload.to_json(), actor=caller.actor,
              origin=caller.origin),
        Draft(stream="data/pool", kind="note.added", payload={"topic": "note", "text": "pooled"}, edges=(edge,),
              actor=caller.actor, origin=caller.origin),
    ])  # fmt: skip
    return payload.source_id


def prepare_with_sample(line: Line) -> None:
    """The data steps, with a snapshot of the run in between that was drawn from the pool's."""
    data.register(line.ledger, line.caller("register_source"), line.run_uid)
    sample = kinds.SnapshotCreated(
        name="sample", version=1, manifest_digest="sha256:" + "5" * 64, manifest_uri="file:///none", file_count=1,
        total_bytes=1, parent=None, unchanged=False, mode="reference",
    )  # fmt: skip
    mine, drawn_from = (Ref(type="snapshot", id=name, version="1") for name in ("sample", "pool-raw"))
    caller = line.caller("sample")
    line.ledger.append([
        Draft(
            stream=line.run_uid, kind="snapshot.created", payload=sample.to_json(), actor=caller.actor,
            origin=caller.origin,
            edges=(
                Edge(subject=mine, relation=Relation.WAS_DERIVED_FROM, object=drawn_from),
                Edge(subject=Ref(type="run", id=line.run_uid), relation=Relation.USED, object=mine),
            ),
        )
    ])  # fmt: skip
    data.make_snapshot(line.ledger, line.store, line.caller("snapshot"), line.run_uid)
    data.quality(line.ledger, line.store, line.caller("quality_check"), line.run_uid)


def walk(line: Line) -> None:
    """The whole main line up to the released, closed run."""
    line.to_signed_launch(business_owner="olga", responsible="rita")
    line.launch()
    line.register()
    line.evaluate()
    line.sign("run")
    line.sign("close")
    line.close()
