"""The question that a reviewer of labels sees: at most ten documents on a page, in English and 简体中文.

Airflow keeps a question's text in its database, so a page says where each document lies; it holds the
beginning of its text only where the policy says ``show = "excerpt"``.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pretrain_archive.domain.kinds import LabelsSampled, SampledItem
from pretrain_archive.gates.form import GateForm, both, plain
from pretrain_archive.ledger.canonical import digest_of

SUBMIT: Final = "Submit"
PAGE_SIZE: Final = 10
EXCERPT: Final = 600
"""Characters of a text that a question shows at most."""
MOST_CHOICES: Final = 40
"""Labels up to which the right one can be chosen; of more it is written in the note."""


def pages_of(sampled: LabelsSampled) -> int:
    """How many pages the sample has."""
    return -(-len(sampled.items) // sampled.page_size)


def items_of(sampled: LabelsSampled, page: int) -> list[SampledItem]:
    """The documents of a page (from 1)."""
    first = (page - 1) * sampled.page_size
    return sampled.items[first : first + sampled.page_size]


def page_digest(sampled: LabelsSampled, page: int, reviewer: int) -> str:
    """What an answer must name: sample, page and which of the reviewers is asked."""
    return digest_of({"sample": sampled.sample_digest, "page": page, "reviewer": reviewer})


def choices(sampled: LabelsSampled, item: SampledItem) -> dict[str, tuple[str, str]]:
    """The answers to one document, by code, in both languages."""
    made = {"agree": (f"agree: {item.label}", f"同意：{item.label}")}
    others = [label for label in sampled.labels if label != item.label]
    if len(others) <= MOST_CHOICES:
        made |= {
            f"wrong:{label}": (f"wrong label, it is {label}", f"标签有误，应为 {label}") for label in others
        }
    return made | {
        "wrong": ("wrong label, see the note", "标签有误，见备注"),
        "problem": ("a problem with the document, see the note", "文档有问题，见备注"),
    }


def build_page(
    sampled: LabelsSampled,
    *,
    page: int,
    reviewer: int,
    language: str,
    excerpts: Mapping[str, str] | None = None,
) -> GateForm:
    """The form of a page; ``excerpts`` (by digest) are shown where they are given."""
    items = items_of(sampled, page)
    digest = page_digest(sampled, page, reviewer)
    first = (page - 1) * sampled.page_size + 1
    fields: dict[str, dict[str, Any]] = {
        "page_digest": {"default": digest, "const": digest, "type": "string"}
    }
    for number, item in enumerate(items, 1):
        fields |= _fields(sampled, item, number, shown=first + number - 1, language=language)
    pages = pages_of(sampled)
    title = both(f"Label review, page {page} of {pages}", f"标签复核，第 {page}/{pages} 页", language)
    return GateForm(
        subject=f"{title}: {plain(sampled.snapshot, 80)}",
        body="\n\n".join(
            [*_head(sampled, language), *_listed(sampled, items, first, language, excerpts or {})]
        ),
        options=(SUBMIT,),
        fields=fields,
    )


def _fields(
    sampled: LabelsSampled, item: SampledItem, number: int, *, shown: int, language: str
) -> dict[str, dict[str, Any]]:
    codes = choices(sampled, item)
    return {
        f"answer_{number:02}": {
            # Nothing is preset: whoever only clicks through has answered nothing.
            "default": None,
            "type": ["null", "string"],
            "enum": [None, *codes],
            "values_display": {code: both(*words, language) for code, words in codes.items()},
            "title": both(f"{shown}. Is it {item.label}?", f"{shown}. 是否为 {item.label}？", language),
        },
        f"note_{number:02}": {
            "default": None,
            "type": ["null", "string"],
            "title": both(f"{shown}. Note", f"{shown}. 备注", language),
        },
    }


def _head(sampled: LabelsSampled, language: str) -> list[str]:
    lines = [
        both(
            "Read each document and say whether its label is right. **Submit** records your answers under your name.",
            "请阅读每篇文档并判断标签是否正确。**Submit** 将以您的名义记录答复。",
            language,
        ),
        both(
            "Do not copy text of the data into notes: they are kept for good.",
            "请勿把数据原文写入备注：备注将永久保存。",
            language,
        ),
    ]
    if sampled.definition_name is None:
        return [*lines, both("No label definition is recorded.", "未记录标签定义。", language)]
    known = [f"- **{plain(label, 60)}**: {plain(text)}" for label, text in sampled.labels.items()][
        :MOST_CHOICES
    ]
    name = f"{plain(sampled.definition_name, 60)} {plain(sampled.definition_version or '', 30)}"
    return [*lines, both("Label definition", "标签定义", language) + f": {name}", "\n".join(known)]


def _listed(
    sampled: LabelsSampled,
    items: Sequence[SampledItem],
    first: int,
    language: str,
    excerpts: Mapping[str, str],
) -> list[str]:
    made = []
    for number, item in enumerate(items, first):
        place = plain(item.path, 200) + (f", {both('line', '行', language)} {item.line}" if item.line else "")
        lines = [f"**{number}\\. {plain(item.label, 60)}**: {place}"]
        if item.digest in excerpts:
            lines.append(f"> {plain(excerpts[item.digest], EXCERPT)}")
        else:
            command = f"pretrain-archive labels show {sampled.snapshot} {item.digest[7:19]}"
            lines.append(f"`{shlex.join(command.split()) if '`' not in command else ''}`")
        made.append("\n\n".join(lines))
    return made
