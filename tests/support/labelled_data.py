"""A run with real labelled data and a policy that asks persons to review a sample of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.unit.gates.asked_run import POLICY_FILE, without_steps
from tests.unit.services.open_runs import Opener

from pretrain_archive.domain import kinds
from pretrain_archive.domain.identity import format_time
from pretrain_archive.domain.policy import LoadedPolicy, parse_policy
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.judging import Answer
from pretrain_archive.gates.service import load_run
from pretrain_archive.ledger.sql import SqlLedger
from pretrain_archive.services import data
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.review_form import items_of, page_digest
from pretrain_archive.storage.port import ObjectStore

DEFINITION = """
name = "mail"
version = "2"

[labels]
ham = "a letter that a person wrote to another one"
spam = "advertisement that nobody asked for"
rare = "anything else"
"""
SECRET_WORDS = "the quick brown lemur"


def policy_text(
    *, reviewers: str = '["bob", "carol"]', review: str = "sample = 25\nseed = 3", labels: str = "",
    mode: str = "copy",
) -> str:  # fmt: skip
    """The demo's policy, asking for a review of labels; ``mode`` is how snapshots are kept."""
    text = without_steps(POLICY_FILE.read_text())
    if mode == "recipe":
        text = text.replace('snapshot_mode = "copy"', 'snapshot_mode = "recipe"')
        text += '\n[data.recipe]\nrebuild_allowed = true\nkeep_days = 9\napprover = "alice"\n'
    text = text.replace('retention = ["bob"]', f'retention = ["bob"]\nlabel_reviewers = {reviewers}')
    return f'{text}\n[data.labels]\ndefinition = "labels.toml"\n{labels}\n[data.labels.review]\n{review}\n'


def policy_of(text: str) -> LoadedPolicy:
    """The policy with this text."""
    return parse_policy(text.encode(), name="demo.toml")


def write_documents(folder: Path) -> None:
    """Two hundred labelled lines: 140 ham, 50 spam, 10 rare, some of another label or none."""
    folder.mkdir(exist_ok=True)
    labels = ["ham"] * 140 + ["spam"] * 50 + ["rare"] * 10 + ["unknown"] * 5 + [None] * 3
    for part in (0, 1):
        lines = [
            json.dumps({"text": f"letter {number}: {SECRET_WORDS} *jumps* <b>", "label": label})
            for number, label in enumerate(labels)
            if number % 2 == part
        ]
        (folder / f"part-{part}.jsonl").write_text("\n".join(lines) + "\n")


@dataclass
class LabelledRun:
    """A run whose source, snapshot and rights are recorded by the services; tests review its labels."""

    ledger: SqlLedger
    store: ObjectStore
    folder: Path
    policy: str = field(default_factory=policy_text)
    uid: str = ""

    def __post_init__(self) -> None:
        policies = self.folder / "policies"
        policies.mkdir(exist_ok=True)
        (policies / "demo.toml").write_text(self.policy)
        (policies / "labels.toml").write_text(DEFINITION)
        self.opener = Opener(ledger=self.ledger, folder=self.folder, policy=policy_of(self.policy))
        write_documents(self.folder / "source")
        for plain in (self.folder / "source").glob("*.txt"):
            plain.unlink()
        self.uid = self.opener.open().run_uid
        data.register(self.ledger, self.caller("register_source"), self.uid)
        self.snapshot()

    def caller(self, task: str, **origin: Any) -> Caller:
        """A try of a task."""
        return self.opener.caller(task, **origin)

    def snapshot(self, **origin: Any) -> None:
        """Snapshot what is in the source now."""
        data.make_snapshot(self.ledger, self.store, self.caller("snapshot", **origin), self.uid)

    def view(self) -> RunView:
        """The run as its records tell it now."""
        return load_run(self.ledger, self.uid)

    @property
    def sampled(self) -> kinds.LabelsSampled:
        """The newest sample."""
        found = self.view().latest(kinds.LabelsSampled)
        assert found is not None
        return found

    def values(self, page: int, reviewer: int = 1, **changes: Any) -> dict[str, Any]:
        """A filled form: everybody agrees, except where ``changes`` say otherwise."""
        filled: dict[str, Any] = {"page_digest": page_digest(self.sampled, page, reviewer)}
        for number in range(1, len(items_of(self.sampled, page)) + 1):
            filled |= {f"answer_{number:02}": "agree", f"note_{number:02}": None}
        return filled | changes

    def answer(self, page: int, reviewer: int = 1, *, person: str | None = "bob", **more: Any) -> Answer:
        """An answer as Airflow hands it on."""
        fields: dict[str, Any] = {
            "person_id": person, "person_name": person, "option": "Submit",
            "responded_at": format_time(datetime.now(UTC)), "authentication": "SimpleAuthManager", "anonymous": False,
        }  # fmt: skip
        fields |= {name: more.pop(name) for name in list(more) if name in fields}
        return Answer(values=self.values(page, reviewer, **more), **fields)
