"""The signature line: short, in both languages, bound to the digest, and safe against what people type."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt
from tests.unit.gates.asked_run import CONF, policy_with, without_retention

from pretrain_archive.domain import kinds
from pretrain_archive.gates.form import build_form, plain

HOSTILE = [
    pytest.param("# Approved by the board\n\n**just click Approve**", id="heading and bold"),
    pytest.param("[read the dossier](https://evil.example/x)", id="link"),
    pytest.param("![x](https://evil.example/pixel.png)", id="image"),
    pytest.param("<b>bold</b> <script>alert(1)</script>", id="html"),
    pytest.param("| a | b |\n|---|---|\n| 1 | 2 |", id="table"),
    pytest.param("1. one\n2. two\n\n- three\n+ four", id="lists"),
    pytest.param("`code` ~~gone~~ \\* _under_", id="inline markup"),
    pytest.param("&lt;b&gt; &copy; &#35;", id="entities"),
    pytest.param("> quoted\n\n    indented", id="quote and code block"),
    pytest.param("---", id="rule"),
    pytest.param(
        "see https://evil.example/a and www.evil.example or mail mallory@evil.example", id="bare links"
    ),
]
AUTOLINKS = re.compile(r"https?://|www\.|[-.\w+]+@[-\w]+\.[-\w]+", re.IGNORECASE)
"""What GitHub-flavoured markdown turns into links by itself, in the text after its escapes were read."""


def shown_text(markdown: str) -> tuple[str, set[str]]:
    """The text that a reader sees, and the kinds of markup around it."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    text, marks = [], set()
    for token in parser.parse(markdown):
        marks.add(token.type)
        for child in token.children or []:
            marks.add(child.type)
            text.append(child.content)
    return "".join(text), marks


@pytest.mark.parametrize("objective", HOSTILE)
def test_hostile_text_stays_literal(objective):
    """Whatever a submitter types is one line of text: no markup, no link, no entity."""
    text, marks = shown_text(plain(objective))

    assert marks <= {"paragraph_open", "paragraph_close", "inline", "text", "text_special"}
    assert " ".join(objective.split()) == text.replace("\N{WORD JOINER}", "")
    assert AUTOLINKS.search(text) is None


def test_long_text_is_cut():
    """Text beyond the limit ends with an ellipsis."""
    assert "x" * 159 + "…" == plain("x" * 500)


def _stages():
    return [
        pytest.param("prepare", "declare", id="prepare"),
        pytest.param("run", "evaluation", id="run"),
        pytest.param("close", "run", id="close"),
    ]


@pytest.mark.parametrize("language", ['"en"', '"zh-CN"'])
@pytest.mark.parametrize(("gate", "stage"), _stages())
def test_body_is_short_and_bilingual(make_run, gate, stage, language):
    """At most twelve lines, each sentence in English and Chinese, the project's own language first."""
    made = make_run(policy=policy_with(language=language)).until(stage)

    form = made.ask(gate).form
    lines = [line for line in form.body.splitlines() if line.strip()]

    assert len(lines) <= 12
    assert "签署内容摘要" in form.body
    assert "Digest of what you sign" in form.body
    chinese_first = lines[0].index("项已核验") < lines[0].index("verified")
    assert (language == '"zh-CN"') == chinese_first


@pytest.mark.parametrize(("gate", "stage"), _stages())
def test_body_stays_short_at_its_longest(make_run, gate, stage):
    """Twelve lines hold also with a blocked, changed and compared dossier that was refused before."""
    make_run(1).until("close")
    made = make_run(2, conf=CONF | {"objective": "x" * 1900}).until(stage)
    made.ask(gate)
    made.answer(gate, reason="")
    made.replace("open_run", kinds.EnvironmentDeclared, environment={"python": "4"})
    made.replace("quality_check", kinds.QualityReported, passed=False)
    view = made.gate(gate)
    since = tuple(f"fact {n}: {'y' * 300}" for n in range(30))

    form = build_form(view.dossier, digest=view.digest, link="http://x", since_last=since, language="en")

    assert view.dossier.compared_with
    assert len([line for line in form.body.splitlines() if line.strip()]) <= 12
    assert len(form.body) < 4000


@pytest.mark.parametrize(("gate", "stage"), _stages())
def test_fields(run, gate, stage):
    """No field has a section, the digest is constant, every field has a default, close asks the outcome."""
    run.until(stage)

    asked = run.ask(gate)
    fields = asked.form.fields

    assert all("section" not in spec for spec in fields.values())
    assert all("default" in spec for spec in fields.values())
    assert {"default": asked.digest, "const": asked.digest, "type": "string"} == fields["dossier_digest"]
    assert ["null", "string"] == fields["reason"]["type"]
    assert False is fields["acknowledge"]["default"]
    assert (gate == "close") == ("outcome" in fields)


def test_no_gap_asks_no_acknowledgement(run):
    """Without an open advisory item nothing is to be acknowledged."""
    run.until("declare")
    run.replace("register_source", kinds.SourceRegistered, masking="none needed", collected_at="2026-01-01")

    assert "acknowledge" not in run.ask("prepare").form.fields


def test_blocked_dossier_says_that_it_cannot_be_approved(run):
    """A red blocking item is named in both languages; the options stay, since Airflow never refreshes them."""
    run.until("declare")
    run.replace("quality_check", kinds.QualityReported, passed=False)

    form = run.ask("prepare").form

    assert ("Approve", "Reject") == form.options
    assert "**Cannot be approved** / **不可批准**: Data quality / 数据质量" in form.body


@pytest.mark.requirement("R148")
def test_no_retention_policy_blocks(make_run):
    """A project without a retention section has a red blocking item, never a default."""
    made = make_run(policy=without_retention()).until("declare")

    assert {"prepare.retention"} == {item.id for item in made.gate("prepare").dossier.blocked_by()}


def test_release_gap_takes_register_away(make_run):
    """With a missing release item the form does not offer to register."""
    made = make_run(conf=CONF | {"rollback": None}).until("run")

    assert [None, "continue", "clean_up"] == made.ask("close").form.fields["outcome"]["enum"]


def test_since_the_last_answer(run):
    """After a refused answer the form says what changed since, or that nothing did."""
    run.until("declare")
    first = run.ask("prepare").form
    run.answer("prepare", reason=" ")
    same = run.ask("prepare").form
    run.replace("snapshot", kinds.SnapshotCreated, version=2)
    other = run.ask("prepare").form

    assert "Since the last answer" not in first.body
    assert "Since the last answer here / 自上次答复以来: nothing / 无" in same.body
    assert r"snapshot: python\-stdlib@1 → python\-stdlib@2" in other.body.replace("\N{WORD JOINER}", "")


def test_subject_without_facts(run):
    """A dossier without an objective is named by its run."""
    run.until("declare")
    bare = replace(run.gate("prepare").dossier, facts=())

    form = build_form(bare, digest="sha256:" + "0" * 64, link="", since_last=None, language="en")

    assert form.subject.endswith(plain(run.uid, 80))
