"""The report as a page: whole without scripts or outside resources, in two languages, with every value escaped."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from pretrain_archive.data.quality.report import charts
from pretrain_archive.data.quality.report.page import number, percent, render_page
from pretrain_archive.data.quality.report.words import FAMILIES, REASONS, RULES
from pretrain_archive.data.quality.suite_files import load_suite

HOSTILE = "<script>alert(1)</script>'\"&\u202etxt.exe\n{{ 7*7 }}"


def gate(**changes) -> dict:
    """A gate as a report holds it."""
    fields = {
        "name": "cleanliness", "family": "cleanliness", "severity": "blocking", "passed": True, "checked": True,
        "observed": 0.01, "limit": 0.02, "limit_is": "share", "form": "share", "rows": 100, "judged": 100,
        "unexpected": 1, "missing": 0, "reason": "", "error": "", "source": "", "detail": "1 of 100 rows",
    }  # fmt: skip
    return fields | changes


def report(**changes) -> dict:
    """A report with something in every part."""
    fields = {
        "snapshot": "corpus@3", "engine": "great_expectations 1", "computed_on": "local", "passed": True,
        "reason": "", "warnings": [], "suite_digest": "sha256:" + "a" * 64,
        "suite": {"name": "standard", "version": "1", "profile": "text"},
        "gates": [gate()], "files": 3, "files_read": 3, "not_read": {}, "documents": 100, "total_bytes": 12345,
        "empty_documents": 0, "format_errors": 1, "unclean_documents": 1, "exact_duplicates": 2,
        "near_duplicates": 4, "near": {"jaccard": [0] * 16 + [1, 2, 3, 4], "settings": {"threshold": 0.8}},
        "contamination": [{"name": "exam", "of": 50, "documents": 3, "exact": 1}],
        "domains": [
            {"domain": "books", "documents": 60, "bytes": 1, "tokens": 1, "share": 0.6, "declared": 0.5,
             "tolerance": 0.2, "low": 0.3, "high": 0.7},
            {"domain": "web", "documents": 40, "bytes": 1, "tokens": 1, "share": 0.4, "declared": None,
             "tolerance": None, "low": None, "high": None},
        ],
        "mixture_unit": "tokens", "languages": {"en": 90, "zh": 10}, "sensitive": {"email": 3}, "labels": None,
        "distributions": {"bytes": [0] * 5 + [40, 60] + [0] * 25 + [0, 0], "alphabetic_ratio": [5] * 20 + [2, 1]},
        "thresholds": [
            {"id": "nul", "column": "nul", "min": None, "max": 0, "judged": 100, "beyond": 1, "source": "x"}
        ],
        "contributors": {
            "cleanliness": {"rows": 1, "shards": [["a.jsonl", 1]], "domains": [["books", 1]], "more": 4}
        },
        "not_asked": [{"name": "benchmarks", "reason": "no_benchmarks"}], "not_checked": ["benchmarks"],
        "examples": {"format_errors": [{"file": "a.jsonl", "line": 7, "reason": "not JSON"}]},
        "moved": {"snapshot": "corpus@2", "gates": [{"name": "cleanliness", "family": "cleanliness", "form": "share",
                  "before": 0.0, "now": 0.01, "domains": [["books", 1]]}]},
        "settings": {},
    }  # fmt: skip
    return fields | changes


class Page(HTMLParser):
    """Elements, attributes and text of a page."""

    def __init__(self, raw: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict]] = []
        self.words: list[str] = []
        self.feed(raw.decode())

    def handle_starttag(self, tag, attrs):
        """Keep an element."""
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        """Keep a text."""
        self.words.append(data)


def test_a_page_stands_for_itself():
    """No script, no inline style, no event handler, no address outside; the style sheet is allowed by its hash."""
    raw = render_page(report())
    page = Page(raw)

    assert "script" not in {tag for tag, _ in page.elements}
    names = {name for _, attributes in page.elements for name in attributes}
    assert not {name for name in names if name.startswith("on")} | (names & {"style", "src", "href"})
    style = re.search(rb"<style>(.*?)</style>", raw, re.DOTALL)[1]
    assert b"url(" not in style
    assert b"@import" not in style
    digest = base64.b64encode(hashlib.sha256(style).digest()).decode()
    policies = [a["content"] for t, a in page.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert [
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    ] == policies
    assert raw == render_page(report())


@pytest.mark.parametrize(
    "place",
    [
        "snapshot",
        "reason",
        "domain",
        "shard",
        "example",
        "threshold",
        "kind",
        "language",
        "benchmark",
        "error",
        "rule",
    ],
)
def test_hostile_names_are_text(place):
    """Whatever a file, domain or rule is called, it stays text on the page, on one line."""
    changes = {
        "snapshot": {"snapshot": HOSTILE},
        "reason": {"reason": HOSTILE, "passed": False},
        "domain": {"domains": [report()["domains"][0] | {"domain": HOSTILE}]},
        "shard": {"contributors": {"cleanliness": {"rows": 1, "shards": [[HOSTILE, 1]], "domains": [], "more": 0}}},
        "example": {"examples": {"exact_duplicates": [
            {"file": HOSTILE, "line": 1, "same_as": {"file": HOSTILE, "line": 2}}]}},
        "threshold": {"thresholds": [report()["thresholds"][0] | {"id": HOSTILE, "source": HOSTILE}]},
        "kind": {"sensitive": {HOSTILE: 1}, "not_read": {HOSTILE: 1}},
        "language": {"languages": {HOSTILE: 1}},
        "benchmark": {"contamination": [{"name": HOSTILE, "of": 1, "documents": 1}]},
        "error": {"gates": [gate(error=HOSTILE, passed=False, checked=False, reason="not_judged")]},
        "rule": {"gates": [gate(name=HOSTILE, family="own", limit=HOSTILE, limit_is="", form="number")]},
    }[place]  # fmt: skip
    raw = render_page(report(**changes))
    page = Page(raw)

    assert [] == [tag for tag, _ in page.elements if tag == "script"]
    assert "alert(1)" in "".join(page.words)
    assert "{{ 7*7 }}" in "".join(page.words)
    assert "\u202e" not in raw.decode()


def test_both_languages_stand_in_one_page():
    """Each text has its twin; the language of the policy is shown first."""
    english, chinese = (render_page(report(), language=language).decode() for language in ("en", "zh-CN"))

    for page in (english, chinese):
        assert page.count('class="en" lang="en"') == page.count('class="zh" lang="zh-CN"') > 20
    assert re.search(r'id="show-en" class="switch" checked', english)
    assert re.search(r'id="show-zh" class="switch" checked', chinese)


@pytest.mark.case("Q07")
def test_a_report_without_gates_is_a_page():
    """No rule, no document, nothing measured: the page says so and does not break."""
    empty = report(
        passed=False, reason="nothing was checked: the suite has no rules", gates=[], documents=0, domains=[],
        distributions={}, thresholds=[], contributors={}, near=None, near_duplicates=None, contamination=None,
        languages={}, sensitive={}, examples={}, moved=None, not_read={"no data": 1}, total_bytes=0,
    )  # fmt: skip
    page = "".join(Page(render_page(empty)).words)

    assert "Not passed" in page
    assert "nothing was judged" in page
    assert "1 files without a document" in page


@pytest.mark.case("Q13")
@pytest.mark.parametrize("value", ["inf", "-inf", "nan"])
def test_numbers_that_are_not_finite_are_shown(value):
    """The page shows the word and that it is no finite number; missing values are counted beside."""
    shown = report(gates=[gate(observed=value, passed=False, form="number", missing=3)])
    page = "".join(Page(render_page(shown)).words)

    assert value in page
    assert "not finite" in page
    assert "3 without a value" in page


def test_every_rule_of_the_standard_has_words():
    """Gates are named in both languages by rule or family."""
    for one in load_suite().rules:
        assert one.id in RULES or one.id in FAMILIES or one.gate in FAMILIES, one.id
    assert all(en and zh and en != zh for en, zh in [*RULES.values(), *FAMILIES.values(), *REASONS.values()])


def test_a_bar_of_one_is_seen():
    """The smallest count has a height, an empty one has none, and no count makes no picture."""
    picture = charts.histogram(
        [charts.Bin(label="a", count=10**9), charts.Bin(label="b", count=1)], title="t"
    )

    assert ["90.0", "1.2"] == re.findall(r'class="bar".*?height="([\d.]+)"', picture)
    assert "" == charts.histogram([charts.Bin(label="a", count=0)], title="t")
    assert [] == charts.size_bins([0] * 32)


def test_numbers_for_people():
    """Whole numbers have separators, a share that is not nothing is not shown as nothing."""
    assert ["–", "inf", "1,234", "0.3333"] == [number(value) for value in (None, "inf", 1234.0, 1 / 3)]
    assert ["0.00 %", "< 0.01 %", "4.20 %", "55.0 %"] == [percent(value) for value in (0, 1e-9, 0.042, 0.55)]


def test_domains_that_are_not_named_are_counted():
    """A page whose report leaves out small domains says how many, in both languages."""
    page = render_page(
        report(domains_not_named={"domains": 4321, "documents": 5000, "bytes": 1, "tokens": 1})
    ).decode()

    assert "4,321 smaller domains" in page
    assert "4,321 个较小领域" in page
    assert "smaller domains" not in render_page(report()).decode()
