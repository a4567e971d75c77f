"""Records explain results, cost and failures; they are no league table of hardware, and hold for what they ran on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.unit.domain.told_run import Told

from pretrain_archive.domain import diagnosis_texts, governance_texts, texts
from pretrain_archive.domain.advice import advise
from pretrain_archive.domain.cost import account, document
from pretrain_archive.domain.cost_report import By, Report
from pretrain_archive.web.texts import TEXTS

ROOT = Path(__file__).parents[3]
RANKING = re.compile(
    r"\brank(?:ed|ing|ings)\b|leader ?board|league|\bfastest\b|\bslowest\b"
    r"|\bbest (?:hardware|accelerator|gpu|node)\b"
    r"|outperform|\bbenchmark score|排行|排名|榜单|最快|最慢|跑分",
    re.IGNORECASE,
)
SPEED = re.compile(r"per_second|throughput|flops|\bmfu\b|speed|score", re.IGNORECASE)


def tables() -> Iterator[tuple[str, str]]:
    """Every text that a person reads in pages, reports and gate forms, with where it stands."""
    for key, pair in TEXTS.items():
        yield from ((f"web {key}", text) for text in pair)
    for module in (texts, diagnosis_texts, governance_texts):
        for name, table in vars(module).items():
            if name.isupper() and isinstance(table, dict):
                for key, pair in table.items():
                    yield from ((f"{name} {key}", text) for text in pair)
    for path in [*ROOT.glob("plugin/pretrain_archive/package/words*.py"), *ROOT.glob("docs/*.md"),
                 *(ROOT / f"plugin/pretrain_archive/package/{name}.py" for name in ("story", "sentences")),
                 *ROOT.glob("plugin/pretrain_archive/*/templates/*.html")]:  # fmt: skip
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            yield f"{path.name}:{number}", line


@pytest.mark.requirement("R076")
def test_no_text_ranks_hardware() -> None:
    """Neither pages nor reports, packages or documents compare devices as better or worse."""
    nodes = re.compile("PET_NODE_RANK|NODE_RANK|RANK")  # a member's number is no ranking
    assert [] == [(where, text) for where, text in tables() if RANKING.search(nodes.sub("", text))]


@pytest.mark.parametrize("text", ["The fastest GPU", "ranking of nodes", "硬件排名", "H100 outperforms A100"])
def test_a_text_that_ranks_is_found(text: str) -> None:
    """The search would find one."""
    assert RANKING.search(text)


def keys(value: Any) -> Iterator[str]:
    """Every key of a document."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield str(key)
            yield from keys(part)
    elif isinstance(value, list):
        for part in value:
            yield from keys(part)


@pytest.mark.requirement("R076")
def test_no_report_groups_by_hardware_or_tells_speed() -> None:
    """What runs took is put together by whom it belongs to, never by device or node, and holds no rate of work."""
    told = Told(accelerators=2)
    told.open()
    told.launch(1, 0)
    told.start(1, 5)
    told.steps(1, *[(5 + s, s) for s in range(1, 11)])
    told.end(1, 20, took=20, state="completed")
    found = account(told.view)
    names = {*keys(document(found)), *keys(advise(told.view, found).to_dict())}
    for by in get_args(By):
        names |= {*keys(Report(by=by).add_all([found]).to_dict())}

    assert {"project", "team", "person", "budget", "priority", "training_type", "month"} == set(get_args(By))
    assert "allocated_seconds" in names
    assert set() == {name for name in names if SPEED.search(name)}
