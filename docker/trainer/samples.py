r"""A few continuations that persons can read: the same prompts for the trained and the untrained model.

Prompts are pieces of validation documents, spread evenly over the split. Each is continued greedily, so that the
same checkpoint always writes the same bytes. Prompt and continuation fit into one context, so that a reader sees
all that the model saw. Bytes that are no UTF-8 text are written out as ``\xff``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from configuration import Configuration
from corpus import BOUNDARY, Corpus
from model import Transformer, precision

PROMPTS = 6
LONGEST = 32
"""Bytes of a continuation, at most; half a context where that is less. A prompt is at most twice as long."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """Some bytes of a document (from 1, in byte order of the paths) from its byte ``at`` on."""

    document: int
    at: int
    content: bytes


def choose_prompts(corpus: Corpus, *, context: int) -> list[Prompt]:
    """At most :data:`PROMPTS` pieces of as many documents: from the line in the middle of each, whole characters."""
    stream = corpus.stream
    starts = np.flatnonzero(stream == BOUNDARY)
    ends = np.append(starts[1:], len(stream))
    filled = np.flatnonzero(ends - starts > 1)
    chosen = filled[np.unique(np.linspace(0, len(filled) - 1, min(PROMPTS, len(filled))).astype(int))]
    length = min(2 * LONGEST, context - _length(context))
    made = []
    for document in chosen.tolist():
        content = stream[starts[document] + 1 : ends[document]].astype(np.uint8).tobytes()
        at = content.rfind(b"\n", 0, len(content) // 2) + 1
        made.append(Prompt(document=document + 1, at=at, content=_whole(content[at : at + length])))
    return made


def continuations(model: Transformer, prompts: Sequence[Prompt], configuration: Configuration) -> list[bytes]:
    """What the model writes after each prompt, always the most probable byte; all prompts in one batch."""
    context = configuration.model.context
    length = _length(context)
    symbols = np.full((len(prompts), context), BOUNDARY, dtype=np.int64)
    for row, prompt in enumerate(prompts):
        symbols[row, : len(prompt.content)] = np.frombuffer(prompt.content, dtype=np.uint8)
    seen = torch.from_numpy(symbols)
    rows, last = torch.arange(len(prompts)), torch.tensor([len(prompt.content) for prompt in prompts])
    with torch.no_grad(), precision(configuration):
        for written in range(length):
            logits = model(seen[:, : int(last.max()) + written])[rows, last + written - 1]
            seen[rows, last + written] = logits.float().argmax(dim=-1)
    return [
        bytes(row[size : size + length])
        for row, size in zip(seen.tolist(), last.tolist(), strict=True)
    ]  # fmt: skip


def items(
    prompts: Sequence[Prompt], outputs: Sequence[bytes], baseline: Sequence[bytes], *, name: str
) -> list[dict[str, Any]]:
    """What is written, one object a line: id, prompt, output, and the baseline's output with its ``name``."""
    return [
        {
            "id": f"document {prompt.document}, byte {prompt.at}",
            "prompt": _text(prompt.content),
            "output": _text(ours),
            "baseline": _text(theirs),
            "baseline_name": name,
        }
        for prompt, ours, theirs in zip(prompts, outputs, baseline, strict=True)
    ]


def _length(context: int) -> int:
    return min(LONGEST, context // 2)


def _whole(content: bytes) -> bytes:
    """Without a character that the cut left incomplete, where the rest is UTF-8 text."""
    for cut in range(min(4, len(content))):
        kept = content[: len(content) - cut]
        try:
            kept.decode()
        except UnicodeDecodeError:
            continue
        return kept
    return content


def _text(content: bytes) -> str:
    return content.decode("utf-8", "backslashreplace")
