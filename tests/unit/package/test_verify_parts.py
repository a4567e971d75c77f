"""The verifier's own arithmetic against published vectors and independent implementations."""

from __future__ import annotations

import json
import random
import struct

import pytest
import rfc8785
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from pretrain_archive.domain import merkle
from pretrain_archive.package import verify

# RFC 8032 section 7.1: public key, message, signature.
VECTORS = [
    pytest.param(
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
        "d25bf5f0595bbe24655141438e7a100b",
        id="TEST 1",
    ),
    pytest.param(
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
        "387b2eaeb4302aeeb00d291612bb0c00",
        id="TEST 2",
    ),
    pytest.param(
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc659"
        "4a7c15e9716ed28dc027beceea1ec40a",
        id="TEST 3",
    ),
    pytest.param(
        "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
        "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd"
        "454d4423643ce80e2a9ac94fa54ca49f",
        "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431e030"
        "3dca179c138ac17ad9bef1177331a704",
        id="TEST SHA(abc)",
    ),
]


@pytest.mark.parametrize(("key", "message", "signature"), VECTORS)
def test_signature_vectors(key: str, message: str, signature: str) -> None:
    """The vectors verify; each with one bit changed does not."""
    public, text, sign = bytes.fromhex(key), bytes.fromhex(message), bytes.fromhex(signature)

    assert verify.ed25519_verify(public, text, sign)
    assert not verify.ed25519_verify(public, text + b"x", sign)
    for at in range(0, 64, 7):
        broken = bytearray(sign)
        broken[at] ^= 4
        assert not verify.ed25519_verify(public, text, bytes(broken))


def test_signatures_of_another_implementation() -> None:
    """What the cryptography library signs, the file verifies."""
    rng = random.Random(5)
    for length in (0, 1, 64, 1000):
        key = Ed25519PrivateKey.from_private_bytes(rng.randbytes(32))
        text = rng.randbytes(length)
        assert verify.ed25519_verify(key.public_key().public_bytes_raw(), text, key.sign(text))


def test_scalar_out_of_range_is_refused() -> None:
    """S + L is the same point, but no valid signature (RFC 8032 section 5.1.7)."""
    key, text = Ed25519PrivateKey.from_private_bytes(b"\x01" * 32), b"text"
    good = key.sign(text)
    forged = good[:32] + (int.from_bytes(good[32:], "little") + verify.L).to_bytes(32, "little")

    assert not verify.ed25519_verify(key.public_key().public_bytes_raw(), text, forged)


# RFC 8785 appendix B: bits of a double and its text.
NUMBERS = [
    ("0000000000000000", "0"), ("8000000000000000", "0"), ("0000000000000001", "5e-324"),
    ("7fefffffffffffff", "1.7976931348623157e+308"), ("4340000000000000", "9007199254740992"),
    ("444b1ae4d6e2ef50", "1e+21"), ("444b1ae4d6e2ef4f", "999999999999999900000"),
    ("3eb0c6f7a0b5ed8d", "0.000001"), ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
    ("44b52d02c7e14af6", "1e+23"), ("41b3de4355555555", "333333333.3333333"),
    ("becbf647612f3696", "-0.0000033333333333333333"), ("43143ff3c1cb0959", "1424953923781206.2"),
]  # fmt: skip


@pytest.mark.parametrize(("bits", "text"), NUMBERS)
def test_number_vectors(bits: str, text: str) -> None:
    """Numbers are printed as ECMAScript prints them."""
    (value,) = struct.unpack(">d", bytes.fromhex(bits))

    assert text == verify.canonical(value)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=20,
)


@given(json_values)
def test_canonical_json_equals_the_library(value: object) -> None:
    """The file's canonical JSON is what the ledger's library writes, also after a round trip."""
    expected = rfc8785.dumps(value)  # type: ignore[arg-type]

    assert expected == verify.canonical(value).encode()
    assert expected == verify.canonical(verify.parse_json(expected)).encode()


@given(st.integers(1, 70), st.data())
def test_root_from_some_leaves(size: int, data: st.DataObject) -> None:
    """Any subset of leaves with the nodes between them leads to the tree's root, and no node is free."""
    leaves = [merkle.leaf_hash(b"%d" % at) for at in range(size)]
    chosen = sorted(data.draw(st.sets(st.integers(0, size - 1), min_size=1)))
    read = merkle.subtree_reader(leaves)
    hashes: list[bytes] = []

    def collect(start: int, end: int) -> None:
        inside = [at for at in chosen if start <= at < end]
        if not inside:
            hashes.append(read(start, end))
        elif end - start > 1:
            middle = start + (1 << (end - start - 1).bit_length() - 1)
            collect(start, middle)
            collect(middle, end)

    collect(0, size)
    pairs = [(at, leaves[at]) for at in chosen]

    assert merkle.root_of(leaves) == verify.tree_root(pairs, size, hashes)
    with pytest.raises(verify.BadInput):
        verify.tree_root(pairs, size, [*hashes, hashes[0] if hashes else leaves[0]])
    if hashes:
        with pytest.raises(verify.BadInput):
            verify.tree_root(pairs, size, hashes[:-1])


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b'{"a":1,"a":1}', id="key twice"),
        pytest.param(b'{"a":{"b":1,"b":2}}', id="key twice inside"),
        pytest.param(b"NaN", id="NaN"),
        pytest.param(b"[Infinity]", id="infinity"),
        pytest.param(b"\xff", id="not UTF-8"),
        pytest.param(b"{} {}", id="two documents"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b"1" * 10_000, id="long number"),
        pytest.param(b"\xef\xbb\xbf{}", id="byte order mark"),
        pytest.param(b"", id="empty"),
    ],
)
def test_json_that_is_refused(raw: bytes) -> None:
    """Readers must not differ about what a file says."""
    with pytest.raises(verify.BadInput):
        verify.parse_json(raw)


NOTE = "log.example/one\n5\n" + "A" * 43 + "=\n"
LINE = "— log.example/one " + "A" * 90 + "A=\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(NOTE, id="no signature"),
        pytest.param(NOTE + "\n" + LINE + LINE, id="two signatures"),
        pytest.param(NOTE.replace("5", "05") + "\n" + LINE, id="size with a leading zero"),
        pytest.param(NOTE.replace("5", "-5") + "\n" + LINE, id="negative size"),
        pytest.param(NOTE + "more\n\n" + LINE, id="a fourth line"),
        pytest.param(NOTE + "\n" + LINE + "x", id="text after the end"),
        pytest.param(NOTE + "\n" + LINE.replace("—", "-"), id="a hyphen for the dash"),
    ],
)
def test_note_that_is_refused(text: str) -> None:
    """A note has one form only, so that no byte of it is free."""
    with pytest.raises(verify.BadInput):
        verify.parse_note(text.encode())


@pytest.mark.parametrize(
    "text", ["name+00000000+AQ==", "name", "", "-----BEGIN PUBLIC KEY-----\nx\n-----END"]
)
def test_key_that_is_refused(text: str) -> None:
    """A key whose hash does not fit, or that is none, is wrong use."""
    with pytest.raises(verify.BadInput):
        verify.parse_key(text.encode())


def test_names_are_shown_reversibly() -> None:
    """The same escapes as everywhere in the project."""
    from pretrain_archive.domain.identity import path_to_text

    for name in (b"plain", b"a b", b"100%", b"\xff", "名称".encode(), b"a\nb", "\u202e".encode()):
        assert path_to_text(name) == verify.show(name)


def test_report_is_plain_json_for_any_folder(tmp_path: pytest.TempPathFactory) -> None:
    """An empty folder is a changed package, not an error."""
    report = verify.verify(str(tmp_path))

    assert "changed" == report["verdict"]
    assert json.loads(json.dumps(report)) == report
