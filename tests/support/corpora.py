"""A large corpus of believable documents from a seed, made fast."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

WORDS = 60_000
_TEXT = "the of and to a in is that for it as was with be by on not he his but at are this have from or had an they"
COMMON = _TEXT.split()
_PARTS = "ba co di fe ga hu in jo ka le mi no or pe qui ra so ti un ve wa xi yo za str ent ing ion ed er al"
SYLLABLES = _PARTS.split()
CHINESE = "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者意无力它与长把机十民第公此已工使情明性知全三又关点正业外将两高间由问很最重并物手应战向头文体政美相见被利什二等产或新己制身果加西斯月话合回特代内信表化老给世位次度门任常先海通教儿原东声提立及比员解水名真论处走义各入几口认条平系气题活尔更别打女变四神总何电数安少报才结反受目太量再感建务做接必场件计管期市直德资命山金指克许统区保至队形社便空决治展马科司五基眼书非则听白却界达光放强即像难且权思王象完设式色路记南品住告类求据程北边死张该交规万取拉格望觉术领共确传师观清今切院让识候带导争运"  # noqa: E501


SENTENCES = 60_000


def documents(seed: int, count: int) -> Iterator[str]:
    """Documents of 1 to 4 KB, put together from sentences whose words follow Zipf's law; a tenth is Chinese.

    Of a hundred documents two repeat an earlier one exactly, one with some words changed, and one or two hold an
    address and a number that look personal.
    """
    rng = np.random.default_rng(seed)
    english, chinese = _english(rng, SENTENCES), _chinese(rng, SENTENCES // 10)
    kept: list[str] = []
    for number in range(count):
        kind = float(rng.random())
        if kept and kind < 0.03:
            text = kept[int(rng.integers(len(kept)))]
            yield text if kind < 0.02 else text.replace(" the ", " a ", 2)
            continue
        pool = chinese if kind > 0.9 else english
        picks = rng.integers(len(pool), size=int(rng.integers(9, 37))).tolist()
        text = "".join([pool[pick] for pick in picks]).rstrip()
        if kind < 0.045:
            name = english[number % 5000][:4].strip()
            text += f"\nWrite to {name}.{seed}@some{number % 800}mail.com, or ask for {number}."
        if number % 20 == 0 and len(kept) < 4000:
            kept.append(text)
        yield text


def write_shard(path: Path, seed: int, size: int) -> int:
    """Write JSON Lines of about ``size`` bytes (gzip if the name says so); return the documents."""
    count = 0
    with gzip.open(path, "wb", compresslevel=1) if path.suffix == ".gz" else path.open("wb") as stream:
        written = 0
        for text in documents(seed, 1 << 40):
            domain = ("web", "books", "forum", "news")[count % 4]
            record = {"id": f"{seed}-{count}", "domain": domain, "text": text}
            line = json.dumps(record, ensure_ascii=False).encode() + b"\n"
            stream.write(line)
            written += len(line)
            count += 1
            if written >= size:
                return count
    return count


def _vocabulary(rng: np.random.Generator) -> list[str]:
    made = dict.fromkeys(COMMON)
    while len(made) < WORDS:
        picks = rng.integers(len(SYLLABLES), size=int(rng.integers(2, 5)))
        made["".join(SYLLABLES[pick] for pick in picks)] = None
    return list(made)


def _english(rng: np.random.Generator, count: int) -> list[str]:
    words = np.array(_vocabulary(np.random.default_rng(1)), dtype=object)
    weights = 1 / np.arange(2, len(words) + 2)
    bounds = np.cumsum(weights / weights.sum())
    lengths = rng.integers(6, 28, size=count)
    chosen = words[np.searchsorted(bounds, rng.random(int(lengths.sum()))).clip(max=len(words) - 1)].tolist()
    sentences, at = [], 0
    for number, length in enumerate(lengths.tolist()):
        sentence = " ".join(chosen[at : at + length])
        at += length
        sentences.append(sentence[0].upper() + sentence[1:] + (".\n" if number % 5 == 4 else ". "))
    return sentences


def _chinese(rng: np.random.Generator, count: int) -> list[str]:
    lengths = rng.integers(12, 60, size=count)
    picks = np.minimum(rng.geometric(0.008, size=int(lengths.sum())), len(CHINESE)) - 1
    text = "".join([CHINESE[pick] for pick in picks.tolist()])
    ends = np.cumsum(lengths).tolist()
    starts = [0, *ends[:-1]]
    return [
        text[start:end] + ("。\n" if end % 5 == 4 else "。") for start, end in zip(starts, ends, strict=True)
    ]
