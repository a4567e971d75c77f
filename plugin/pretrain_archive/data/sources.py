"""Where data comes from: resolve a source's address and register it with its licence and people.

Addresses: ``python:stdlib`` (the standard library of an interpreter), ``file:///folder``, a path, or
``s3://[CONNECTION@]bucket/prefix`` (see :mod:`buckets`): any S3-compatible service, reached by an Airflow connection
or, without one, by boto3's own chain.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import sysconfig
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote_to_bytes, urlsplit

from pretrain_archive import config
from pretrain_archive.data.buckets import SPELLING, Address, BucketTree
from pretrain_archive.data.globs import Filter
from pretrain_archive.data.licences import file_digest, object_digest
from pretrain_archive.data.rights import Licence, moment, read_licence, stated_licence, words
from pretrain_archive.data.tree import FolderTree, Place, Tree, tree_of
from pretrain_archive.domain.errors import InputError, SourceError
from pretrain_archive.domain.identity import Ref, path_to_text
from pretrain_archive.domain.kinds import SnapshotCreated, SourceRegistered
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Relation
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.storage.factory import open_bucket

if TYPE_CHECKING:
    from pretrain_archive.storage.s3_source import SourceBucket

STDLIB = "python:stdlib"
STDLIB_INCLUDE = ("*.py",)
# Installed packages are other people's work under other licences; tests hold files broken on purpose.
STDLIB_EXCLUDE = ("site-packages", "dist-packages", "__pycache__", "test", "tests", "idle_test")
KNOWN = f"{STDLIB}, file:///folder, {SPELLING}, or the path of a folder or file"


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedSource:
    """A source that was found and can be read.

    ``tree`` reads it; ``uri`` is the address to record; ``licence`` is empty if it is not known from the
    source itself; ``include`` and ``exclude`` are what to read if nobody says otherwise. ``identity`` names the
    service identity that reads it, empty where that is the user of this process; ``open_because`` says why nobody
    has to permit the reading, empty where that is not known.
    """

    uri: str
    tree: Tree
    title: str
    licence: str = ""
    licence_file_digest: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    identity: str = ""
    open_because: str = ""

    @property
    def root(self) -> bytes:
        """The absolute path, without links, of a source that is a folder; ``InputError`` for any other."""
        if isinstance(self.tree, FolderTree):
            return self.tree.root
        raise InputError("source", self.uri, "is not a folder", hint="Name a folder.")


def resolve_source(uri: str, *, interpreter: str | None = None) -> ResolvedSource:
    """Find the source that ``uri`` names and make sure that it holds at least one readable file.

    ``interpreter`` is the Python whose library ``python:stdlib`` means, by default the running one.
    Raises ``InputError`` for an address of no known form and ``SourceError`` for a source that is missing,
    unreadable or empty.
    """
    if uri == STDLIB:
        source = _stdlib(interpreter)
    else:
        source = _bucket(uri) if uri.startswith("s3://") else _local(_path_of(uri))
    first = next(source.tree.list(Filter(include=source.include, exclude=source.exclude)), None)
    if first is None:
        raise SourceError(f"source {uri}: holds no file.", hint="Name a folder with data.")
    return source


def live_tree(snapshot: SnapshotCreated, place: Place | None = None) -> Tree:
    """Where the files of ``snapshot`` lie now: at ``place`` (a tree or a folder) or at its recorded source.

    A bucket is opened as it was recorded, also where nothing is left there but older versions.
    """
    if place is not None:
        return tree_of(place)
    if snapshot.source_uri.startswith("s3://"):
        return BucketTree(*_opened(snapshot.source_uri))
    return resolve_source(snapshot.source_uri).tree


def register_source(
    ledger: Ledger, *, source: ResolvedSource, name: str, obtained: str, authorisation: str,
    usage_scope: list[str], origin_class: str, owner: str, responsible: str, actor: Actor, origin: Origin,
    stream: str, licence: str = "", collected_at: str | None = None, masking: str | None = None,
    applicable_tasks: list[str] | None = None, access_identity: str | None = None,
    observed_identity: str | None = None, access_granted_at: str | None = None, access_revoked_at: str | None = None,
    access_open: str | None = None, attempt: int = 0,
) -> SourceRegistered:  # fmt: skip
    """Append ``source.registered`` and return its payload.

    The id follows from name and address, so that the same source has one id in all runs. ``licence``
    overrides nothing: it is needed where the source does not tell its own; an SPDX expression is recorded in its
    canonical form, anything else as the text of a contract. Raises ``InputError`` naming the field that is missing
    or is no moment.
    """
    licensed = _licence(source, licence)
    payload = SourceRegistered(
        source_id=source_id(name, source.uri),
        name=_given("source name", name, "Name the source."),
        uri=source.uri,
        licence=licensed.text,
        licence_spdx=licensed.spdx,
        licence_file_digest=source.licence_file_digest,
        obtained=_given("obtained", obtained, "Say how the data was obtained."),
        collected_at=collected_at,
        authorisation=_given(
            "authorisation", authorisation, "Say who allowed the use, or why none is needed."
        ),
        usage_scope=_scope(usage_scope),
        origin_class=_given("origin_class", origin_class, "Say which class of data this is."),
        masking=masking,
        owner=_given("data owner", owner, "Name the person who owns the data."),
        responsible=_given("responsible", responsible, "Name the person who answers for the data."),
        applicable_tasks=applicable_tasks or [],
        access_identity=access_identity or observed_identity,
        access_identity_observed=observed_identity,
        access_open=access_open or source.open_because or None,
        access_granted_at=moment("access_granted_at", access_granted_at),
        access_revoked_at=moment("access_revoked_at", access_revoked_at),
    )
    draft = Draft(
        stream=stream, kind="source.registered", payload=payload.to_json(), actor=actor, origin=origin,
        attempt=attempt, edges=_edges(payload, stream),
    )  # fmt: skip
    ledger.append([draft])
    return payload


def _edges(payload: SourceRegistered, stream: str) -> tuple[Edge, ...]:
    subject = Ref(type="source", id=payload.source_id)
    people = sorted({payload.owner, payload.responsible})
    edges = [Edge(subject=subject, relation=Relation.WAS_ATTRIBUTED_TO, object=_person(p)) for p in people]
    if stream.startswith("run_"):
        run = Ref(type="run", id=stream)
        edges.append(Edge(subject=run, relation=Relation.USED, object=subject))
    return tuple(edges)


def source_id(name: str, uri: str) -> str:
    """The id of the source ``name`` at ``uri``: ``source_`` and 32 hex digits."""
    return "source_" + hashlib.sha256(json.dumps([name, uri]).encode()).hexdigest()[:32]


def _person(name: str) -> Ref:
    return Ref(type="person", id=name)


def _given(field: str, value: str, hint: str) -> str:
    if not (text := words(field, value)):
        raise InputError(field, value, "is missing", hint=hint)
    return text


def _scope(uses: list[str]) -> list[str]:
    """The uses that are named; a blank one would allow a run that states no use at all."""
    named = [use.strip() for use in uses if use.strip()]
    if not named:
        raise InputError("usage_scope", "", "is missing", hint="Say what the data may be used for.")
    return list(dict.fromkeys(named))


def _licence(source: ResolvedSource, given: str) -> Licence:
    given = words("licence", given)
    if source.licence and given and read_licence(given) != read_licence(source.licence):
        raise InputError(
            "licence",
            given,
            f"contradicts the licence of {source.uri}, {source.licence}",
            hint="Leave it empty.",
        )
    hint = "Name the licence (an SPDX id such as CC-BY-4.0), or the contract that allows the use."
    return read_licence(source.licence) if source.licence else stated_licence(_given("licence", given, hint))


def _path_of(uri: str) -> bytes:
    parts = urlsplit(uri) if "://" in uri else None
    if parts is not None and parts.scheme == "file" and parts.netloc in {"", "localhost"} and parts.path:
        return unquote_to_bytes(parts.path)
    if not uri or parts is not None or uri.startswith("python:") or "\0" in uri:
        raise InputError("source", uri, "not an address of a known form", hint=f"Use {KNOWN}.")
    return os.fsencode(uri)


def _local(path: bytes) -> ResolvedSource:
    root = os.path.realpath(path)
    return ResolvedSource(
        uri="file://" + quote(root),
        tree=FolderTree(root),
        title=path_to_text(root.rpartition(b"/")[2] or root),
        licence_file_digest=file_digest(root),
    )


def _bucket(uri: str) -> ResolvedSource:
    bucket, address = _opened(uri)
    tree = BucketTree.at(bucket, address)
    identity = tree.bucket.identity
    return ResolvedSource(
        uri=tree.uri,
        tree=tree,
        title=path_to_text(address.prefix.rstrip(b"/").rpartition(b"/")[2]) or address.bucket,
        licence_file_digest=object_digest(tree),
        identity=f"connection {address.connection}, {identity}" if address.connection else identity,
    )


def _opened(uri: str) -> tuple[SourceBucket, Address]:
    address = Address.parse(uri)
    options = config.s3_connection(address.connection) if address.connection else {}
    return open_bucket(address.bucket, s3_options=options), address


def _stdlib(interpreter: str | None) -> ResolvedSource:
    if interpreter is None or interpreter == sys.executable:
        folder, version = sysconfig.get_path("stdlib"), sys.version.split()[0]
    else:
        folder, version = _ask(interpreter)
    root = os.path.realpath(os.fsencode(folder))
    return ResolvedSource(
        uri=STDLIB,
        tree=FolderTree(root, uri=STDLIB),
        title=f"Python {version} standard library",
        licence="PSF-2.0",
        licence_file_digest=file_digest(root),
        include=STDLIB_INCLUDE,
        exclude=STDLIB_EXCLUDE,
        open_because=_open_because(root),
    )


def _open_because(root: bytes) -> str:
    """Why the user of this process may read an interpreter's own library without anybody's leave."""
    with suppress(OSError):
        found = os.stat(root)  # noqa: PTH116 - a path as bytes
        if found.st_uid == os.geteuid():
            return "part of the interpreter that runs, whose files the reading user owns"
        if found.st_mode & 0o005 == 0o005:
            return "part of the interpreter that runs, whose files every user of the machine may read"
    return ""


def _ask(interpreter: str) -> tuple[str, str]:
    program = (
        "import json,sys,sysconfig; print(json.dumps([sysconfig.get_path('stdlib'), sys.version.split()[0]]))"
    )
    try:
        answer = subprocess.run(
            [interpreter, "-I", "-c", program], capture_output=True, check=True, timeout=60, text=True
        )
        folder, version = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise SourceError(
            f"source {STDLIB}: {interpreter} does not tell its standard library: {error}.",
            hint="Name a working Python interpreter.",
        ) from error
    return folder, version
