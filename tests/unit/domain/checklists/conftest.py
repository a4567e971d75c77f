"""One whole run in memory, and ways to take facts away from it or to change them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.memory_ledger import MemoryLedger
from tests.unit.gates.asked_run import UID, AskedRun

from pretrain_archive.domain import kinds
from pretrain_archive.domain.checklists import checklist
from pretrain_archive.domain.policy import Policy
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item
from pretrain_archive.gates.sources import with_sources
from pretrain_archive.storage.files import FileStore

Edit = Callable[[RunView], RunView]


@dataclass(frozen=True)
class Whole:
    """A run up to the close, and the policy it was opened under."""

    view: RunView
    policy: Policy

    def item(self, gate: str, item_id: str, edit: Edit = lambda view: view, **policy: Any) -> Item:
        """One item of a gate after ``edit``; ``policy`` replaces sections of the policy."""
        items = checklist(gate, edit(self.view), self.policy.model_copy(update=policy))
        [found] = [item for item in items if item.id == item_id]
        return found


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """A run of two attempts, registered at the close gate."""
    folder: Path = tmp_path_factory.mktemp("whole")
    run = AskedRun(
        ledger=MemoryLedger(), store=FileStore(folder / "store"), folder=folder, uid=UID.format(1), seed=17,
        dag_run_id="manual__1",
    ).until("close")  # fmt: skip
    run.close_run("register")
    return Whole(view=with_sources(run.ledger, run.view()), policy=run.policy.policy)


def without(*models: type[kinds.Payload]) -> Edit:
    """No record of these kinds."""
    names = {kinds.BY_MODEL[model] for model in models}
    return lambda view: RunView.of(
        view.run_uid, (r for r in view.records if r.kind not in names), view.around
    )


def changed(model: type[kinds.Payload], **changes: Any) -> Edit:
    """Every payload of a kind with some fields replaced; a callable gets the old value."""
    name = kinds.BY_MODEL[model]

    def edit(view: RunView) -> RunView:
        records = []
        for record in view.records:
            if record.kind == name:
                new = {k: v(record.payload[k]) if callable(v) else v for k, v in changes.items()}
                record = replace(record, payload={**record.payload, **new})  # noqa: PLW2901
            records.append(record)
        return RunView.of(view.run_uid, records, view.around)

    return edit


def conf(**changes: Any) -> Edit:
    """The form's values with some replaced."""
    return changed(kinds.RunOpened, conf=lambda old: {**old, **changes})


def first(model: type[kinds.Payload], edit: Edit) -> Edit:
    """``edit``, applied to the first record of a kind alone."""
    name = kinds.BY_MODEL[model]

    def once(view: RunView) -> RunView:
        target = next(record for record in view.records if record.kind == name)
        [new] = edit(RunView.of(view.run_uid, [target])).records
        records = (new if record is target else record for record in view.records)
        return RunView.of(view.run_uid, records, view.around)

    return once


def drop_first(model: type[kinds.Payload]) -> Edit:
    """Without the first record of a kind."""
    name = kinds.BY_MODEL[model]

    def edit(view: RunView) -> RunView:
        target = next(record for record in view.records if record.kind == name)
        records = (record for record in view.records if record is not target)
        return RunView.of(view.run_uid, records, view.around)

    return edit


def around(kind: str, **payload: Any) -> Edit:
    """A later fact of the run's source, recorded outside of the run."""

    def edit(view: RunView) -> RunView:
        like = view.records[-1]
        of = next(r.payload["source_id"] for r in view.records if r.kind == "source.registered")
        position = view.records[-1].position + 1 + len(view.around.records)
        fact = replace(like, record_id=f"rec_late_{position}", stream=f"source/{of}", kind=kind, position=position,
                       payload={"source_id": of} | payload)  # fmt: skip
        return replace(view, around=replace(view.around, records=(*view.around.records, fact)))

    return edit


def both(*edits: Edit) -> Edit:
    """One edit after the other."""

    def edit(view: RunView) -> RunView:
        for one in edits:
            view = one(view)
        return view

    return edit


def added(payload: kinds.Payload, *, attempt: int = 0) -> Edit:
    """One more record of the run, the newest."""

    def edit(view: RunView) -> RunView:
        like = view.records[-1]
        record = replace(
            like, record_id=f"rec_added_{like.position + 1}", kind=kinds.BY_MODEL[type(payload)], attempt=attempt,
            position=like.position + 1, sequence=like.sequence + 1, payload=payload.to_json(),
        )  # fmt: skip
        return RunView.of(view.run_uid, [*view.records, record], view.around)

    return edit


def nobody_looked(view: RunView) -> RunView:
    """The run's own records alone."""
    return replace(view, around=None)


__all__ = [
    "Whole", "added", "around", "both", "changed", "conf", "drop_first", "first", "nobody_looked", "whole", "without",
]  # fmt: skip
