"""The page of an evaluation: whole, in two languages, without script, hostile names harmless."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretrain_archive.artifacts.evaluation_chart import Row, forest
from pretrain_archive.artifacts.evaluation_page import render_page
from pretrain_archive.artifacts.evaluation_words import FLAGS, NO_WAY

HOSTILE = "</style><script>alert(1)</script>\u202e\x1b[31m'\"&"


def metric(name: str = "acc", value: float | None = 0.5, **more: Any) -> dict[str, Any]:
    """A metric as a report holds it."""
    known = {
        "name": name, "unit": "share", "direction": "higher", "value": value, "not_finite": "", "samples": 10,
        "low": 0.2, "high": 0.8, "stderr": None, "interval": "wilson", "defined_by": "",
    }  # fmt: skip
    return {**known, **more}


def report(name: str = "acc", **changes: Any) -> dict[str, Any]:
    """A report with everything in it."""
    known = {
        "run_uid": "run_1", "program": "", "imported": False, "checkpoint_id": "ckpt_1",
        "checkpoint_digest": "sha256:a",
        "source": {"attempt": 1, "step": 10, "snapshot": "s@1", "configuration_digest": "sha256:c"},
        "data_set": "held out", "data_set_digest": "sha256:d", "definition": {"window": 8}, "passed": False,
        "suites": [{"name": "own", "version": "1", "objective": "text", "digest": "sha256:e"}],
        "metrics": [metric(name), metric("x", samples=None, low=None, high=None, interval=""),
                    metric("y", low=None, high=None, interval=""),
                    metric("nan", None, not_finite="nan", low=None, high=None, interval="")],
        "baselines": [
            {"name": "old", "kind": "previous version", "counted": True, "reason": "", "subject_digest": "sha256:f",
             "metrics": [metric(name, 0.4)]},
            {"name": "odd", "kind": "untrained model", "counted": False, "reason": "is the candidate itself",
             "subject_digest": "sha256:a", "metrics": []},
        ],
        "comparisons": [{"metric": name, "baseline": "old", "difference": 0.1, "low": -0.2, "high": 0.4,
                         "told": "not told apart", "reason": ""}],
        "rules": [{"name": f"{name} at least 0.6", "metric": name, "passed": False, "observed": 0.5, "limit": 0.6,
                   "reason": "observed 0.5, limit 0.6"}],
        "flags": ["no_samples: x", "unheard_of: y"], "output_sha256": "0" * 64, "evaluator_digest": None,
        "scope": {"objective": "o", "intended_use": None, "data_set": "held out", "samples": 10,
                  "not_evaluated": ["own@1/f1"], "limits": ["one language"]},
    }  # fmt: skip
    return {**known, **changes}


class Tags(HTMLParser):
    """Start tags and visible text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the tag."""
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        """Keep the text."""
        self.texts.append(data)


def parsed(document: dict[str, Any], **more: Any) -> Tags:
    """The page as a parser sees it."""
    tags = Tags()
    tags.feed(render_page(document, **more).decode())
    return tags


def test_every_part_of_the_report_is_on_the_page_in_both_languages() -> None:
    """Flags, rules, metrics with and without interval, differences, baselines that count or not, reach, origin."""
    page = render_page(report()).decode()

    for text in (
        "Not passed", "未通过", "No samples", "无样本记录", "unheard_of", "NaN", "Wilson, from counts",
        "无区间：无计数", "无区间：无标准误",
        "not told apart", "不能区分", "is the candidate itself", "own@1/f1", "one language", "已知局限", "sha256:c",
    ):  # fmt: skip
        assert text in page
    assert '<svg class="forest"' in page


def test_nothing_comes_from_outside_and_nothing_runs() -> None:
    """No script, no link, no image; the style sheet is allowed by its hash alone."""
    tags = parsed(report())

    assert {"script", "link", "img", "iframe", "object", "form", "a"}.isdisjoint(tag for tag, _ in tags.tags)
    assert not [
        attrs for _, attrs in tags.tags if any(name.startswith("on") or name == "style" for name in attrs)
    ]
    policy = next(attrs["content"] for tag, attrs in tags.tags if attrs.get("http-equiv"))
    assert str(policy).startswith("default-src 'none'; style-src 'sha256-")


@pytest.mark.parametrize("place", ["metrics", "flags", "data_set", "checkpoint_id", "definition", "limits"])
def test_a_hostile_name_is_text(place: str) -> None:
    """Whatever a program writes into a name stays a name, on one line, in reading direction."""
    every: dict[str, dict[str, Any]] = {
        "metrics": {"metrics": [metric(HOSTILE)], "comparisons": []},
        "flags": {"flags": [f"no_value: {HOSTILE}"]},
        "data_set": {"data_set": HOSTILE},
        "checkpoint_id": {"checkpoint_id": HOSTILE},
        "definition": {"definition": {HOSTILE: HOSTILE}},
        "limits": {"scope": report()["scope"] | {"limits": [HOSTILE]}},
    }
    page = render_page(report(**every[place])).decode()

    assert "<script" not in page
    assert 1 == page.count("</style>")
    assert "\u202e" not in page
    assert "\x1b" not in page


def test_the_language_of_the_policy_is_shown_first_and_bytes_repeat() -> None:
    """Both texts stand in either page."""
    chinese = parsed(report(), language="zh-CN")

    checked = {attrs["id"] for tag, attrs in chinese.tags if tag == "input" and "checked" in attrs}
    assert {"show-zh"} == checked
    assert ("html", {"lang": "zh-CN"}) in chinese.tags
    assert render_page(report()) == render_page(report())


def test_every_flag_has_words() -> None:
    """No flag is shown by its code alone, and no words are left over."""
    from pretrain_archive.artifacts import evaluation

    told = set(re.findall(r"``([a-z]+_?[a-z_]*)``", str(evaluation.__doc__)))

    assert told | {"repeated_metric"} == set(FLAGS)


@given(st.lists(st.tuples(st.floats(), st.floats(), st.floats()), max_size=5))
def test_a_picture_is_drawn_of_finite_numbers_or_not_at_all(values: list[tuple[float, float, float]]) -> None:
    """No coordinate is NaN, whatever the numbers."""
    rows = [Row(label="x", value=a, low=b, high=c) for a, b, c in values]

    picture = forest(rows, title=HOSTILE)

    assert "nan" not in picture.replace("x: nan", "")
    assert "inf" not in picture
    assert "<script" not in picture


def test_a_direction_that_nobody_declared_is_no_arrow() -> None:
    """The record's filler is not shown as if somebody had said it."""
    flag = "no_direction: acc does not say whether lower or higher is better"

    assert ("no direction declared", "未声明方向") == NO_WAY
    assert "未声明方向" in render_page(report(flags=[flag])).decode()
    assert "未声明方向" not in render_page(report(flags=[])).decode()
