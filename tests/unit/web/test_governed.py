"""A run's page tells a controlled project, the conclusion, and whom to ask and where to read on call."""

from __future__ import annotations

from html import unescape
from pathlib import Path

import pytest
from fastapi import Request
from tests.support.governed import Grounds, by

from pretrain_archive.domain import kinds
from pretrain_archive.services.concluding import Conclusion, conclude
from pretrain_archive.web.read_cost import cost_panel
from pretrain_archive.web.read_run import run_page
from pretrain_archive.web.render import page
from pretrain_archive.web.texts import Text

PLATFORM = """
[platform]
experts = ["eva", "<b>ed</b>"]

[platform.teams]
storage = "sam"
"""


@pytest.fixture
def grounds(tmp_path: Path) -> Grounds:
    """A ledger, and a controlled project."""
    made = Grounds(tmp_path)
    made.policy("p", PLATFORM)
    return made


def shown(grounds: Grounds, uid: str) -> str:
    """The page as the browser gets it."""
    view = grounds.view(uid)
    request = Request({"type": "http", "method": "GET", "path": "/", "headers": [], "root_path": "/pages"})
    made = page(
        request, "run.html", title=Text("x", "x"), run=run_page(grounds.ledger, view), course=None,
        cost=cost_panel(view, []), others=[],
    )  # fmt: skip
    return bytes(made.body).decode()


def concluded(grounds: Grounds, uid: str) -> None:
    """Somebody writes down what was learnt."""
    view = grounds.view(uid)
    told = Conclusion(
        outcome="no_better", learnt="more <i>data</i> first", evidence=(view.records[-1].record_id,)
    )
    conclude(grounds.ledger, view, told, by("carol"))


@pytest.mark.requirement("R248")
def test_a_controlled_project_says_so(grounds: Grounds) -> None:
    """In both languages, with the experts' names as text; another project says nothing of the kind."""
    text, other = shown(grounds, grounds.open("p")), shown(grounds, grounds.open("q"))

    assert "training depends on eva, <b>ed</b>" in unescape(text)
    assert "训练依赖 eva、" in text
    assert "<b>ed</b>" not in text
    assert "ontrolled project" not in other


@pytest.mark.requirement("R097")
def test_a_conclusion_stands_on_the_page(grounds: Grounds) -> None:
    """None is said to be missing; one is told with its record; one after the close says that it is no part of it."""
    uid = grounds.open("p")
    assert "Nobody has written down what this run taught" in shown(grounds, uid)
    concluded(grounds, uid)
    text = shown(grounds, uid)
    [record] = grounds.ledger.records(kinds=["experiment.concluded"])

    assert "Concluded by carol: no better. Learnt: more <i>data</i> first." in unescape(text)
    assert "carol 的结论：没有改进" in text
    assert f"/pages/runs/{uid}/records/{record.record_id}" in text
    assert "it changes nothing that was signed" not in text
    grounds.add(uid, kinds.RunClosed(outcome="rejected", reason="x"))
    assert "it changes nothing that was signed" not in shown(grounds, uid)
    concluded(grounds, uid)
    assert "it changes nothing that was signed" in shown(grounds, uid)


@pytest.mark.requirement("R231", "R249")
def test_on_call_has_the_command_and_the_section(grounds: Grounds) -> None:
    """The command that answers everything, the teams (unrecorded where nobody is named), and what to read."""
    uid = grounds.open("p")
    grounds.attempt(uid, None, state="lost")
    text = unescape(shown(grounds, uid))
    part = text[text.index('id="oncall"') : text.index('id="packages"')]

    assert f"pretrain-archive run oncall {uid}" in part
    assert "Recovery, step by step" in part
    assert "最近一次尝试失联" in part
    assert "sam" in part
    assert 3 == part.count('lang="en">unrecorded')
