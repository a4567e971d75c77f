"""The question that a reviewer of outputs sees: at most five items on a page, in English and 简体中文.

Texts stand in fences: nothing in them is markup, every invisible character is written out. In pairs the outputs
are called A and B; which of them is the candidate's was drawn and is recorded, and the question does not say it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pretrain_archive.domain.human_texts import PROBLEMS, SEVERITIES, WHOSE
from pretrain_archive.domain.kinds import HumanEvaluationSampled, OutputSampled
from pretrain_archive.gates.form import GateForm, both, plain
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.services.human_items import OutputItem

SUBMIT: Final = "Submit"
PAGE_SIZE: Final = 5
SKIP: Final = "skip"
SCORE: Final = "score:"


def pages_of(sampled: HumanEvaluationSampled) -> int:
    """How many pages the sample has."""
    return -(-len(sampled.items) // sampled.page_size)


def items_of(sampled: HumanEvaluationSampled, page: int) -> list[OutputSampled]:
    """The items of a page (from 1)."""
    first = (page - 1) * sampled.page_size
    return sampled.items[first : first + sampled.page_size]


def page_digest(sampled: HumanEvaluationSampled, page: int, reviewer: int) -> str:
    """What an answer must name: the sample (texts, order, scale, standard), the page and the reviewer.

    The order is not taken once more: a reviewer who knows the sample's digest could find it by trying all orders.
    """
    return digest_of({"sample": sampled.sample_digest, "page": page, "reviewer": reviewer})


def scores(sampled: HumanEvaluationSampled) -> dict[str, tuple[str, str]]:
    """The answers to one item, by code, in both languages."""
    made = {
        f"{SCORE}{point.label}": (
            f"{_compared(sampled, 'en')}{point.label}: {point.en}",
            f"{_compared(sampled, 'zh')}{point.label}：{point.zh}",
        )
        for point in sampled.scale
    }
    return made | {SKIP: ("not scored, see the note", "未评分，见备注")}


def _compared(sampled: HumanEvaluationSampled, language: str) -> str:
    if sampled.mode == "single":
        return ""
    return "A compared with B, " if language == "en" else "A 相比 B，"


def build_page(
    sampled: HumanEvaluationSampled,
    *,
    page: int,
    reviewer: int,
    language: str,
    texts: Mapping[str, OutputItem],
) -> GateForm:
    """The form of a page; ``texts`` are its items by digest."""
    digest = page_digest(sampled, page, reviewer)
    fields: dict[str, dict[str, Any]] = {
        "page_digest": {"default": digest, "const": digest, "type": "string"}
    }
    body = _head(sampled, language)
    first = (page - 1) * sampled.page_size + 1
    for number, item in enumerate(items_of(sampled, page), 1):
        shown = first + number - 1
        fields |= _fields(sampled, number, shown=shown, language=language)
        body += _item(sampled, item, texts[item.digest], shown=shown, reviewer=reviewer, language=language)
    pages = pages_of(sampled)
    title = both(f"Human evaluation, page {page} of {pages}", f"人工评估，第 {page}/{pages} 页", language)
    return GateForm(subject=title, body="\n\n".join(body), options=(SUBMIT,), fields=fields)


def _fields(
    sampled: HumanEvaluationSampled, number: int, *, shown: int, language: str
) -> dict[str, dict[str, Any]]:
    def choice(title: tuple[str, str], codes: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
        # Nothing is preset: whoever only clicks through has answered nothing.
        return {
            "default": None,
            "type": ["null", "string"],
            "enum": [None, *codes],
            "values_display": {code: both(*words, language) for code, words in codes.items()},
            "title": f"{shown}. {both(*title, language)}",
        }

    pairs = sampled.mode == "pairs"
    whose = (
        {f"whose_{number:02}": choice(("Problem of which output", "问题属于哪个输出"), WHOSE)}
        if pairs
        else {}
    )
    return {
        f"score_{number:02}": choice(("Score", "评分"), scores(sampled)),
        f"problem_{number:02}": choice(("Problem, if any", "问题（如有）"), PROBLEMS),
        f"severity_{number:02}": choice(("How bad", "严重程度"), SEVERITIES),
        **whose,
        f"note_{number:02}": {
            "default": None,
            "type": ["null", "string"],
            "title": f"{shown}. {both('Note', '备注', language)}",
        },
    }


def _head(sampled: HumanEvaluationSampled, language: str) -> list[str]:
    points = "\n".join(
        f"- **{plain(point.label, 60)}**: {both(plain(point.en, 400), plain(point.zh, 400), language)}"
        for point in sampled.scale
    )
    blind = [
        both(
            "A and B are outputs of two models, in an order that was drawn. Say how A compares with B.",
            "A 与 B 为两个模型的输出，次序随机。请判断 A 相比 B 如何。",
            language,
        )
    ]
    return [
        both(
            "Read each item and score it. **Submit** records your answers under your name.",
            "请阅读并评分每一项。**Submit** 将以您的名义记录答复。",
            language,
        ),
        *(blind if sampled.mode == "pairs" else []),
        both("Scoring standard", "评分标准", language)
        + ": "
        + both(plain(sampled.standard_en, 4000), plain(sampled.standard_zh, 4000), language),
        points,
        both(
            "An item that cannot be scored needs a note. Do not copy its text into notes: they are kept for good.",
            "无法评分的项须写备注。请勿把原文写入备注：备注将永久保存。",
            language,
        ),
    ]


def _item(
    sampled: HumanEvaluationSampled, item: OutputSampled, text: OutputItem, *, shown: int, reviewer: int,
    language: str,
) -> list[str]:  # fmt: skip
    most = sampled.show_characters
    outputs = {both("Output", "输出", language): text.output}
    if sampled.mode == "pairs":
        first, second = text.output, text.baseline or ""
        if not item.candidate_first[reviewer - 1]:
            first, second = second, first
        outputs = {"A": first, "B": second}
    lines = [f"### {shown}", f"**{both('Prompt', '提示', language)}**", fenced(text.prompt, most)]
    for title, output in outputs.items():
        lines += [f"**{title}**", fenced(output, most)]
    if item.cut:
        lines.append(
            both(f"Only the first {most} characters are shown.", f"仅显示前 {most} 个字符。", language)
        )
    return lines


def fenced(text: str, most: int) -> str:
    """At most ``most`` characters of a text as a literal block: lines stay, what is invisible is written out.

    The fence is longer than any run of tildes in the text, so that nothing in it ends the block.
    """
    kept = "".join(c if c.isprintable() or c == "\n" else f"\\u{ord(c):04x}" for c in text[:most])
    fence = "~" * (2 + max(2, *(len(run) for run in re.findall(r"~+", kept)), 0))
    return f"{fence}text\n{kept}\n{fence}"
