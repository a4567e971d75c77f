"""Finding sources, and registering them with their licence and people."""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from pathlib import Path

import pytest
from tests.support.data_track import ACTOR, new_ledger, origin, write_tree

from pretrain_archive.data.globs import Filter
from pretrain_archive.data.sources import register_source, resolve_source, source_id
from pretrain_archive.domain.errors import InputError, SourceError

FACTS = {
    "name": "stdlib",
    "obtained": "shipped with the interpreter",
    "authorisation": "open licence",
    "usage_scope": ["research"],
    "origin_class": "public corpora",
    "owner": "alice",
    "responsible": "bob",
    "stream": "run_0198c0de-0000-7000-8000-000000000000",
    "actor": ACTOR,
}


@pytest.fixture
def ledger(tmp_path):
    """A ledger on SQLite."""
    return new_ledger(tmp_path)


@pytest.fixture
def folder(tmp_path):
    """A source with a licence file but no known licence."""
    return write_tree(tmp_path / "data", {b"a.txt": b"text", b"LICENSE": b"as you like"})


@pytest.mark.parametrize("interpreter", [None, sys.executable, "/usr/bin/python3"])
def test_the_standard_library(interpreter):
    """The library of an interpreter is found, with its licence, and without installed packages."""
    if interpreter and not Path(interpreter).exists():
        pytest.skip(f"{interpreter} is not on this machine")
    source = resolve_source("python:stdlib", interpreter=interpreter)
    listed = [item.path for item in source.tree.list(Filter(include=source.include, exclude=source.exclude))]

    assert ("python:stdlib", "PSF-2.0") == (source.uri, source.licence)
    assert {b"json/decoder.py", b"os.py"} <= set(listed)
    assert not [path for path in listed if b"site-packages" in path or not path.endswith(b".py")]
    licence = Path(sysconfig.get_path("stdlib")) / "LICENSE.txt"
    if interpreter is None and licence.exists():
        assert "sha256:" + hashlib.sha256(licence.read_bytes()).hexdigest() == source.licence_file_digest


@pytest.mark.parametrize("form", ["{}", "file://{}"])
def test_a_folder(folder, form):
    """A path or file address is found; its licence is not guessed, its licence file is digested."""
    source = resolve_source(form.format(folder))

    assert (f"file://{folder}", os.fsencode(folder), "") == (source.uri, source.root, source.licence)
    assert "sha256:" + hashlib.sha256(b"as you like").hexdigest() == source.licence_file_digest


@pytest.mark.parametrize(
    ("uri", "error", "text"),
    [
        pytest.param("python:nothing", InputError, "source: not an address of a known form", id="unknown"),
        pytest.param("ftp://host/x", InputError, r"Use python:stdlib", id="scheme"),
        pytest.param("", InputError, "source", id="empty address"),
        pytest.param("/no/such/folder", SourceError, "/no/such/folder: is not there", id="missing"),
        pytest.param("file:///no/such%0Afolder", SourceError, "such%0Afolder: is not there", id="escaped"),
    ],
)
def test_a_source_that_cannot_be_used(uri, error, text):
    """Each fault has its own words, with the value and what to do."""
    with pytest.raises(error, match=text):
        resolve_source(uri)


def test_an_empty_source(tmp_path):
    """A folder without a file is no source."""
    (tmp_path / "empty/deep").mkdir(parents=True)

    with pytest.raises(SourceError, match="holds no file"):
        resolve_source(str(tmp_path / "empty"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("inside", [False, True], ids=["the source", "a folder in it"])
def test_an_unreadable_source(tmp_path, inside):
    """A folder that the reading user may not list is named with the reason; nobody takes it for empty."""
    tmp_path.parent.chmod(0o755)
    tmp_path.chmod(0o755)
    root = write_tree(tmp_path / "in", {b"deep/file": b"x"})
    (root / "deep" if inside else root).chmod(0o700)
    home = tmp_path.parent.parent
    mode = home.stat().st_mode
    home.chmod(0o755)
    os.seteuid(65534)
    try:
        with pytest.raises(
            SourceError, match=r"cannot be read: Permission denied.*rights of the reading user"
        ):
            resolve_source(str(root))
    finally:
        os.seteuid(0)
        home.chmod(mode)


def test_an_interpreter_that_does_not_answer():
    """A program that is no Python is named."""
    with pytest.raises(SourceError, match=r"/bin/false does not tell"):
        resolve_source("python:stdlib", interpreter="/bin/false")


@pytest.mark.requirement("R035", "R037", "R039")
def test_a_registered_source_is_attributed_to_people(ledger):
    """The record holds the facts; edges lead to owner and responsible person, and from the run."""
    payload = register_source(ledger, source=resolve_source("python:stdlib"), origin=origin(), **FACTS)
    (record,) = ledger.records(kinds=["source.registered"])

    assert payload.to_json() == record.payload
    assert ("PSF-2.0", source_id("stdlib", "python:stdlib")) == (payload.licence, payload.source_id)
    assert {
        f"source:{payload.source_id} was_attributed_to person:alice",
        f"source:{payload.source_id} was_attributed_to person:bob",
        f"run:{FACTS['stream']} used source:{payload.source_id}",
    } == {f"{edge.subject} {edge.relation.value} {edge.object}" for edge in record.edges}


def test_what_was_not_captured_stays_unrecorded(ledger):
    """Facts that nobody gave are None and not a guess."""
    payload = register_source(ledger, source=resolve_source("python:stdlib"), origin=origin(), **FACTS)

    assert (None, None, None, None) == (
        payload.collected_at,
        payload.masking,
        payload.access_identity,
        payload.access_granted_at,
    )


@pytest.mark.requirement("R055", "R056")
def test_an_interpreter_s_own_library_needs_nobody_s_leave(ledger, folder, monkeypatch):
    """What is seen of the files is recorded, only where it is so, and of no other folder."""
    library, mine = resolve_source("python:stdlib"), "part of the interpreter that runs, whose files"
    payload = register_source(
        ledger, source=library, origin=origin(), **FACTS | {"observed_identity": "me@here"}
    )
    owner = library.tree.root
    monkeypatch.setattr(os, "geteuid", lambda: os.stat(owner).st_uid + 1)  # noqa: PTH116 - bytes

    assert f"{mine} the reading user owns" == payload.access_open
    assert ("me@here", "me@here") == (payload.access_identity, payload.access_identity_observed)
    assert resolve_source("python:stdlib").open_because in {f"{mine} every user of the machine may read", ""}
    assert "" == resolve_source(str(folder)).open_because


def test_a_retried_step_writes_one_record(ledger):
    """The same step twice is one fact with one id."""
    step = origin()
    source = resolve_source("python:stdlib")
    first = register_source(ledger, source=source, origin=step, **FACTS)

    assert first == register_source(ledger, source=source, origin=step, **FACTS)
    assert 1 == len(list(ledger.records(kinds=["source.registered"])))


@pytest.mark.requirement("R035")
def test_a_source_without_a_licence_is_refused(ledger, folder):
    """No licence, no record; the error names the field and the remedy."""
    source = resolve_source(str(folder))

    with pytest.raises(InputError, match=r"licence: is missing.*SPDX"):
        register_source(ledger, source=source, origin=origin(), licence=" ", **FACTS)
    assert [] == list(ledger.records())
    assert (
        "CC0-1.0"
        == register_source(ledger, source=source, origin=origin(), licence="CC0-1.0", **FACTS).licence
    )


def test_a_licence_against_the_source_is_refused(ledger):
    """What the source says about itself is not overridden."""
    with pytest.raises(InputError, match=r"contradicts the licence of python:stdlib, PSF-2.0"):
        register_source(
            ledger, source=resolve_source("python:stdlib"), origin=origin(), licence="MIT", **FACTS
        )


@pytest.mark.parametrize(
    "field", ["name", "obtained", "authorisation", "owner", "responsible", "origin_class"]
)
def test_a_missing_fact_is_named(ledger, field):
    """A blank required fact is refused before anything is written."""
    with pytest.raises(InputError, match="is missing"):
        register_source(
            ledger, source=resolve_source("python:stdlib"), origin=origin(), **FACTS | {field: "  "}
        )
    assert [] == list(ledger.records())
