"""The few words beside a record on the timeline, in both languages."""

from __future__ import annotations

from typing import Any

import pytest

from pretrain_archive.domain.records import Actor, Origin, Record
from pretrain_archive.web.about import LONGEST, about


def record(kind: str, **payload: Any) -> Record:
    """A record with this payload."""
    return Record(
        record_id="rec_1", position=0, stream="run_1", sequence=0, previous="", kind=kind, schema_version=1, attempt=0,
        ordinal=0, payload=payload, actor=Actor(type="task", name="t"), recorded_at="2026-11-29T12:00:00.000000Z",
        origin=Origin(dag_id="d", dag_run_id="r", task_id="t"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "payload", "en", "zh"),
    [
        pytest.param(
            "processing.applied",
            {"rule": {"kind": "filter", "name": "short", "version": 2}, "documents_in": 1200, "documents_out": 900},
            "filter by short v2: 900 of 1,200 documents kept",
            "按 short v2（filter）：1,200 个文档中保留 900 个",
            id="a step of processing",
        ),
        pytest.param(
            "split.created",
            {"train_documents": 436, "validation_documents": 19},
            "436 documents for training, 19 held out",
            "训练 436 个文档，留出 19 个",
            id="a split",
        ),
        pytest.param(
            "source.access",
            {"action": "revoked", "identity": "svc-reader"},
            "revoked: svc-reader",
            "已撤销：svc-reader",
            id="a right that was taken back",
        ),
        pytest.param("labels.refused", {"cause": "timed_out"}, "too late", "已超时", id="a refusal"),
        pytest.param(
            "labels.reviewed",
            {"agreement": 0.9583, "answers": 24},
            "95.8 % agreement in 24 answers",
            "24 个答复，一致率 95.8%",
            id="a review",
        ),
        pytest.param(
            "human_evaluation.reported",
            {"scored": 7, "flags": ["agreement_below: 0.2, at least 0.5 is wanted"]},
            "7 items scored: reviewers agree too little",
            "7 项已评分：评审人一致性不足",
            id="outputs read by persons",
        ),
        pytest.param(
            "human_evaluation.reported", {"scored": 7, "flags": []}, "7 items scored, nothing speaks against it",
            "7 项已评分，无异议", id="outputs without an objection",
        ),
        pytest.param("human_evaluation.sampled", {"items": [{}]}, "1 items", "1 项", id="outputs sampled"),
        pytest.param("quality.reported", {"passed": False}, "not passed", "未通过", id="quality"),
        pytest.param("snapshot.created", {"name": "a", "version": 3}, "a@3", "a@3", id="a snapshot"),
    ],
)  # fmt: skip
def test_what_a_record_is_about(kind: str, payload: dict[str, Any], en: str, zh: str) -> None:
    """Counts, names and reasons stand beside the kind."""
    said = about(record(kind, **payload))

    assert (en, zh) == (said.en, said.zh)


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        pytest.param("processing.applied", {"rule": None}, id="a field of another shape"),
        pytest.param("snapshot.created", {}, id="a field is missing"),
        pytest.param("kind.of.a.later.release", {"name": "x"}, id="an unknown kind"),
    ],
)
def test_what_cannot_be_read_is_left_out(kind: str, payload: dict[str, Any]) -> None:
    """The timeline stands also with records of another release."""
    assert "" == about(record(kind, **payload)).en


def test_a_long_reason_is_cut() -> None:
    """The record's page shows all of it."""
    said = about(record("source.withdrawn", reason="x" * 500)).en

    assert (LONGEST, "…") == (len(said), said[-1])
