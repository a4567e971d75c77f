"""The model card of a release, made from its records in English and 简体中文: nothing is asked, nothing is guessed.

What nobody recorded is printed as unrecorded with the reason, where it belongs and once more at the end. The same
records give the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pretrain_archive.domain.kinds import ReleaseMade
from pretrain_archive.domain.releases import standing_release
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.package import model_card_evaluation as judged
from pretrain_archive.package import model_card_model as model
from pretrain_archive.package import model_card_origin as origin
from pretrain_archive.package.model_card_format import clean, metadata
from pretrain_archive.package.model_card_parts import Row, Said, Section, Table, Words, gaps

ENGLISH, CHINESE = 0, 1
FILES = {"README.md": ENGLISH, "README.zh-CN.md": CHINESE}
"""The card's files by language."""

UNRECORDED: Words = ("*unrecorded*", "*未记录*")
COLON: Words = (": ", "：")
PARENTHESES: tuple[Words, Words] = ((" (", ")"), ("（", "）"))
REST: Words = ("What is unrecorded", "未记录的内容")
WHOLE: Words = ("Nothing that this card asks for.", "本卡片所列内容均有记录。")
MADE: Words = (
    "Made from the records of the training run; the package beside it proves them.",
    "本卡片由训练记录生成；随附的归档包可证明这些记录。",
)
MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~!&$])")


def write_model_card(view: RunView) -> dict[str, bytes]:
    """File name to bytes of the card in both languages; empty where the run released nothing."""
    found = standing_release(view)
    if found is None:
        return {}
    record, made = found
    chapters = sections(view)
    head = metadata(view, record, made)
    return {
        name: f"---\n{head}---\n\n{_body(made, chapters, language)}".encode()
        for name, language in FILES.items()
    }


def sections(view: RunView) -> list[Section]:
    """The chapters of the card; empty where the run released nothing."""
    found = standing_release(view)
    if found is None:
        return []
    record, made = found
    return [
        model.identity(view, record, made),
        model.use(view, made),
        judged.evaluation(view, made),
        judged.persons(view, made),
        model.choice(view),
        model.serving(made),
        model.ending(made),
        origin.data(view),
        origin.training(view),
        origin.dependencies(made),
        origin.integrity(view, made),
        origin.people(view),
    ]


def _body(made: ReleaseMade, chapters: Sequence[Section], language: int) -> str:
    lines = [f"# {escape(made.name)} {escape(made.version)}", "", MADE[language], ""]
    for chapter in chapters:
        lines += [f"## {chapter.title[language]}", ""]
        lines += [_row(entry, language) for entry in chapter.rows]
        lines += [""] if chapter.rows else []
        for table in chapter.tables:
            lines += [*_table(table, language), ""]
        lines += [f"{say(note, language)}\n" for note in chapter.notes]
    missing = gaps(chapters)
    lines += [f"## {REST[language]}", ""]
    lines += [
        f"- {title[language]} / {label[language]}{COLON[language]}{escape(reason[language])}"
        for title, label, reason in missing
    ] or [WHOLE[language]]
    return "\n".join(lines).rstrip() + "\n"


def _row(entry: Row, language: int) -> str:
    label = f"- **{entry.label[language]}**{COLON[language]}"
    if entry.value is None or not entry.known:
        opened, closed = PARENTHESES[language]
        return f"{label}{UNRECORDED[language]}{opened}{escape(entry.gap[language])}{closed}"
    if entry.code and isinstance(entry.value, str):
        return f"{label}`{clean(entry.value).replace('`', chr(39))}`"
    return label + say(entry.value, language)


def _table(table: Table, language: int) -> list[str]:
    head = "| " + " | ".join(title[language] for title in table.head) + " |"
    rule = "|" + " --- |" * len(table.head)
    rows = [
        "| " + " | ".join(UNRECORDED[language] if not cell else say(cell, language) for cell in row) + " |"
        for row in table.rows
    ]
    return [head, rule, *rows]


def say(value: Said, language: int) -> str:
    """A value in one language, as text that no Markdown reader takes for markup."""
    return escape(value if isinstance(value, str) else value[language])


def escape(text: str) -> str:
    """``text`` on one line with every character escaped that means something in Markdown or HTML."""
    return (
        MARKUP.sub(r"\\\1", clean(text)).replace("\\<", "&lt;").replace("\\&", "&amp;").replace("\\>", "&gt;")
    )
