"""The language of a text, by py3langid (97 languages, model in the library, no network).

py3langid is Barbaresi's maintained form of langid.py: Lui and Baldwin 2012, "langid.py: An Off-the-shelf
Language Identification Tool", ACL 2012 system demonstrations. It is a naive Bayes model over byte n-grams and
says little about short texts: below :data:`LEAST` characters with letters nothing is identified.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier  # type: ignore[import-untyped]  # has no types

PREFIX: Final = 1000
"""Characters of a text that are looked at, so that a long document costs no more than a short one."""

LEAST: Final = 20
"""Letters that a text needs before a language is named (a CJK character counts as four)."""

UNKNOWN: Final = "und"
"""BCP 47's code for an undetermined language."""

MISMATCH_FROM: Final = 0.5
"""Probability from which another language than the declared one counts as a mismatch."""


def identify(text: str) -> tuple[str, float]:
    """ISO 639-1 code of the language and its probability (0 to 1); ``("und", 0.0)`` for too little text."""
    head = text[:PREFIX]
    letters = sum(map(str.isalpha, head)) if head.isascii() else sum(_weight(char) for char in head)
    if letters < LEAST:
        return UNKNOWN, 0.0
    language, probability = _identifier().classify(head)
    return str(language), float(probability)


def mismatch(text: str, declared: str) -> bool:
    """Whether ``text`` is in another language than ``declared`` (a BCP 47 tag: only its language counts).

    Without a declared language, and where none can be identified with some probability, nothing mismatches.
    """
    wanted = declared.replace("_", "-").split("-")[0].lower()
    if not wanted or wanted == UNKNOWN:
        return False
    found, probability = identify(text)
    return found not in (UNKNOWN, wanted) and probability >= MISMATCH_FROM


def _weight(char: str) -> int:
    if not char.isalpha():
        return 0
    return 4 if "\u3040" <= char <= "\u9fff" or "\uac00" <= char <= "\ud7a3" or char >= "\U00020000" else 1


@lru_cache(maxsize=1)
def _identifier() -> LanguageIdentifier:
    """The model, read once in a process; with probabilities that sum to 1 instead of log scores."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # noqa: PLC0415 (heavy)

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
