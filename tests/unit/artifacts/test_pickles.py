"""Pickles of strangers: walked within bounds, never loaded."""

from __future__ import annotations

import collections
import pickle
import pickletools
import struct
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pretrain_archive.artifacts.formats import dcp, pickles
from pretrain_archive.artifacts.formats.pickles import Made, Name, Pairs, walk
from pretrain_archive.domain.errors import CheckpointError


def anything(module: str, name: str) -> bool:
    """Every name is allowed: nothing is looked up all the same."""
    return bool(module and name)


def plain(value: object) -> object:
    """A walked value in the terms of the one that was pickled."""
    if isinstance(value, Pairs):
        return {key: plain(item) for key, item in value.items}
    if isinstance(value, list | tuple):
        return type(value)(plain(item) for item in value)
    return value


def outcome(raw: bytes) -> str:
    """``value``, or how the refusal begins; every other error goes through."""
    try:
        walk(raw, where="x", allowed=anything)
    except CheckpointError as error:
        return error.message[:3]
    return "value"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES, st.sampled_from([0, 1, 2, 3, 4, 5]))
@settings(max_examples=150, deadline=None)
def test_plain_values_are_walked_as_they_were(value, protocol):
    """Of plain data, the walker and the unpickler see the same, in every protocol."""
    raw = pickle.dumps(value, protocol=protocol)
    if any(opcode.name == "GLOBAL" for opcode, _, _ in pickletools.genops(raw)):
        return  # old protocols make bytes by a call

    assert value == plain(walk(raw, where="x", allowed=anything))


@given(st.binary(max_size=400))
@settings(max_examples=300, deadline=None)
def test_any_bytes_end_in_a_value_or_a_clear_error(raw):
    """No other error comes out, whatever goes in."""
    for head in (b"", b"\x80\x04"):
        assert outcome(head + raw + b".") in {"value", "x: "}


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_a_damaged_pickle_ends_in_a_value_or_a_clear_error(data):
    """A true pickle with some bytes changed, cut or doubled."""
    raw = bytearray(pickle.dumps(collections.OrderedDict(a=[1, (2, 3)], b={"c": "d" * 300}), protocol=4))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(1, len(raw)))
    assert outcome(bytes(raw[:cut])) in {"value", "x: "}


def test_what_would_be_called_is_only_named():
    """A call becomes what would be called and with what."""
    made = walk(pickle.dumps(collections.OrderedDict(a=1)), where="x", allowed=anything)

    assert isinstance(made, Made)
    assert isinstance(made.what, Name)
    assert ("collections", "OrderedDict") == (made.what.module, made.what.name)
    assert [("a", 1)] == made.state.items


BOMBS = {
    "system": b"cos\nsystem\n(S'touch HACKED'\ntR.",
    "exec by global": b"c__builtin__\nexec\n(Vopen('HACKED','w')\ntR.",
    "stack global": b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x0ctouch HACKED\x85R.",
    "dotted name": b"\x80\x04\x8c\x24torch.distributed.checkpoint.metadata\x8c\x09os.system\x93.".replace(
        b"\x24", b"%"
    ),
    "instance": b"(S'touch HACKED'\nios\nsystem\n.",
    "extension": b"\x80\x02\x82\x01.",
    "persistent id": b"Pposix.system\n.",
    "out of band": b"\x80\x05\x97.",
}


@pytest.mark.parametrize("name", BOMBS)
def test_nothing_of_a_bomb_happens(name, tmp_path, monkeypatch):
    """Refused with a reason, without a file, a process or an import."""
    monkeypatch.chdir(tmp_path)
    modules = set(sys.modules)

    with pytest.raises(CheckpointError):
        dcp.read_metadata(BOMBS[name])

    assert [] == list(tmp_path.iterdir())
    assert modules == set(sys.modules)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        pytest.param(b"", "not a whole pickle", id="empty"),
        pytest.param(b"\x80\x04" + b"(" * 5000 + b".", "nested too deeply", id="marks"),
        pytest.param(
            b"\x80\x04\x8e" + struct.pack("<Q", 1 << 62) + b".", "not a whole pickle", id="huge bytes"
        ),
        pytest.param(
            b"\x80\x04\x8b" + struct.pack("<i", -5) + b".", "not a whole pickle", id="negative number"
        ),
        pytest.param(b"I" + b"9" * 10_000 + b"\n.", "not a whole pickle", id="endless digits"),
        pytest.param(b"\x80\x04h\x07.", "not a whole pickle", id="memo of nothing"),
        pytest.param(b"\x80\x04}}s.", "not a whole pickle", id="empty stack"),
        pytest.param(b"\x80\x04]]..", "leaves a stack", id="two values"),
        pytest.param(b"\x80\x04N", "not a whole pickle", id="no end"),
    ],
)
def test_broken_pickles_are_refused_with_a_reason(raw, words):
    """In words, before anything large is made."""
    with pytest.raises(CheckpointError, match=words):
        walk(raw, where="x", allowed=anything)


def test_sharing_cannot_multiply_the_work():
    """A list that stands in itself a hundred times over (a billion laughs) is one list; shared chunks are counted."""
    laughs = b"\x80\x04]\x94" + b"".join(
        b"](" + b"h" + bytes([level]) + (b"h" + bytes([level])) * 9 + b"e\x94" for level in range(60)
    )
    value = walk(laughs + b"0" * 60 + b".", where="x", allowed=anything)

    assert [] == value


def test_memory_stays_within_the_bounds():
    """The smallest opcode that makes an object takes under 100 bytes of memory: the limit bounds all of it."""
    program = (
        "from pretrain_archive.artifacts.formats import pickles\n"
        "from tests.support.memory import peak_bytes\n"
        "raw, before = b'\\x80\\x04' + b']' * 600_000 + b'.', peak_bytes()\n"
        "pickles.MAX_OPCODES = 500_000\n"
        "try:\n"
        "    pickles.walk(raw, where='x', allowed=lambda m, n: True)\n"
        "except pickles.TooLargeError:\n"
        "    print(peak_bytes() - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert 0 < int(done.stdout) < 100 * 500_000
    assert pickles.MAX_OPCODES * 100 < 1 << 30
