"""Canonical JSON is that of RFC 8785, also on the fast path."""

from __future__ import annotations

from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from pretrain_archive.ledger.canonical import canonical_bytes, digest_of

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | TEXTS
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_same_bytes_as_the_reference(value: Any) -> None:
    """Whatever path is taken, the bytes are those of the reference implementation."""
    assert rfc8785.dumps(value) == canonical_bytes(value)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        2**53,
        -(2**53),
        "\ud800",
        {"\ud800": 1},
        {1: 2},
        object(),
        [{"a": float("nan")}],
    ],
    ids=repr,
)
def test_what_json_cannot_hold_is_refused(value: Any) -> None:
    """Values outside canonical JSON raise ValueError on either path."""
    with pytest.raises(ValueError, match=r".+"):
        canonical_bytes(value)


def test_known_digest() -> None:
    """The digest of a known document (keys sorted by UTF-16, as RFC 8785 section 3.2.3 shows)."""
    document = {
        "\u20ac": "Euro Sign",
        "\r": "Carriage Return",
        "1": "One",
        "\U0001f600": "Smiley",
        "\ufb33": "Dalet",
    }
    assert b'{"\\r":"Carriage Return","1":"One"' == canonical_bytes(document)[:33]
    assert canonical_bytes(document).index("😀".encode()) < canonical_bytes(document).index("\ufb33".encode())
    assert "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" == digest_of({})
