"""Files that hold something else than text: compressed, columnar or binary. They are named here, not read.

A container is known by its first bytes, or by its name where these are damaged: a cut ``.gz`` is no text either.
"""

from __future__ import annotations

HEAD = 8192
"""Bytes of the beginning that are looked at: a NUL among them makes a file binary (git's rule)."""

_MAGIC = (
    ("gzip", b"\x1f\x8b"),
    ("zstd", b"\x28\xb5\x2f\xfd"),
    ("xz", b"\xfd7zXZ\x00"),
    ("lz4", b"\x04\x22\x4d\x18"),
    ("zip", b"PK\x03\x04"),
    ("zip", b"PK\x05\x06"),
    ("7z", b"7z\xbc\xaf\x27\x1c"),
    ("parquet", b"PAR1\x15"),
    ("arrow", b"ARROW1\x00"),
    ("arrow", b"FEA1\x00"),
)
_NAMES = (
    ("gzip", (".gz", ".tgz")),
    ("zstd", (".zst", ".zstd")),
    ("xz", (".xz",)),
    ("bzip2", (".bz2",)),
    ("lz4", (".lz4",)),
    ("zip", (".zip",)),
    ("7z", (".7z",)),
    ("tar", (".tar",)),
    ("parquet", (".parquet",)),
    ("arrow", (".arrow", ".feather")),
)


def kind_of(path: str, head: bytes) -> str:
    """What a file with these first :data:`HEAD` bytes is if it is no text: gzip, parquet, binary …; else empty."""
    by_bytes = next((kind for kind, magic in _MAGIC if head.startswith(magic)), "")
    by_name = next((kind for kind, ends in _NAMES if path.lower().endswith(ends)), "")
    # Of a list of documents a damaged line is told by its number, and the others are read.
    binary = b"\0" in head[:HEAD] and not is_list(path)
    return by_bytes or by_name or ("binary" if binary else "")


def is_list(path: str) -> bool:
    """Whether the file is one document a line or row."""
    return path.lower().endswith((".jsonl", ".ndjson", ".csv"))


def bare_name(path: str) -> str:
    """The name of what is packed in a file: ``a.jsonl`` for ``a.jsonl.gz``, the name itself without an ending."""
    for ends in (".gz", ".zst", ".zstd"):
        if path.lower().endswith(ends):
            return path[: -len(ends)]
    return path[: -len(".tgz")] + ".tar" if path.lower().endswith(".tgz") else path


def looks_like_json_lines(name: str, head: bytes) -> bool:
    """Whether content whose name says nothing (``shard-0001`` of ``shard-0001.gz``) is one JSON object a line.

    An object that ends with its line, or is longer than the first :data:`HEAD` bytes, is a record; one that goes
    on over lines is a document of its own.
    """
    if "." in name.rpartition("/")[2]:
        return False
    line, end, _ = head.lstrip(b"\n\r \t").partition(b"\n")
    if not line.startswith(b"{"):
        return False
    return line.rstrip().endswith(b"}") or (
        not end and len(head) >= HEAD and line[1:].lstrip().startswith(b'"')
    )
