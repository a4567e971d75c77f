"""A run whose policy asks persons to read outputs, and what tests ask of it: fast, on a seeded run or a real line."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from tests.unit.gates.asked_run import CONF, POLICY_FILE, AskedRun, without_steps

from pretrain_archive.domain import kinds
from pretrain_archive.domain.checklists import checklist
from pretrain_archive.domain.gates import recorded_policy
from pretrain_archive.domain.identity import format_time
from pretrain_archive.domain.policy import LoadedPolicy, parse_policy
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item
from pretrain_archive.gates.judging import Answer
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services import human_evaluating as human
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.human_files import samples_key
from pretrain_archive.services.human_form import items_of, page_digest
from pretrain_archive.storage.port import ObjectStore

STANDARD = '[human_evaluation.standard]\nen = "Judge content only."\nzh = "仅评判内容。"\n'
SINGLE = STANDARD + "".join(
    f'\n[[human_evaluation.scale]]\nlabel = "{value}"\nvalue = {value}\nen = "{en}"\nzh = "{zh}"\n'
    for value, en, zh in ((3, "right", "正确"), (2, "half right", "部分正确"), (1, "wrong", "错误"))
)
PAIRS = STANDARD + "".join(
    f'\n[[human_evaluation.scale]]\nlabel = "{en}"\nen = "{en}"\nzh = "{zh}"\n'
    for en, zh in (("better", "更好"), ("same", "相同"), ("worse", "更差"))
)
ITEMS: list[dict[str, Any]] = [
    {
        "id": f"q{number}", "prompt": f"Say the number {number}", "output": f"It is {number}.",
        "baseline": f"Number {number}" if number else "It is 0.", "baseline_name": "untrained",
    }
    for number in range(12)
]  # fmt: skip
"""Twelve items; the outputs of the first one are the same."""


def section(mode: str = "single", *, scale: str = "", **changes: str) -> str:
    """The policy's section; ``changes`` replace or add its values, in TOML; ``scale`` its standard and scale."""
    values = {
        "sample": "7", "seed": "3", "reviewers": '["bob", "carol", "alice"]', "wanted": "2", "fewest": "6",
        "min_agreement": "0.5", **({"min_mean": "1"} if mode == "single" and not scale else {}),
    } | changes  # fmt: skip
    lines = "".join(f"{name} = {value}\n" for name, value in values.items())
    return (
        f'\n[human_evaluation]\nmode = "{mode}"\n{lines}\n{scale or (SINGLE if mode == "single" else PAIRS)}'
    )


def human_policy(mode: str = "single", *, life: str = "", **changes: str) -> LoadedPolicy:
    """The demo's policy, asking for a human evaluation."""
    text = without_steps(POLICY_FILE.read_text()) + section(mode, **changes) + life
    return parse_policy(text.encode(), name="demo.toml")


class Scored(Protocol):
    """What a run needs so that tests can score its outputs."""

    @property
    def ledger(self) -> Ledger:
        """Where it is recorded."""

    @property
    def store(self) -> ObjectStore:
        """Where its objects lie."""

    def caller(self, task: str, **changes: Any) -> Caller:
        """A try of a task."""

    def view(self) -> RunView:
        """The run as its records tell it now."""


def put_samples(run: AskedRun, items: Sequence[dict[str, Any]] = ITEMS) -> None:
    """What the evaluation program of a seeded run wrote."""
    raw = "".join(json.dumps(item) + "\n" for item in items).encode()
    digest = "sha256:" + hashlib.sha256(raw).hexdigest()
    key = samples_key(run.uid, run.evaluation_id, digest)
    run.store.put_if_absent(key, io.BytesIO(raw))
    evaluated = run.view().latest(kinds.EvaluationReported)
    assert evaluated is not None
    finished = kinds.EvaluationFinished(
        try_id="try_1", checkpoint_id=evaluated.checkpoint_id, evaluations=[run.evaluation_id],
        samples_uri=run.store.location(key), samples_digest=digest,
    )  # fmt: skip
    run.add("evaluate", finished)


def write_items(path: Path, items: Sequence[dict[str, Any]] = ITEMS) -> Path:
    """A JSON Lines file of items."""
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    return path


def asking(
    make_run: Any, mode: str = "single", *, conf: dict[str, Any] | None = None, stage: str = "evaluation",
    **policy: str,
) -> AskedRun:  # fmt: skip
    """A run up to ``stage`` whose evaluation program wrote outputs; with a ``conf`` of the test's it wrote none."""
    run: AskedRun = make_run(policy=human_policy(mode, **policy), conf=CONF | (conf or {}))
    run.until(stage)
    if conf is None:
        put_samples(run)
    return run


def draw(run: Scored, **origin: Any) -> kinds.HumanEvaluationSampled:
    """Draw the sample."""
    return human.draw_outputs(run.ledger, run.store, run.caller("human_sample", **origin), run.view().run_uid)


def sampled_of(run: Scored) -> kinds.HumanEvaluationSampled:
    """The newest sample."""
    found = run.view().latest(kinds.HumanEvaluationSampled)
    assert found is not None
    return found


def values(
    sampled: kinds.HumanEvaluationSampled, page: int, reviewer: int = 1, score: str = "3", **changes: Any
) -> dict[str, Any]:
    """A filled form: every item has the same score, except where ``changes`` say otherwise."""
    filled: dict[str, Any] = {"page_digest": page_digest(sampled, page, reviewer)}
    for number in range(1, len(items_of(sampled, page)) + 1):
        fields = {"score": f"score:{score}", "problem": None, "severity": None, "note": None}
        fields |= {"whose": None} if sampled.mode == "pairs" else {}
        filled |= {f"{name}_{number:02}": value for name, value in fields.items()}
    return filled | changes


def answer(run: Scored, page: int, reviewer: int = 1, *, score: str = "3", **more: Any) -> Answer:
    """An answer as Airflow hands it on; by default bob's."""
    person = more.pop("person", "bob")
    fields: dict[str, Any] = {
        "person_id": person, "person_name": person, "option": "Submit",
        "responded_at": format_time(datetime.now(UTC)), "authentication": "SimpleAuthManager", "anonymous": False,
    }  # fmt: skip
    fields |= {name: more.pop(name) for name in list(more) if name in fields}
    return Answer(values=values(sampled_of(run), page, reviewer, score, **more), **fields)


def take(
    run: Scored, page: int, reviewer: int = 1, **more: Any
) -> kinds.HumanPageAnswered | kinds.HumanAnswerRefused:
    """Answer a page; each is a task of its own."""
    caller = run.caller(f"human_review_{reviewer}", map_index=page - 1, try_number=more.pop("try_number", 1))
    given = answer(run, page, reviewer, **more)
    return human.take_outputs(
        run.ledger, caller, run.view().run_uid, page=page, reviewer=reviewer, answer=given
    )


def total(run: Scored, **origin: Any) -> kinds.HumanEvaluationReported:
    """Sum it up."""
    return human.report_outputs(run.ledger, run.caller("human_report", **origin), run.view().run_uid)


def gate_items(run: Scored) -> dict[str, Item]:
    """What the close gate says of it, by the last word of the item's name."""
    view = run.view()
    found = checklist("close", view, recorded_policy(view))
    return {item.id: item for item in found if "human" in item.id}
