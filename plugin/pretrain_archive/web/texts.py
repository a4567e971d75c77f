"""What the pages say, in English and 简体中文, in the words that Airflow itself uses.

Every entry holds both languages; pages render both and the style sheet shows one, so that a change of
language needs no second request and nothing flashes. Ids, digests, keys and codes are never translated.
"""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup, escape

from pretrain_archive.package.words_kinds import KIND_WORDS
from pretrain_archive.web.texts_compute import COMPUTE
from pretrain_archive.web.texts_gates import GATES
from pretrain_archive.web.texts_governance import GOVERNANCE
from pretrain_archive.web.texts_human import HUMAN
from pretrain_archive.web.texts_reviews import REVIEWS
from pretrain_archive.web.texts_runs import RUNS

LANGUAGES = ("en", "zh-CN")
TEXTS: dict[str, tuple[str, str]] = {
    **{f"kind.{kind}": words for kind, words in KIND_WORDS.items()},
    **COMPUTE, **RUNS, **GATES, **REVIEWS, **GOVERNANCE, **HUMAN,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Text:
    """One thing to say, in both languages; templates print it as two marked spans."""

    en: str
    zh: str

    def __html__(self) -> Markup:
        """Both languages, each marked with its own ``lang``."""
        if self.en == self.zh:
            return escape(self.en)
        return Markup('<span class="en" lang="en">{}</span><span class="zh" lang="zh-CN">{}</span>').format(
            self.en, self.zh
        )


def say(key: str, **values: object) -> Text:
    """The text of ``key`` with its blanks filled; an unknown key is a ``KeyError``.

    ``values`` may be texts themselves; what they hold is escaped when the page is written.
    """
    en, zh = TEXTS[key]
    return Text(
        en=en.format_map(
            {name: value.en if isinstance(value, Text) else value for name, value in values.items()}
        ),
        zh=zh.format_map(
            {name: value.zh if isinstance(value, Text) else value for name, value in values.items()}
        ),
    )


def known(key: str) -> bool:
    """Whether there is a text for ``key``."""
    return key in TEXTS
