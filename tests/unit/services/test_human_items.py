"""The file of outputs: read as a foreign one, drawn by seed, bound to its checkpoint."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import random
from typing import Any

import pytest
from tests.support.human_run import ITEMS

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import InputError
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.services import human_items

DIGEST = "sha256:" + "ab" * 32
SUBJECT = kinds.CheckpointRegistered.model_construct(checkpoint_id="ckpt_1", digest=DIGEST)


def lines(items: list[Any]) -> bytes:
    """Items as a file."""
    return b"".join(
        (item if isinstance(item, bytes) else json.dumps(item).encode()) + b"\n" for item in items
    )


def drawn(raw: bytes, *, pairs: bool = True, size: int = 5, seed: int = 3) -> human_items.Drawn:
    """A sample of a file."""
    return human_items.draw(
        io.BytesIO(raw), where="items.jsonl", pairs=pairs, subject=SUBJECT, size=size, seed=seed
    )


def test_the_sample_follows_from_items_and_seed() -> None:
    """The order of the lines and blank ones change nothing; another seed draws another sample."""
    shuffled = random.Random(1).sample(ITEMS, len(ITEMS))
    first, second = drawn(lines(ITEMS)), drawn(b"\n" + lines(shuffled) + b"  \n")

    assert [i.item_id for i in first.items] == [i.item_id for i in second.items]
    assert [i.item_id for i in first.items] != [i.item_id for i in drawn(lines(ITEMS), seed=4).items]
    assert (5, 12, 0, "untrained") == (len(first.items), first.count, first.duplicates, first.baseline_name)
    assert first.digest != second.digest
    ids = {item.item_id for seed in range(60) for item in drawn(lines(ITEMS), size=1, seed=seed).items}
    assert {item["id"] for item in ITEMS} == ids  # every item can be drawn


def test_an_item_is_what_is_shown() -> None:
    """The digest is over prompt and outputs; a baseline that is not shown is none of it."""
    [item] = drawn(lines(ITEMS[:1])).items
    [alone] = drawn(lines(ITEMS[:1]), pairs=False).items

    texts = {"prompt": ITEMS[0]["prompt"], "output": ITEMS[0]["output"]}
    assert digest_of({**texts, "baseline": ITEMS[0]["baseline"]}) == item.digest
    assert digest_of({**texts, "baseline": None}) == alone.digest
    assert (True, False) == (item.identical, alone.identical)


def test_repeated_items_are_drawn_once() -> None:
    """The same texts twice are one item, counted."""
    twice = drawn(lines([*ITEMS, *[item | {"id": f"again-{item['id']}"} for item in ITEMS]]), size=500)

    assert (12, 12, 12) == (len(twice.items), twice.count, twice.duplicates)


@pytest.mark.parametrize(
    ("about", "stated"),
    [
        pytest.param(["ckpt_1", DIGEST], True, id="by id and digest"),
        pytest.param(["ckpt_1", None], False, id="one line says nothing"),
    ],
)
def test_stated_checkpoint(about: list[str | None], stated: bool) -> None:
    """A file is about the checkpoint only if every line says so."""
    items = [item | ({"checkpoint": name} if name else {}) for item, name in zip(ITEMS, about, strict=False)]

    assert stated is drawn(lines(items)).stated


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        pytest.param(b"{", "not valid JSON", id="no JSON"),
        pytest.param(b'{"prompt": "a", "prompt": "b", "output": "c"}', "duplicate key", id="a key twice"),
        pytest.param(b'{"prompt": NaN, "output": "c"}', "not JSON", id="NaN"),
        pytest.param(b"\xff\xfe", "not UTF-8", id="no UTF-8"),
        pytest.param(pickle.dumps(os.getcwd), "not UTF-8|not valid JSON", id="a pickle"),
        pytest.param(gzip.compress(b"{}", mtime=0).replace(b"\n", b""), "not UTF-8", id="compressed"),
        pytest.param(b"\xef\xbb\xbf{}", "not valid JSON", id="a byte order mark"),
        pytest.param(b'{"n": ' + b"9" * 5000 + b"}", "not valid JSON", id="a number of 5000 digits"),
        pytest.param(
            b'{"prompt": "a", "output": "b", "baseline": "c", "baseline_name": "untrained", "id": 1e999}',
            "no text of 1 to",
            id="1e999",
        ),
        pytest.param(
            b'{"prompt": "a", "output": "b", "baseline": "c", "n": -Infinity}', "not JSON", id="infinity"
        ),
        pytest.param(b"[" * 100_000, "nested too deeply|not valid JSON", id="nested"),
        pytest.param(b'["a"]', "is no JSON object", id="a list"),
        pytest.param({"output": "a", "baseline": "b"}, "has no text 'prompt'", id="no prompt"),
        pytest.param({"prompt": "a", "output": 3, "baseline": "b"}, "has no text 'output'", id="a number"),
        pytest.param({"prompt": "a", "output": "b"}, "has no text 'baseline'", id="no baseline in pairs"),
        pytest.param(
            b'{"prompt": "\\ud800", "output": "b", "baseline": "c"}', "no UTF-8 text", id="half a character"
        ),
        pytest.param(ITEMS[1] | {"checkpoint": "ckpt_2"}, "another checkpoint", id="another checkpoint"),
        pytest.param(ITEMS[1] | {"id": "q0"}, "an earlier line gave to another item", id="an id twice"),
        pytest.param(ITEMS[1] | {"id": "x" * 201}, "no text of 1 to 200", id="a long id"),
        pytest.param(ITEMS[1] | {"baseline_name": "other"}, "another baseline", id="two baselines"),
        pytest.param(b'{"prompt": "' + b"x" * (1 << 20) + b'"}', "longer than", id="a long line"),
    ],
)
def test_hostile_lines(bad: Any, message: str) -> None:
    """What cannot be read as an item is refused with its line; nothing is skipped in silence."""
    with pytest.raises(InputError, match=message) as refused:
        drawn(lines([ITEMS[0], bad]))

    assert "line 2" in str(refused.value)


def test_empty_file() -> None:
    """No item, no sample."""
    with pytest.raises(InputError, match="holds no item"):
        drawn(b"\n\n")


@pytest.mark.parametrize(
    "items",
    [
        pytest.param(ITEMS, id="different ones"),
        pytest.param([ITEMS[0] | {"id": f"again-{n}"} for n in range(9)], id="one again and again"),
    ],
)
def test_too_many_items(monkeypatch: pytest.MonkeyPatch, items: list[dict[str, Any]]) -> None:
    """A file beyond the bounds is refused before it is held, also where each line repeats the first."""
    monkeypatch.setattr(human_items, "MOST_ITEMS", 3)

    with pytest.raises(InputError, match="more than 3 items"):
        drawn(lines(items))


@pytest.mark.requirement("R118")
@pytest.mark.parametrize("seed", [0, 7])
def test_order_is_drawn(seed: int) -> None:
    """For each reviewer alone, the candidate stands first about half the time, and always the same."""
    digests = [digest_of({"n": n}) for n in range(400)]

    def order(source: str, who: int) -> list[bool]:
        return [human_items.candidate_first(seed, source, digest, who) for digest in digests]

    orders = [order("file", 1), order("file", 2), order("another file", 1)]

    assert orders == [order("file", 1), order("file", 2), order("another file", 1)]
    assert all(150 < sum(order) < 250 for order in orders)
    for first, second in ((0, 1), (0, 2)):  # neither another reviewer's nor a guess without the file tells it
        assert 100 < sum(a == b for a, b in zip(orders[first], orders[second], strict=True)) < 300
