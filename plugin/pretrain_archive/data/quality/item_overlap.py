"""Items of benchmark sets that occur in the data, by the n-gram rule of :mod:`.contamination`.

It finds what twins do not: a short item within a long document. Where there is a set to compare with, the data are
read once more for it.
"""

from __future__ import annotations

from pretrain_archive.data.quality.contamination import Contamination, ItemGrams
from pretrain_archive.data.quality.facts import Inputs
from pretrain_archive.data.quality.neardup.sides import Side


def items_of(inputs: Inputs) -> dict[str, Contamination]:
    """What of each set's items stands in the data, by the set's name; nothing of a text is kept."""
    fields = inputs.measures.fields
    sets: dict[str, ItemGrams] = {}
    for name, shards in inputs.others.items():
        sets[name] = ItemGrams()
        for numbers, texts in Side(name=name, shards=shards, fields=fields).batches():
            sets[name].add(numbers, texts)
    if sets:
        for numbers, texts in Side(name="data", shards=inputs.shards, fields=fields).batches():
            for grams in sets.values():
                grams.look(numbers, texts)
    return {name: grams.result() for name, grams in sets.items()}
