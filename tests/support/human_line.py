"""The main line with an evaluation program that also writes outputs, and a policy that asks persons to read them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support.main_line import EVALUATE, Line, line_policy_text

from pretrain_archive.domain import kinds
from pretrain_archive.domain.identity import format_time
from pretrain_archive.domain.policy import LoadedPolicy, parse_policy
from pretrain_archive.gates.judging import Answer
from pretrain_archive.services.human_evaluating import take_outputs
from pretrain_archive.services.human_form import items_of, page_digest

WRITES = """
with open(env("SAMPLES"), "w") as file:
    for number in range(12):
        file.write(json.dumps({
            "id": f"q{number}", "prompt": f"Say the number {number}\\n", "output": f"It is {number}.",
            "baseline": f"Number {number}" if number else "It is 0.", "baseline_name": "untrained",
        }) + "\\n")
"""
"""Twelve items; the outputs of the first one are the same."""

STANDARD = '[human_evaluation.standard]\nen = "Judge content only."\nzh = "仅评判内容。"\n'
SINGLE = STANDARD + "".join(
    f'\n[[human_evaluation.scale]]\nlabel = "{value}"\nvalue = {value}\nen = "{en}"\nzh = "{zh}"\n'
    for value, en, zh in ((3, "right", "正确"), (2, "half right", "部分正确"), (1, "wrong", "错误"))
)
PAIRS = STANDARD + "".join(
    f'\n[[human_evaluation.scale]]\nlabel = "{en}"\nen = "{en}"\nzh = "{zh}"\n'
    for en, zh in (("better", "更好"), ("same", "相同"), ("worse", "更差"))
)


def section(mode: str = "single", **changes: str) -> str:
    """The policy's section; ``changes`` replace or add its values, in TOML."""
    values = {
        "sample": "7", "seed": "3", "reviewers": '["bob", "carol", "alice"]', "wanted": "2", "fewest": "6",
        "min_agreement": "0.5",
    } | changes  # fmt: skip
    lines = "".join(f"{name} = {value}\n" for name, value in values.items())
    return f'\n[human_evaluation]\nmode = "{mode}"\n{lines}\n{SINGLE if mode == "single" else PAIRS}'


def human_policy(mode: str = "single", **changes: str) -> LoadedPolicy:
    """The line's policy, asking for a human evaluation."""
    text = line_policy_text(min_documents="5", max_unclean_rate="1.0") + section(mode, **changes)
    return parse_policy(text.encode(), name="line.toml")


@dataclass
class HumanLine(Line):
    """A line whose evaluation program writes outputs; tests score them."""

    writes: str = WRITES

    def __post_init__(self) -> None:
        super().__post_init__()
        (self.program / "evaluate.py").write_text(EVALUATE + self.writes)

    def to_run_gate(self, **changes: Any) -> None:
        """Everything up to the signed run gate."""
        self.to_signed_launch(**changes)
        self.launch()
        self.register()
        self.evaluate()
        self.sign("run")

    @property
    def sampled(self) -> kinds.HumanEvaluationSampled:
        """The newest sample."""
        found = self.view().latest(kinds.HumanEvaluationSampled)
        assert found is not None
        return found

    def values(self, page: int, reviewer: int = 1, score: str = "3", **changes: Any) -> dict[str, Any]:
        """A filled form: every item has the same score, except where ``changes`` say otherwise."""
        filled: dict[str, Any] = {"page_digest": page_digest(self.sampled, page, reviewer)}
        for number in range(1, len(items_of(self.sampled, page)) + 1):
            fields = {"score": f"score:{score}", "problem": None, "severity": None, "note": None}
            filled |= {f"{name}_{number:02}": value for name, value in fields.items()}
        return filled | changes

    def scored(
        self, page: int, reviewer: int = 1, *, person: str | None = "bob", score: str = "3", **more: Any
    ) -> kinds.HumanPageAnswered | kinds.HumanAnswerRefused:
        """Answer a page; each is a task of its own."""
        fields: dict[str, Any] = {
            "person_id": person, "person_name": person, "option": "Submit",
            "responded_at": format_time(datetime.now(UTC)), "authentication": "SimpleAuthManager", "anonymous": False,
        }  # fmt: skip
        fields |= {name: more.pop(name) for name in list(more) if name in fields}
        answer = Answer(values=self.values(page, reviewer, score, **more), **fields)
        caller = self.caller(f"human_review_{reviewer}", map_index=page - 1)
        return take_outputs(self.ledger, caller, self.run_uid, page=page, reviewer=reviewer, answer=answer)


def write_items(path: Path, items: list[dict[str, Any]]) -> Path:
    """A JSON Lines file of items."""
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    return path
