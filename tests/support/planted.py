"""Documents with planted near duplicates, and the exact similarity of every planted pair."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from dataclasses import dataclass

LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Planted:
    """Texts in order, and the Jaccard similarity of each pair of one planted group, by their places."""

    texts: list[str]
    truth: dict[tuple[int, int], float]

    def at_least(self, low: float, below: float = 1.1) -> set[tuple[int, int]]:
        """The planted pairs in a band of similarity."""
        return {pair for pair, value in self.truth.items() if low <= value < below}


def shingle_set(text: str, k: int = 5) -> set[tuple[str, ...]]:
    """The distinct runs of ``k`` words, of all words if there are fewer."""
    words = text.split()
    return {tuple(words[i : i + k]) for i in range(max(1, len(words) - k + 1))} if words else set()


def jaccard(left: str, right: str, k: int = 5) -> float:
    """The exact similarity of two texts."""
    one, two = shingle_set(left, k), shingle_set(right, k)
    return len(one & two) / len(one | two) if one | two else 0.0


def brute_force(
    texts: list[str], pairs: Iterable[tuple[int, int]] | None = None
) -> dict[tuple[int, int], float]:
    """The exact similarity of every pair (or of ``pairs``)."""
    sets = [shingle_set(text) for text in texts]
    found = {}
    for a, b in itertools.combinations(range(len(texts)), 2) if pairs is None else pairs:
        either = len(sets[a] | sets[b])
        found[a, b] = len(sets[a] & sets[b]) / either if either else 0.0
    return found


def planted(documents: int, least: int, most: int, *, seed: int, share: float = 0.15) -> Planted:
    """``documents`` texts of ``least`` to ``most`` words, of which ``share`` begin a group of two or three.

    Members are made from the group's first text by replacing, removing and adding words, so that similarities fill
    the range from 0.6 to 1; the texts are shuffled, then the truth is computed by brute force within every group.
    """
    draw = random.Random(seed)
    words = [
        "".join(draw.choices(LETTERS, k=draw.choice((2, 3, 4, 5, 6, 7, 8, 9, 11)))) for _ in range(30_000)
    ]
    grouped: list[tuple[int, str]] = []
    group = 0
    while len(grouped) < documents:
        base = draw.choices(words, k=draw.randint(least, most))
        grouped.append((group, " ".join(base)))
        if draw.random() < share:
            grouped += [(group, _edited(base, draw, words)) for _ in range(draw.choice((1, 1, 2)))]
        group += 1
    grouped = grouped[:documents]
    draw.shuffle(grouped)
    members: dict[int, list[int]] = {}
    for place, (number, _) in enumerate(grouped):
        members.setdefault(number, []).append(place)
    pairs = [pair for places in members.values() for pair in itertools.combinations(places, 2)]
    texts = [text for _, text in grouped]
    return Planted(texts=texts, truth=brute_force(texts, pairs))


def _edited(base: list[str], draw: random.Random, words: list[str]) -> str:
    wanted = draw.uniform(0.62, 0.99)
    # One edit spoils about five shingles of each side: (n - 5e) / (n + 5e) = wanted.
    edits = round((len(base) - 4) * (1 - wanted) / (1 + wanted) / 5)
    text = list(base)
    for _ in range(edits):
        place = draw.randrange(len(text))
        match draw.randrange(3):
            case 0:
                text[place] = draw.choice(words)
            case 1:
                del text[place]
            case _:
                text.insert(place, draw.choice(words))
    return " ".join(text)
