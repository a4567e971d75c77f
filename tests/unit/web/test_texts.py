"""Every text stands in both languages, and every text that a page asks for is there."""

from __future__ import annotations

import re
import string
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.support.human_run import human_policy
from tests.unit.web.gated_run import demo_policy

from pretrain_archive import web
from pretrain_archive.domain.checklists import checklist
from pretrain_archive.domain.kinds.registry import KINDS
from pretrain_archive.domain.policy import LabelReview, Labels
from pretrain_archive.domain.run_view import ALL_GATES, RunView
from pretrain_archive.domain.verdicts import Item, Verdict
from pretrain_archive.gates.review import prepare_items
from pretrain_archive.package.items import evidence_items
from pretrain_archive.web.render import label
from pretrain_archive.web.texts import TEXTS, say
from pretrain_archive.web.texts_items import CHINESE, found_text

FOLDER = Path(web.__path__[0])
HAN = r"[\u4e00-\u9fff]"


def blanks(text: str) -> set[str]:
    """The names of the blanks in a text."""
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


@pytest.mark.parametrize("key", sorted(TEXTS))
def test_both_languages_say_the_same(key: str) -> None:
    """A text has words in English and in Chinese, with the same blanks to fill."""
    en, zh = TEXTS[key]

    assert en.strip()
    assert zh.strip()
    assert blanks(en) == blanks(zh)


@pytest.mark.parametrize("key", sorted(TEXTS))
def test_chinese_is_spaced_as_airflow_does(key: str) -> None:
    """Between a Han character and a Latin letter or digit stands one half-width space."""
    zh = re.sub(r"\{\w+\}", "", TEXTS[key][1])

    assert [] == re.findall(rf"{HAN}[A-Za-z0-9]|[A-Za-z0-9]{HAN}", zh)


def test_every_text_that_is_asked_for_exists() -> None:
    """No template and no module asks for a text that is not there."""
    asked = set()
    for path in [*FOLDER.glob("*.py"), *FOLDER.glob("templates/*.html")]:
        asked |= set(re.findall(r"""\bsay\(\s*"([\w.]+)"(?!\s*~)""", path.read_text("utf-8")))
    asked = {key for key in asked if not key.endswith(".")}

    assert set() == asked - set(TEXTS)


def test_every_kind_of_record_is_told_in_words() -> None:
    """The timeline names no record by its code: each kind has words in both languages."""
    assert [] == [kind for kind in KINDS if f"kind.{kind}" not in TEXTS]


def test_every_item_has_a_chinese_check_and_hint() -> None:
    """Each item of the gates and of a run's evidence says in Chinese how it is checked and mended."""
    asking = Labels(review=LabelReview())
    view, policy = RunView.of("run_x", []), demo_policy().policy
    policy = policy.model_copy(update={"data": policy.data.model_copy(update={"labels": asking})})
    policy = policy.model_copy(update={"human_evaluation": human_policy().policy.human_evaluation})
    items = [item for gate in ALL_GATES for item in checklist(gate, view, policy)]
    items += prepare_items(view, SimpleNamespace(decision=None, approved=False, stale=()), policy)
    items += [item for item in evidence_items(view) if not item.id.startswith("track.")]

    assert set() == {item.id for item in items} - set(CHINESE)
    sometimes = {
        "release.scope",
        "release.serving",
        "run.reconciled",
        "run.members_loaded",
        "run.data_path",
    }  # asked where they apply
    assert sometimes == set(CHINESE) - {item.id for item in items}
    assert [] == [item.id for item in items if label("item", item.id).zh == label("item", item.id).en]


def test_what_fills_a_blank_is_escaped() -> None:
    """A value in a text is text in the page, never markup."""
    html = str(say("six.events.failed", task="<b>", reason="</span><script>").__html__())

    assert "<script>" not in html
    assert "&lt;/span&gt;&lt;script&gt;" in html


def test_texts_within_texts_keep_their_language() -> None:
    """A text that fills a blank of another is said in the same language."""
    whole = say("six.signature", gate=label("gate", "run"), person="bob", decision=say("run.gate.approve"))

    assert "Run gate: bob (approved)" == whole.en
    assert "执行关口：bob（已批准）" == whole.zh


@pytest.mark.parametrize(
    ("item_id", "found", "en", "zh"),
    [
        pytest.param(
            "prepare.quality", "455 documents, failed: secrets, mixture:encodings",
            "documents: 455; not passed: Secrets, Mixture encodings",
            "455 个文档；未通过：密钥与口令、数据配比 encodings",
            id="what blocks",
        ),
        pytest.param(
            "prepare.quality_advice", "near_duplicates, personal_data (not checked)",
            "Near duplicates, Personal data (not checked)", "近似重复、个人信息（未检查）",
            id="what is advised",
        ),
        pytest.param("prepare.quality_advice", "their.rule", "their.rule", "their.rule", id="an unknown rule"),
        pytest.param("data.source", "secrets", "secrets", "secrets", id="another item"),
    ],
)  # fmt: skip
def test_names_of_quality_gates_are_told_in_words(item_id: str, found: str, en: str, zh: str) -> None:
    """The approver reads the words of the report's page, not the names of rules."""
    item = Item(id=item_id, track="data", verdict=Verdict.CHANGED, blocking=True, check="c", found=found)

    assert (en, zh) == (found_text(item).en, found_text(item).zh)
