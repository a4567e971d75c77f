"""Ids, references, times and names as bytes."""

from __future__ import annotations

import re
import time
import uuid
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretrain_archive.domain.identity import (
    RUN_UID,
    Ref,
    format_time,
    new_id,
    parse_time,
    path_to_text,
    text_to_path,
    utc_now,
    uuid7,
)

NAMES = st.text(min_size=1, max_size=30) | st.sampled_from(
    ["a@b", "@", "@@", "a:b", ":", "a@", "@b", "a:b@c"]
)


def test_uuid7_bits():
    """Version 7, variant of RFC 9562, the milliseconds of the clock in front, and random bits behind."""
    before = time.time_ns() // 1_000_000
    made = [uuid7() for _ in range(200)]
    after = time.time_ns() // 1_000_000

    assert {7} == {value.version for value in made}
    assert {uuid.RFC_4122} == {value.variant for value in made}
    assert all(before <= value.int >> 80 <= after for value in made)
    assert len({value.int & ((1 << 62) - 1) for value in made}) == 200


def test_uuid7_sorts_by_time(monkeypatch):
    """A later millisecond gives a larger id, as a number and as text."""
    moments = iter(range(1_700_000_000_000, 1_700_000_000_050))
    monkeypatch.setattr(time, "time_ns", lambda: next(moments) * 1_000_000)
    made = [uuid7() for _ in range(50)]

    assert made == sorted(made)
    assert [str(value) for value in made] == sorted(map(str, made))


def test_run_uid():
    """A run's uid has its own pattern; other ids do not fit it."""
    assert RUN_UID.fullmatch(new_id("run"))
    assert not RUN_UID.fullmatch(new_id("rec"))
    assert not RUN_UID.fullmatch(f"run_{uuid.uuid4()}")


@given(type=st.sampled_from(["source", "person", "decision"]), id=NAMES,
       version=NAMES.filter(lambda text: "@" not in text) | st.just(""))  # fmt: skip
def test_ref_round_trip(type, id, version):  # noqa: A002 - the fields' names
    """Every reference is read back as it was, whatever ``:`` and ``@`` stand in its id."""
    ref = Ref(type=type, id=id, version=version)

    assert ref == Ref.parse(str(ref))


@given(left=NAMES, right=NAMES, version=st.sampled_from(["", "1", "c"]))
def test_different_refs_look_different(left, right, version):
    """Two references with the same text are the same."""
    one, other = Ref(type="source", id=left), Ref(type="source", id=right, version=version)

    assert (str(one) == str(other)) == (one == other)


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        pytest.param("snapshot:stdlib@3", Ref(type="snapshot", id="stdlib", version="3"), id="version"),
        pytest.param("run:run_1", Ref(type="run", id="run_1"), id="no version"),
        pytest.param("configuration:sha256:ab", Ref(type="configuration", id="sha256:ab"), id="digest"),
        pytest.param("source:s3://b/a@b@2", Ref(type="source", id="s3://b/a@b", version="2"), id="at in the id"),
        pytest.param("person:bob@example.org@", Ref(type="person", id="bob@example.org"), id="address, no version"),
    ],
)  # fmt: skip
def test_ref_text(text, ref):
    """How references are written."""
    assert text == str(ref)
    assert ref == Ref.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(t, id=t or "empty")
        for t in ("", "run", "run:", "Run:x", ":x", "run1:x", "run:@", "run:@2")
    ],
)
def test_broken_ref(text):
    """A text that is no reference is refused."""
    with pytest.raises(ValueError, match="reference"):
        Ref.parse(text)


def test_version_holds_no_at():
    """A version with ``@`` could not be read back."""
    with pytest.raises(ValueError, match="without '@'"):
        Ref(type="source", id="x", version="1@2")


@pytest.mark.requirement("R023")
@given(st.binary(max_size=60))
def test_path_round_trip(raw):
    """Any bytes become printable text and come back."""
    text = path_to_text(raw)

    assert raw == text_to_path(text)
    assert text.isprintable()
    assert text == text.encode("utf-8").decode("utf-8")


@given(st.binary(max_size=12), st.binary(max_size=12))
def test_paths_never_look_the_same(left, right):
    """Two different names have different texts."""
    assert (left == right) == (path_to_text(left) == path_to_text(right))


@given(st.text(max_size=30))
def test_path_text_is_read_or_refused(text):
    """Any text is either a path or refused with ``ValueError``."""
    try:
        raw = text_to_path(text)
    except ValueError:
        return
    assert isinstance(raw, bytes)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        pytest.param("数据/中文 名.txt".encode(), "数据/中文 名.txt", id="readable"),
        pytest.param(b"100%.txt", "100%25.txt", id="percent"),
        pytest.param(b"a\nb\r\t\x00", "a%0Ab%0D%09%00", id="controls"),
        pytest.param(b"bad\xff", "bad%FF", id="not UTF-8"),
        pytest.param(b"\xed\xb2\x80", "%ED%B2%80", id="a surrogate as bytes"),
        pytest.param("a\u202eb".encode(), "a%E2%80%AEb", id="a direction mark"),
        pytest.param(b"a\\b'\"", "a\\b'\"", id="quotes and backslash"),
    ],
)
def test_path_text(raw, text):
    """What stays readable and what is escaped."""
    assert text == path_to_text(raw)


@pytest.mark.parametrize("text", ["%", "%2", "%zz", "a%2", "%0a", "%G0", "%+1"])
def test_broken_escape(text):
    """A broken or lower-case escape is refused."""
    with pytest.raises(ValueError, match="broken escape"):
        text_to_path(text)


def test_times():
    """Times are UTC with microseconds, and come back as the same moment."""
    east = datetime(2026, 11, 29, 18, 0, 0, 5, tzinfo=timezone(timedelta(hours=8)))

    assert "2026-11-29T10:00:00.000005Z" == format_time(east)
    assert east == parse_time(format_time(east))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", utc_now())
    assert abs(parse_time(utc_now()) - datetime.now(UTC)) < timedelta(seconds=5)


def test_naive_times():
    """A time without a zone is refused both ways."""
    with pytest.raises(ValueError, match="needs a zone"):
        format_time(datetime(2026, 1, 1))  # noqa: DTZ001 - what is refused
    with pytest.raises(ValueError, match="needs a zone"):
        parse_time("2026-01-01T00:00:00")
