#!/usr/bin/env python3
"""Check a package of a training run with nothing but Python 3.9 or newer.

    python3 -I -S verify.py [--json] [--all] [--key FILE] [--pointers] [DIR]

DIR is the package, by default the folder of this file. It only reads: no network, no unpickling, no other
program, no link is followed. Every fault is listed; one fault does not hide the next.

    exit 0  verified  everything holds and the signature matches the key given with --key
    exit 3  intact    everything holds, but no key was given: whoever changed the package could have changed
                      this program and the key inside it too
    exit 1  changed   at least one item is not what was signed
    exit 2            wrong use (no such folder, a folder that is no package, unreadable key)

What is checked, from the outside in: the signed note ``checkpoint.txt`` (C2SP signed note and tlog-checkpoint,
Ed25519 of RFC 8032) gives the root of a Merkle tree (RFC 6962); ``proofs.json`` gives the leaf hash of every
record and the missing nodes of the tree, so that one pass recomputes that root; each file in ``records/`` must
hash to its leaf and name the hash of the record before it; the record ``package.written`` names the digest of
``manifest.json``; the manifest lists every other file with size and SHA-256. Then the meaning: sign-offs against
the dossier that was shown, evidence files and references against the digests that the records name.

One file on purpose, although it is long: a stranger gets it inside the package and can read it in one go.
"""

from __future__ import annotations

import argparse
import base64
import gc
import hashlib
import json
import os
import re
import stat
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

VERIFIED, CHANGED, UNRECORDED = "verified", "changed", "unrecorded"
ORDER = {CHANGED: 0, UNRECORDED: 1, VERIFIED: 2}
TRACKS = ("data", "compute", "artifact", "gates", "package")
MANIFEST, PROOFS, NOTE = "manifest.json", "proofs.json", "checkpoint.txt"
UNLISTED_BY_DESIGN = {MANIFEST, PROOFS, NOTE}
PACKAGE_FORMAT = "pretrain-archive/package/1"
PROOFS_FORMAT = "pretrain-archive/proofs/1"
RECORD_FORMAT = "pretrain-archive/record/1"
REFERENCES_FORMAT = "pretrain-archive/references/1"

# Limits against a package that is made to exhaust the reader: far above what a writer makes.
MAX_ENTRIES, MAX_DEPTH = 2_000_000, 8
MAX_RECORD, MAX_INDEX, MAX_NOTE, MAX_FILE = 16 << 20, 512 << 20, 64 << 10, 1 << 30
MAX_TEXT, MAX_FAULTS = 1000, 20  # of one finding: characters of a text, and texts
BLOCK = 1 << 20
FOLD_ABOVE = 1000  # more verified records than this are summed up by kind

PLAIN_PATH = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
PLAIN_NAME = re.compile(rb"[ -$&-~]+")  # printable ASCII without the percent sign
HEX64 = re.compile(r"[0-9a-f]{64}")
KIND = re.compile(r"[a-z_]+\.[a-z_]+")
RECORD_KEYS = {
    "format", "record_id", "stream", "sequence", "previous", "kind", "schema_version", "attempt", "ordinal",
    "payload", "actor", "origin", "recorded_at", "edges", "unique",
}  # fmt: skip
MANIFEST_TYPES = {"format": str, "run_uid": str, "records": int, "verifier_key": str, "files": list}
FILE_TYPES = {"path": str, "size": int, "sha256": str}
NAMED_FILE_TYPES = {**FILE_TYPES, "record": str, "field": str}
PROOFS_TYPES = {"format": str, "size": int, "leaves": list, "hashes": list}
REFERENCES_TYPES = {"format": str, "references": list}
REFERENCE_TYPES = {
    "id": str, "record": str, "field": str, "digest": str, "location": str, "size": (int, type(None)),
    "access": str, "verdict": str, "check": str, "found": str, "files": list,
}  # fmt: skip

TRACK_OF = {
    "source": "data", "snapshot": "data", "split": "data", "quality": "data", "temporary": "data",
    "rule": "data", "processing": "data",
    "configuration": "compute", "environment": "compute", "launch": "compute", "attempt": "compute",
    "metrics": "compute", "event": "compute", "stop": "compute",
    "job": "compute", "wait": "compute", "member": "compute", "change": "compute", "drill": "compute",
    "exploration": "compute", "platform": "compute", "incident": "compute", "boundary": "compute",
    "runbook": "compute", "service": "compute", "labels": "data",
    "checkpoint": "artifact", "evaluation": "artifact", "candidate": "artifact", "release": "artifact",
    "tombstone": "artifact", "retention": "artifact", "human_evaluation": "artifact", "model": "artifact",
    "deletion": "artifact", "hold": "artifact",
}  # fmt: skip

EVIDENCE = {
    "snapshot.created": "manifest_digest",
    "split.created": "split_digest",
    "processing.applied": "dropped_digest",
    "quality.reported": "report_digest",
    "evaluation.reported": "report_digest",
    "attempt.ended": "log_digest",
    "checkpoint.registered": "digest",
}
"""Kinds of records that rest on bytes outside themselves, and the field with the digest of those bytes."""

MEANT = {"run.opened", "gate.dossier", "gate.decision", "candidate.named", "release.made", *EVIDENCE}
"""Kinds that are looked at again after their bytes were checked."""


class BadInput(Exception):
    """Something in the package cannot be read; the text says what."""


# -- Ed25519 (RFC 8032 section 5.1), verification only ---------------------------------------------------

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT_OF_MINUS_ONE = pow(2, (P - 1) // 4, P)
Point = tuple[int, int, int, int]


def _add(a: Point, b: Point) -> Point:
    first = (a[1] - a[0]) * (b[1] - b[0]) % P
    second = (a[1] + a[0]) * (b[1] + b[0]) % P
    third = 2 * a[3] * b[3] * D % P
    fourth = 2 * a[2] * b[2] % P
    e, f, g, h = second - first, fourth - third, fourth + third, second + first
    return e * f % P, g * h % P, f * g % P, e * h % P


def _times(scalar: int, point: Point) -> Point:
    result: Point = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            result = _add(result, point)
        point = _add(point, point)
        scalar >>= 1
    return result


def _decode_point(raw: bytes) -> Point | None:
    y = int.from_bytes(raw, "little")
    sign, y = y >> 255, y & (1 << 255) - 1
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT_OF_MINUS_ONE % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = P - x
    return x, y, 1, x * y % P


_BASE = _decode_point(bytes([0x58]) + bytes([0x66]) * 31)


def ed25519_verify(public: bytes, message: bytes, signature: bytes) -> bool:
    """Whether ``signature`` (64 bytes) is that of ``message`` under ``public`` (32 bytes)."""
    if len(public) != 32 or len(signature) != 64 or _BASE is None:
        return False
    key, commitment = _decode_point(public), _decode_point(signature[:32])
    scalar = int.from_bytes(signature[32:], "little")
    if key is None or commitment is None or scalar >= L:
        return False
    challenge = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % L
    left, right = _times(scalar, _BASE), _add(commitment, _times(challenge, key))
    return (
        not (left[0] * right[2] - right[0] * left[2]) % P
        and not (left[1] * right[2] - right[1] * left[2]) % P
    )


# -- keys and signed notes -------------------------------------------------------------------------------

SPKI_PREFIX = bytes.fromhex("302a300506032b6570032100")


class Key(NamedTuple):
    """An Ed25519 verification key; ``name`` is empty where the file held only the key."""

    name: str
    public: bytes

    def hash_for(self, name: str) -> bytes:
        """The four bytes that a signed note puts before the signature."""
        return hashlib.sha256(name.encode() + b"\n\x01" + self.public).digest()[:4]


def parse_key(raw: bytes) -> Key:
    """Read a key: ``name+hash+base64`` of notes, raw 32 bytes, base64, or PEM SubjectPublicKeyInfo."""
    if len(raw) == 32:
        return Key("", raw)
    try:
        text = raw.decode("ascii" if b"+" not in raw else "utf-8").strip()
        if text.startswith("-----BEGIN PUBLIC KEY-----"):
            return Key("", _key_bytes("".join(text.splitlines()[1:-1])))
        parts = re.fullmatch(r"([^\s+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/=]+)", text)
        if parts:
            body = base64.b64decode(parts.group(3), validate=True)
            key = Key(parts.group(1), body[1:])
            if len(body) == 33 and body[0] == 1 and key.hash_for(key.name).hex() == parts.group(2):
                return key
            raise BadInput("the key's hash does not fit the key, or it is not an Ed25519 key")
        return Key("", _key_bytes(text))
    except (ValueError, UnicodeDecodeError) as error:
        raise BadInput("not a verification key (name+hash+base64, 32 bytes, base64 or PEM)") from error


def _key_bytes(text: str) -> bytes:
    body = base64.b64decode(text, validate=True)
    if body.startswith(SPKI_PREFIX):
        body = body[len(SPKI_PREFIX) :]
    if len(body) != 32:
        raise ValueError(text)
    return body


class Note(NamedTuple):
    """A signed note with one signature."""

    text: str
    origin: str
    size: int
    root: bytes
    signer: str
    key_hash: bytes
    signature: bytes


def parse_note(raw: bytes) -> Note:
    """Read ``checkpoint.txt``: origin, size, base64 root, blank line, one signature line."""
    try:
        whole = raw.decode("utf-8")
        text, gap, last = whole.rpartition("\n\n")
        text += "\n"
        origin, size, root = text.split("\n")[:3]
        line = re.fullmatch(r"\u2014 (\S+) ([A-Za-z0-9+/]+={0,2})\n", last)
        if not gap or line is None or text.count("\n") != 3 or not origin:
            raise ValueError("shape")
        if not re.fullmatch(r"0|[1-9][0-9]{0,18}", size):
            raise ValueError("size")
        blob, head = base64.b64decode(line.group(2), validate=True), base64.b64decode(root, validate=True)
        canonical = (
            base64.b64encode(blob).decode() == line.group(2) and base64.b64encode(head).decode() == root
        )
        if len(blob) != 68 or len(head) != 32 or not canonical:
            raise ValueError("base64")
        return Note(text, origin, int(size), head, line.group(1), blob[:4], blob[4:])
    except ValueError as error:
        raise BadInput("not a checkpoint note with origin, size, root and one signature") from error


# -- JSON ------------------------------------------------------------------------------------------------


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BadInput("a key stands twice in one object")
    return found


def _constant(name: str) -> Any:
    raise BadInput(name + " is no JSON")


def _integer(text: str) -> int:
    if len(text) > 400:
        raise BadInput("a number is too long")
    return int(text)


# Newer Pythons limit the length of integers by themselves; a hook per number costs time.
_DECODER = json.JSONDecoder(
    object_pairs_hook=_pairs,
    parse_constant=_constant,
    parse_int=None if hasattr(sys, "set_int_max_str_digits") else _integer,
)


def parse_json(raw: bytes) -> Any:
    """Read JSON strictly: UTF-8, no key twice, no NaN, bounded nesting."""
    try:
        return _DECODER.decode(raw.decode("utf-8"))
    except RecursionError:
        raise BadInput("nested too deeply") from None
    except ValueError as error:
        raise BadInput("not JSON: " + str(error)) from None


def _number(value: float) -> str:
    """A float as ECMAScript prints it (RFC 8785 section 3.2.2.3)."""
    if value != value or value in (float("inf"), float("-inf")):
        raise BadInput("a number is not finite")
    if value == 0:
        return "0"
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    count, sign = len(digits), "-" if value < 0 else ""
    if count <= point <= 21:
        return sign + digits + "0" * (point - count)
    if 0 < point <= 21:
        return sign + digits[:point] + "." + digits[point:]
    if -6 < point <= 0:
        return sign + "0." + "0" * -point + digits
    power = point - 1
    tail = ("." + digits[1:] if count > 1 else "") + "e" + ("+" if power > 0 else "-") + str(abs(power))
    return sign + digits[0] + tail


def canonical(value: Any) -> str:
    """JSON in the canonical form of RFC 8785, as text."""
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    names = sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    return "{" + ",".join(canonical(name) + ":" + canonical(value[name]) for name in names) + "}"


def digest_of(value: Any) -> str:
    """``sha256:`` and the hex digest over the canonical bytes."""
    try:
        return "sha256:" + hashlib.sha256(canonical(value).encode("utf-8")).hexdigest()
    except (UnicodeEncodeError, RecursionError):
        raise BadInput("text that canonical JSON cannot hold") from None


# -- the tree --------------------------------------------------------------------------------------------


def tree_root(leaves: list[tuple[int, bytes]], size: int, hashes: list[bytes]) -> bytes:
    """Root of a tree of ``size`` leaves from some ``leaves`` (sorted) and the nodes that cover the rest.

    ``hashes`` are the roots of the largest subtrees without any of ``leaves``, from left to right. Each is
    used once; one too many or too few is an error, so that no byte of the proof is free.
    """
    sha256, left_over = hashlib.sha256, iter(hashes)

    def root(start: int, end: int, low: int, high: int) -> bytes:
        if low == high:
            return next(left_over)
        if end - start == 1:
            return leaves[low][1]
        middle = start + (1 << (end - start - 1).bit_length() - 1)
        first, last = low, high
        while first < last:  # the first leaf at or right of the middle
            half = (first + last) // 2
            if leaves[half][0] < middle:
                first = half + 1
            else:
                last = half
        left = root(start, middle, low, first)
        return sha256(b"\x01" + left + root(middle, end, first, high)).digest()

    try:
        result = root(0, size, 0, len(leaves))
    except StopIteration:
        raise BadInput("the proof lacks nodes") from None
    if next(left_over, None) is not None:
        raise BadInput("the proof has nodes too many")
    return result


# -- the report ------------------------------------------------------------------------------------------


class Item:
    """One item of evidence: what was compared, and how it came out. Faults add up."""

    __slots__ = ("check", "expected", "faults", "found", "id", "track", "verdict")

    def __init__(self, name: str, track: str, check: str) -> None:
        self.id, self.track, self.check = name, track, check
        self.verdict, self.expected, self.found, self.faults = VERIFIED, "", "", 0

    def fault(self, expected: str, found: str) -> None:
        """The item is not what was signed. Texts of a hostile package are cut, and told up to a number."""
        expected, found = brief(expected), brief(found)
        self.verdict, self.faults = CHANGED, self.faults + 1
        if self.faults == 1:
            self.expected, self.found = expected, found
        elif self.faults <= MAX_FAULTS:
            self.expected, self.found = self.expected + "; " + expected, self.found + "; " + found
        elif self.faults == MAX_FAULTS + 1:
            self.found += "; and more"

    def gap(self, expected: str, found: str) -> None:
        """Nothing stands there that could be compared."""
        if self.verdict == VERIFIED:
            self.verdict, self.expected, self.found = UNRECORDED, expected, found


def brief(text: str) -> str:
    """A text of bounded length."""
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "\u2026"


def typed(value: Any, types: dict[str, Any], what: str) -> dict[str, Any]:
    """``value`` if it is an object with exactly these keys and types; true and false are no numbers."""
    if type(value) is not dict:
        raise BadInput(what + " is no object")
    if value.keys() != types.keys():
        odd = sorted(value.keys() ^ types.keys())
        raise BadInput("%s has other keys than %s: %s" % (what, ", ".join(types), ", ".join(map(repr, odd))))
    for name, kind in types.items():
        if not isinstance(value[name], kind) or isinstance(value[name], bool):
            raise BadInput(f"{name} of {what} is of another type")
    return value


class Record(NamedTuple):
    """A parsed record with the item that its file stands for."""

    path: str
    kind: str
    body: dict[str, Any]
    item: Item

    @property
    def payload(self) -> dict[str, Any]:
        """What the record says."""
        return self.body["payload"]  # type: ignore[no-any-return]


READ_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
READ_INSIDE = READ_FLAGS | getattr(os, "O_NOFOLLOW", 0)


def show(name: bytes) -> str:
    """A file name for people and JSON: reversible, without control characters."""
    if PLAIN_NAME.fullmatch(name):
        return name.decode("ascii")
    out = []
    for char in name.decode("utf-8", "surrogateescape"):
        if 0xDC80 <= ord(char) <= 0xDCFF:
            out.append("%%%02X" % (ord(char) - 0xDC00))
        elif char == "%" or not char.isprintable():
            out.append("".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass")))
        else:
            out.append(char)
    return "".join(out)


def track_of(path: str) -> str:
    """The track of a record's file by its kind; everything else belongs to the package."""
    if not path.startswith("records/"):
        return "package"
    return TRACK_OF.get(path[8:].partition("-")[2].partition(".")[0], "gates")


class Verifier:
    """Checks one folder. Each step adds items; no step trusts what an earlier one refused."""

    def __init__(self, folder: str, key: Key | None, pointers: bool = False) -> None:
        self.folder, self.key, self.pointers = os.fsencode(folder), key, pointers
        self.items: dict[str, Item] = {}
        self.files: dict[str, os.stat_result] = {}
        self.folders: set[str] = set()
        self.seen: set[str] = set()
        self.manifest: dict[str, Any] = {}
        self.manifest_digest = ""
        self.listed: dict[str, dict[str, Any]] = {}
        self.records: list[Record] = []
        self.record_count = 0
        self.leaf_count = 0
        self.keep_all = False  # whether every record stays in memory, or only those that are looked at again
        self.note: Note | None = None
        self.references: list[dict[str, Any]] = []
        self.named: set[str] = set()  # records that files or references say they rest on
        self.ids: set[str] = set()
        self.authenticated = False

    def item(self, name: str, track: str, check: str) -> Item:
        """The item ``name``, made on first use."""
        found = self.items.get(name)
        if found is None:
            found = self.items[name] = Item(name, track, check)
        return found

    def run(self) -> None:
        """All checks, in the order of the module's text."""
        self.guard(".", self.walk, self.folder, b"", 0)
        self.guard(MANIFEST, self.read_manifest)
        self.guard("references.json", self.read_references)
        self.named = {e["record"] for e in (*self.listed.values(), *self.references) if "record" in e}
        leaves = self.guard(PROOFS, self.read_proofs) or []
        self.guard("chain", self.read_records, leaves)
        for path, entry in self.listed.items():
            self.guard(path, self.read_listed, path, entry)
        self.guard(".", self.find_unlisted)
        self.guard(MANIFEST, self.check_statement)
        self.guard("references.json", self.check_evidence)
        asked = {r.payload.get("gate") for r in self.of("gate.dossier")}
        for gate in ("prepare", *(("review",) if "review" in asked else ()), "run", "close"):
            self.guard("gate/" + gate, self.check_gate, gate)
        self.guard(MANIFEST, self.check_results)

    def guard(self, name: str, check: Callable[..., Any], *arguments: Any) -> Any:
        """Do one check of the item ``name``. What nobody thought of is a finding on it, never the end."""
        try:
            return check(*arguments)
        except BadInput as error:
            found = str(error)
        except Exception as error:  # noqa: BLE001 - whatever a hostile package provokes
            found = f"{type(error).__name__}: {error}"
        self.item(name, track_of(name), "it can be checked").fault("content that can be checked", found)
        return None

    # -- files -------------------------------------------------------------------------------------------

    def walk(self, folder: bytes, prefix: bytes, depth: int) -> None:
        """List regular files; anything else is a fault, and no link is followed."""
        names: dict[str, bytes] = {}
        folders = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    path = prefix + entry.name
                    place = self.place(path, entry, names)
                    if place == "folder":
                        folders.append((entry.path, path + b"/"))
        except OSError as error:
            self.item(show(prefix) or ".", "package", "the folder can be read").fault(
                "readable", str(error.strerror)
            )
            return
        for where, path in sorted(folders):
            if depth + 1 > MAX_DEPTH:
                self.item(show(path), "package", "folders are not nested deeply").fault("8 levels", "more")
            else:
                self.walk(where, path, depth + 1)

    def place(self, path: bytes, entry: os.DirEntry[bytes], names: dict[str, bytes]) -> str:
        """Sort one entry: ``folder``, ``file`` or ``refused``."""
        text = show(path)
        name = os.fsdecode(entry.name)
        flat = name.lower() if name.isascii() else unicodedata.normalize("NFC", name).casefold()
        twin = names.setdefault(flat, entry.name)
        if twin != entry.name:
            self.item(text, track_of(text), "names differ in more than case or Unicode form").fault(
                "one name", "collides with " + show(twin)
            )
        found = entry.stat(follow_symlinks=False)
        kind = stat.S_IFMT(found.st_mode)
        if kind == stat.S_IFDIR:
            self.folders.add(text)
            if len(self.folders) > MAX_ENTRIES:
                raise BadInput("more than %d folders" % MAX_ENTRIES)
            return "folder"
        if kind != stat.S_IFREG:
            what = {stat.S_IFLNK: "a symbolic link", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket"}
            self.refuse(text, "a regular file", what.get(kind, "a device"))
            return "refused"
        if found.st_nlink > 1:
            self.refuse(text, "a file with one name", "a hard link (%d names)" % found.st_nlink)
        if len(self.files) >= MAX_ENTRIES:
            raise BadInput("more than %d files" % MAX_ENTRIES)
        self.files[text] = found
        return "file"

    def refuse(self, path: str, expected: str, found: str) -> None:
        """A file that is not what a package consists of."""
        self.seen.add(path)
        self.item(path, track_of(path), "it is a plain file of its own").fault(expected, found)

    def read(self, path: str, limit: int) -> bytes:
        """The bytes of a file that :meth:`walk` found; never through a link, never more than ``limit``."""
        found = self.files.get(path)
        if found is None:
            raise BadInput("missing")
        if found.st_size > limit:
            raise BadInput("%d bytes, larger than the limit of %d" % (found.st_size, limit))
        handle = self.open(path)
        try:
            data = os.read(handle, found.st_size + 1)
            while len(data) < found.st_size:
                more = os.read(handle, found.st_size + 1 - len(data))
                if not more:
                    break
                data += more
            return data
        except OSError as error:
            raise BadInput("cannot be read: " + str(error.strerror)) from None
        finally:
            os.close(handle)

    def open(self, path: str) -> int:
        """A handle of a file below the folder; the last part of its path is no link."""
        try:
            return os.open(self.folder + b"/" + path.encode(), READ_INSIDE)
        except OSError as error:
            raise BadInput("cannot be opened: " + str(error.strerror)) from None

    # -- manifest, tree and records ----------------------------------------------------------------------

    def read_manifest(self) -> None:
        """The list of files: shape, plain paths, no path twice."""
        item = self.item(MANIFEST, "package", "the list of files can be read")
        self.seen.add(MANIFEST)
        try:
            raw = self.read(MANIFEST, MAX_INDEX)
            self.manifest_digest = "sha256:" + hashlib.sha256(raw).hexdigest()
            manifest = typed(parse_json(raw), MANIFEST_TYPES, MANIFEST)
            if manifest["format"] != PACKAGE_FORMAT or manifest["records"] < 0:
                raise BadInput("not a manifest of format " + PACKAGE_FORMAT)
        except BadInput as error:
            item.fault("a readable " + MANIFEST, str(error))
            return
        self.manifest, self.record_count = manifest, manifest["records"]
        flat: dict[str, str] = {}
        for entry in manifest["files"]:
            self.list_file(entry, flat, item)

    def list_file(self, entry: Any, flat: dict[str, str], item: Item) -> None:
        """Take one line of the manifest, or say what is wrong with it."""
        path = entry.get("path") if isinstance(entry, dict) else None
        if not isinstance(path, str) or not PLAIN_PATH.fullmatch(path):
            shown = brief(repr(path))
            item.fault("plain relative paths", "path " + shown)
            self.item(shown, "package", "the listed path stays inside the package").fault(
                "a plain relative path", shown
            )
            return
        try:
            typed(
                entry, NAMED_FILE_TYPES if len(entry) > len(FILE_TYPES) else FILE_TYPES, "the line of " + path
            )
        except BadInput as error:
            item.fault("a line with path, size and SHA-256", str(error))
            return
        if entry["size"] < 0 or not HEX64.fullmatch(entry["sha256"]):
            item.fault("size and SHA-256 of " + path, "none")
        elif flat.setdefault(path.casefold(), path) != path or path in self.listed:
            item.fault("each path once", path + " twice")
        else:
            self.listed[path] = entry

    def read_proofs(self) -> list[tuple[int, str, str]]:
        """Leaves as (position, kind, hex hash); recompute the root and compare it with the signed one."""
        root_item = self.item(
            PROOFS, "package", "leaf hashes and nodes lead to the root of the signed checkpoint"
        )
        note_item = self.item(NOTE, "package", "a signed checkpoint of the log")
        self.seen.update((PROOFS, NOTE))
        try:
            raw = self.read(NOTE, MAX_NOTE)
            self.note = parse_note(raw)
            self.check_signature(self.note)
        except BadInput as error:
            note_item.fault("a readable " + NOTE, str(error))
        try:
            raw = self.read(PROOFS, MAX_INDEX)
            proofs = parse_json(raw)
            leaves, hashes = self.proof_parts(proofs)
            if json.dumps(proofs, separators=(",", ":"), sort_keys=True).encode() != raw:
                raise BadInput("not in canonical form")
        except BadInput as error:
            root_item.fault("a readable " + PROOFS, str(error))
            return []
        try:
            root = tree_root([(at, bytes.fromhex(leaf)) for at, _, leaf in leaves], proofs["size"], hashes)
            if self.note and (self.note.size, self.note.root) != (proofs["size"], root):
                root_item.fault(
                    "size %d, root %s" % (self.note.size, self.note.root.hex()),
                    "size %d, root %s" % (proofs["size"], root.hex()),
                )
        except BadInput as error:
            root_item.fault("a complete proof", str(error))
        return leaves

    @staticmethod
    def proof_parts(proofs: Any) -> tuple[list[tuple[int, str, str]], list[bytes]]:
        """The leaves and nodes of ``proofs.json``; ``BadInput`` where the shape is wrong."""
        typed(proofs, PROOFS_TYPES, PROOFS)
        try:
            leaves = [(at, kind, leaf) for at, kind, leaf in proofs["leaves"]]
            well = all(
                type(at) is int and isinstance(kind, str) and KIND.fullmatch(kind) and HEX64.fullmatch(leaf)
                for at, kind, leaf in leaves
            )
            order = all(a[0] < b[0] for a, b in zip(leaves, leaves[1:]))
            size = proofs["size"]
            if not well or not order or proofs["format"] != PROOFS_FORMAT:
                raise ValueError("shape")
            if not leaves or leaves[0][0] < 0 or leaves[-1][0] >= size or size >= 1 << 62:
                raise ValueError("positions")
            return leaves, [
                bytes.fromhex(node) for node in proofs["hashes"] if HEX64.fullmatch(node) or 1 / 0
            ]
        except (KeyError, TypeError, ValueError, ZeroDivisionError):
            raise BadInput("not leaves and nodes of format " + PROOFS_FORMAT) from None

    def check_signature(self, note: Note) -> None:
        """The signature against the key from outside, else against the key that the manifest names."""
        item = self.item(
            "signature", "package", "Ed25519 signature of the checkpoint, key given from outside"
        )
        key = self.key
        if key is None:
            item.check = "Ed25519 signature of the checkpoint, key named in the package itself"
            try:
                key = parse_key(self.manifest.get("verifier_key", "").encode("utf-8", "surrogatepass"))
            except BadInput:
                item.gap("a key", "none given with --key and none in the package")
                return
        if (key.name and key.name != note.signer) or key.hash_for(note.signer) != note.key_hash:
            item.fault("key of " + (key.name or "--key"), f"signed by {note.signer} {note.key_hash.hex()}")
        elif not ed25519_verify(key.public, note.text.encode(), note.signature):
            item.fault("a valid signature by " + note.signer, "the signature does not fit the text")
        else:
            self.authenticated = self.key is not None

    def read_records(self, leaves: list[tuple[int, str, str]]) -> None:
        """Each record: bytes, leaf, place in the chain. What the manifest says of it is checked here too."""
        self.keep_all = self.keep_all or len(leaves) <= FOLD_ABOVE
        self.leaf_count = len(leaves)
        chain = self.item("chain", "gates", "each record names the hash of the one before it, without a gap")
        previous, ids = "", self.ids
        for number, (_, kind, leaf) in enumerate(leaves):
            path = "records/%06d-%s.json" % (number, kind)
            self.seen.add(path)
            item = self.item(
                path, TRACK_OF.get(kind.partition(".")[0], "gates"), "bytes hash to the leaf in the tree"
            )
            try:
                body = self.read_record(item, number, kind, leaf, ids)
            except BadInput as error:
                item.fault("the signed record", str(error))
            except Exception as error:  # noqa: BLE001 - as in guard, without its cost for each record
                item.fault("the signed record", f"{type(error).__name__}: {error}")
            else:
                if body["previous"] != previous:
                    chain.fault("record %d after %s" % (number, previous or "nothing"), body["previous"])
                wanted = kind in MEANT or number >= self.record_count or body["record_id"] in self.named
                if self.keep_all or wanted:
                    self.records.append(Record(path, kind, body, item))
            previous = leaf
        if not leaves:
            chain.gap("records", "none that can be placed in the tree")

    def read_record(self, item: Item, number: int, kind: str, leaf: str, ids: set[str]) -> dict[str, Any]:
        """The body of a record; ``BadInput`` where it has not the shape of one. ``ids`` were there before."""
        raw = self.read(item.id, MAX_RECORD)
        self.compare_listing(item, item.id, raw, number)
        found = hashlib.sha256(b"\x00" + raw).hexdigest()
        if found != leaf:
            item.fault("leaf " + leaf, found)
        body: dict[str, Any] = parse_json(raw)
        if (
            type(body) is not dict
            or not body.keys() >= RECORD_KEYS
            or type(body["payload"]) is not dict
            or type(body["sequence"]) is not int
            or not type(body["record_id"]) is type(body["stream"]) is type(body["previous"]) is str
        ):
            raise BadInput("not a record of format " + RECORD_FORMAT)
        run_uid, record_id = self.manifest.get("run_uid"), body["record_id"]
        identity = (body["format"], body["kind"], body["sequence"], body["stream"])
        if identity != (RECORD_FORMAT, kind, number, run_uid or body["stream"]) or record_id in ids:
            item.fault(
                "record %d of run %s, a %s with an id of its own" % (number, run_uid, kind),
                "%s of %s, a %s, id %s" % (body["sequence"], body["stream"], body["kind"], record_id),
            )
        ids.add(record_id)
        return body

    def compare_listing(self, item: Item, path: str, raw: bytes, number: int) -> None:
        """A file's size and digest against the manifest; the records that close the package are not in it."""
        entry = self.listed.get(path)
        if entry is None:
            if self.manifest and number < self.record_count:
                item.fault("a line in " + MANIFEST, "none")
            return
        self.compare_digest(item, entry, len(raw), hashlib.sha256(raw).hexdigest())

    @staticmethod
    def compare_digest(item: Item, entry: dict[str, Any], size: int, sha256: str) -> None:
        """A file's size and digest against its line in the manifest."""
        if (entry["size"], entry["sha256"]) != (size, sha256):
            item.fault(
                "%d bytes, sha256:%s" % (entry["size"], entry["sha256"]),
                "%d bytes, sha256:%s" % (size, sha256),
            )

    def read_listed(self, path: str, entry: dict[str, Any]) -> None:
        """Another file against the manifest: the size first, then block by block."""
        if path in self.items and path.startswith("records/") and path in self.seen and path in self.files:
            return
        self.seen.add(path)
        item = self.item(path, track_of(path), "size and SHA-256 as the manifest lists them")
        if path in UNLISTED_BY_DESIGN:
            item.fault("not in its own list", "listed")
            return
        try:
            size = self.files[path].st_size if path in self.files else None
            if size is None:
                raise BadInput("missing")
            if size != entry["size"] or size > MAX_FILE:
                raise BadInput("%d bytes; more than %d are not read" % (size, min(MAX_FILE, entry["size"])))
            self.compare_digest(item, entry, *_hash(self.open(path), size))
        except BadInput as error:
            item.fault("%d bytes, sha256:%s" % (entry["size"], entry["sha256"]), str(error))

    def find_unlisted(self) -> None:
        """A file that nobody signed for, and a folder without any file."""
        for path in sorted(self.files.keys() - self.seen):
            self.item(path, track_of(path), "every file is listed").fault(
                "nothing here", "a file that is not listed"
            )
        needed: set[str] = set()
        for path in self.files.keys() | self.seen:
            above = path.rpartition("/")[0]
            while above and above not in needed:
                needed.add(above)
                above = above.rpartition("/")[0]
        for path in sorted(self.folders - needed):
            self.item(path, "package", "every folder holds listed files").fault(
                "nothing here", "an empty folder"
            )

    # -- meaning -----------------------------------------------------------------------------------------

    def of(self, kind: str) -> Iterator[Record]:
        """The records of a kind, oldest first."""
        return (record for record in self.records if record.kind == kind)

    def check_statement(self) -> None:
        """The record that closes the package names the digest of the manifest."""
        item = self.item(MANIFEST, "package", "")
        item.check = "its digest is the one in the signed record package.written"
        closing = [r for r in self.records if r.body["sequence"] >= self.record_count]
        kinds = [record.kind for record in closing]
        if kinds not in (["package.written"], ["package.written", "run.closed"]):
            item.fault("a record package.written after the listed records", ", ".join(kinds) or "none")
            return
        for record in closing:
            name = "digest" if record.kind == "package.written" else "package_digest"
            if record.payload.get(name) != self.manifest_digest:
                item.fault(str(record.payload.get(name)), self.manifest_digest)

    def check_evidence(self) -> None:
        """Evidence files and references against the digests that the records name."""
        claims: dict[tuple[str, str], tuple[str, Item]] = {}
        for path, entry in self.listed.items():
            if "record" in entry:
                item = self.item(path, "package", "")
                item.check = "SHA-256 as listed and as the record {} names it".format(entry["record"])
                claims[entry["record"], entry["field"]] = ("sha256:" + entry["sha256"], item)
        for entry in self.references:
            name = "reference/" + brief(entry["id"])
            item = self.item(
                name,
                "package",
                "digest of what is not copied, as the record {} names it".format(entry["record"]),
            )
            claims[entry["record"], entry["field"]] = (entry["digest"], item)
            self.guard(name, self.check_pointer, entry, item)
        for record in self.records:
            field = EVIDENCE.get(record.kind)
            if field:
                self.guard(record.path, self.check_claim, record, field, claims)
        by_id = {record.body["record_id"]: record for record in self.records}
        for (record_id, field), (digest, item) in claims.items():
            found = by_id.get(record_id)
            if found is not None and EVIDENCE.get(found.kind) != field:
                item.track = found.item.track
                if found.payload.get(field) != digest or found.item.verdict == CHANGED:
                    item.fault(f"{found.payload.get(field)} in {found.path}", digest)
            elif found is None and len(self.ids) == self.leaf_count:  # every record could be read
                item.fault("a record " + brief(record_id) + " of the package", "none")

    def check_claim(
        self, record: Record, field: str, claims: dict[tuple[str, str], tuple[str, Item]]
    ) -> None:
        """One record that rests on bytes: are they here, or pointed to, under the digest that it names?"""
        expected = record.payload.get(field)
        claim = claims.get((record.body["record_id"], field))
        if claim is None:
            name = "evidence of " + record.path
            self.item(name, record.item.track, "").gap("a file or reference for " + field, "none")
            return
        claim[1].track = record.item.track
        if claim[0] != expected or record.item.verdict == CHANGED:
            claim[1].fault(str(expected) + " in " + record.path, claim[0])

    def read_references(self) -> None:
        """The list of what is not copied."""
        path = "references.json"
        if path not in self.files or path not in self.listed:
            return
        item = self.item(path, "package", "size and SHA-256 as the manifest lists them")
        try:
            whole = typed(parse_json(self.read(path, MAX_INDEX)), REFERENCES_TYPES, path)
            if whole["format"] != REFERENCES_FORMAT:
                raise BadInput("not of format " + REFERENCES_FORMAT)
        except BadInput as error:
            item.fault("a list of references", str(error))
            return
        for number, entry in enumerate(whole["references"]):
            try:
                self.references.append(typed(entry, REFERENCE_TYPES, "reference %d" % number))
                for part in entry["files"]:
                    typed(part, FILE_TYPES, "a file of reference %d" % number)
            except BadInput as error:
                item.fault("a list of references", str(error))
                if self.references and self.references[-1] is entry:
                    self.references.pop()

    def check_pointer(self, entry: dict[str, Any], item: Item) -> None:
        """What the writer found at the location, and with --pointers what is there now."""
        if entry["verdict"] == CHANGED:
            item.fault(entry["digest"], "already other bytes when the package was written")
        if not self.pointers:
            return
        try:
            where = urlsplit(entry["location"])
        except ValueError as error:
            item.fault("an address", "%s: %s" % (error, entry["location"]))
            return
        if where.scheme != "file":
            item.gap("bytes at the location", "not reachable from here: " + (where.scheme or "no location"))
            return
        base = os.fsencode(unquote(where.path, errors="surrogateescape"))
        whole = {"path": "", "sha256": entry["digest"].partition(":")[2], "size": entry["size"]}
        for part in entry["files"] or [whole]:
            path = os.path.join(base, _text_to_path(part["path"])) if part["path"] else base
            found = _look(path, part["size"])
            if found is None:
                item.gap("bytes at the location", "absent: " + (part["path"] or where.path))
            elif found != "sha256:" + part["sha256"]:
                item.fault("sha256:{} {}".format(part["sha256"], part["path"]), found)

    def check_gate(self, gate: str) -> None:
        """A sign-off: who, entitled, over which dossier, and is it the newest question?"""
        item = self.item(
            "gate/" + gate,
            "gates",
            "the decision names the dossier that was shown, by an entitled person",
        )
        opened = next(self.of("run.opened"), None)
        submitter = opened.payload.get("submitter") if opened else None
        decisions = [r for r in self.of("gate.decision") if r.payload.get("gate") == gate]
        shown = [r for r in self.of("gate.dossier") if r.payload.get("gate") == gate]
        if decisions:
            self.check_decision(item, decisions[-1], shown, submitter)
            return
        broken = any(
            i.verdict == CHANGED and i.id.endswith("-gate.decision.json") for i in self.items.values()
        )
        item.gap("a decision", "a decision that cannot be read" if broken else "no decision in the package")

    def check_decision(self, item: Item, decision: Record, shown: list[Record], submitter: Any) -> None:
        """One decision against its dossier."""
        said = decision.payload
        dossier = next((r for r in shown if r.body["record_id"] == said.get("dossier_record")), None)
        if dossier is None or dossier.body["sequence"] > decision.body["sequence"]:
            item.fault(
                "the dossier " + str(said.get("dossier_record")), "not among the records before the decision"
            )
            return
        try:
            computed = digest_of(dossier.payload.get("document"))
        except BadInput as error:
            computed = str(error)
        for named in (dossier.payload.get("digest"), said.get("dossier_digest")):
            if named != computed:
                item.fault(str(named), "the dossier's document has " + computed)
        entitled = dossier.payload.get("eligible")
        person = (said.get("person_id"), said.get("person_name"))
        if type(entitled) is not list:
            item.fault("a list of entitled persons in " + dossier.path, type(entitled).__name__)
        elif not any(isinstance(name, str) and name and name in entitled for name in person):
            item.fault("one of " + ", ".join(map(str, entitled)), f"signed by {person[0]}")
        if submitter in person and not said.get("self_signed"):
            item.fault("another person than the submitter", f"signed by {person[0]}")
        for record in (decision, dossier):
            if record.item.verdict == CHANGED:
                item.fault("the signed " + record.path, "it was altered")
        if shown[-1].body["sequence"] > decision.body["sequence"]:
            item.gap("a decision on the newest dossier", "signed for older evidence")
        elif said.get("decision") != "approve":
            item.gap("an approval", f"rejected by {person[0]}")

    def check_results(self) -> None:
        """Evaluation, candidate and release name checkpoints that were registered, with their digests."""
        known = {}
        for record in self.of("checkpoint.registered"):
            name = record.payload.get("checkpoint_id")
            if isinstance(name, str):
                known[name] = record
            else:
                record.item.fault("the id of a checkpoint", f"{type(name).__name__} {name}")
        for kind in ("evaluation.reported", "candidate.named", "release.made"):
            for record in self.of(kind):
                what = kind.partition(".")[0]
                name = brief("{}/{}".format(what, record.payload.get(what + "_id")))
                self.guard(name, self.check_result, name, record, known)

    def check_result(self, name: str, record: Record, known: dict[str, Record]) -> None:
        """One result against the checkpoints of the run."""
        item = self.item(name, "artifact", "the checkpoint that it names was registered with this digest")
        digest, wanted = record.payload.get("checkpoint_digest"), record.payload.get("checkpoint_id")
        if wanted is not None and not isinstance(wanted, str):
            item.fault("the id of a checkpoint", f"{type(wanted).__name__} {wanted}")
            return
        source = known.get(wanted) if wanted else next(
            (r for r in known.values() if r.payload.get("digest") == digest), None
        )  # fmt: skip
        if source is None:
            item.fault("checkpoint %s" % (wanted or digest), "not registered in this run")
        elif source.payload.get("digest") != digest:
            item.fault(str(digest), str(source.payload.get("digest")))
        elif CHANGED in (record.item.verdict, source.item.verdict):
            item.fault("the signed records", "altered: " + record.path + " or " + source.path)

    # -- result ------------------------------------------------------------------------------------------

    def result(self) -> dict[str, Any]:
        """The report as plain JSON, worst first."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        items = self.folded()
        items.sort(key=lambda item: (ORDER[item.verdict], TRACKS.index(item.track)))
        changed = any(item.verdict == CHANGED for item in items)
        verdict = "changed" if changed else "verified" if self.authenticated else "intact"
        return {
            "verdict": verdict,
            "run_uid": self.manifest.get("run_uid"),
            "checked_at": now,
            "signed_by": self.note.signer if self.note else None,
            "log_size": self.note.size if self.note else None,
            "key": "given" if self.key else "none given",
            "counts": {name: sum(item.verdict == name for item in items) for name in ORDER},
            "records": self.leaf_count,
            "references": {"listed": len(self.references), "looked_at": self.pointers},
            "items": [
                {
                    "id": item.id, "track": item.track, "verdict": item.verdict, "check": item.check,
                    "checked_at": now, "expected": item.expected, "found": item.found,
                }
                for item in items
            ],
        }  # fmt: skip

    def folded(self) -> list[Item]:
        """The items; above :data:`FOLD_ABOVE` records, verified ones become one item per kind."""
        items = list(self.items.values())
        if self.leaf_count <= FOLD_ABOVE:
            return items
        kept, kinds = [], {}  # type: ignore[var-annotated]
        for item in items:
            if item.verdict == VERIFIED and item.id.startswith("records/"):
                kinds.setdefault(item.id.partition("-")[2][:-5], []).append(item)
            else:
                kept.append(item)
        for kind, group in kinds.items():
            kept.append(
                Item(
                    f"records/*-{kind}.json",
                    group[0].track,
                    "%d records: %s" % (len(group), group[0].check),
                )
            )
        return kept


def _text_to_path(text: str) -> bytes:
    return re.sub(rb"%([0-9A-F]{2})", lambda m: bytes([int(m.group(1), 16)]), text.encode())


def _hash(handle: int, limit: int) -> tuple[int, str]:
    """Bytes and SHA-256 of what ``handle`` holds, at most one byte more than ``limit``; closes it."""
    digest, size = hashlib.sha256(), 0
    try:
        while size <= limit:
            block = os.read(handle, min(BLOCK, limit + 1 - size))
            if not block:
                break
            digest.update(block)
            size += len(block)
    except OSError as error:
        raise BadInput("cannot be read: " + str(error.strerror)) from None
    finally:
        os.close(handle)
    return size, digest.hexdigest()


def _look(path: bytes, size: int | None) -> str | None:
    """What lies at ``path`` outside the package: its digest, or its size where that differs; None if nothing."""
    try:
        handle = os.open(path, READ_FLAGS)
    except (OSError, ValueError):
        return None
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode) or (size is not None and found.st_size != size):
        os.close(handle)
        return "%d bytes" % found.st_size if stat.S_ISREG(found.st_mode) else None
    try:
        return "sha256:" + _hash(handle, found.st_size)[1]
    except BadInput:
        return None


def verify(folder: str, *, key: Key | None = None, pointers: bool = False) -> dict[str, Any]:
    """Check the package in ``folder`` and return the report (see :meth:`Verifier.result`)."""
    verifier = Verifier(folder, key, pointers)
    verifier.run()
    return verifier.result()


EXIT = {"verified": 0, "intact": 3, "changed": 1}
WORDS = {
    "verified": "verified 已核验: everything holds, and the signature matches the given key",
    "intact": "intact 完整: everything holds, but no key was given (--key FILE), so nobody vouches for the signer",
    "changed": "changed 已变更: what stands above with \u25b3 is not what was signed",
}
MARK = {VERIFIED: "\u2714", CHANGED: "\u25b3", UNRECORDED: "\u25cc"}


def plain(text: Any) -> str:
    """Text for a terminal: one line, no control characters."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in str(text))


def table(report: dict[str, Any], *, everything: bool) -> str:
    """The report for a person: worst first, what holds folded by track."""
    lines = [
        "Run      " + plain(report["run_uid"]),
        "Signed   by {}, log of {} records".format(plain(report["signed_by"]), report["log_size"]),
        "",
    ]
    folded: dict[str, int] = {}
    for item in report["items"]:
        if item["verdict"] == VERIFIED and not everything:
            folded[item["track"]] = folded.get(item["track"], 0) + 1
            continue
        lines.append(
            "%s %-10s %-9s %s" % (MARK[item["verdict"]], item["verdict"], item["track"], plain(item["id"]))
        )
        if item["check"]:
            lines.append("             check     " + plain(item["check"]))
        if item["verdict"] != VERIFIED:
            lines.append("             expected  " + plain(item["expected"]))
            lines.append("             found     " + plain(item["found"]))
    lines += [
        "%s verified   %-9s %d items" % (MARK[VERIFIED], track, folded[track])
        for track in TRACKS
        if track in folded
    ]
    counts = report["counts"]
    lines += ["", " \u00b7 ".join("%d %s" % (counts[name], name) for name in (VERIFIED, CHANGED, UNRECORDED))]
    if report["references"]["listed"] and not report["references"]["looked_at"]:
        lines.append(
            "%d references to what is not copied: add --pointers to look there"
            % report["references"]["listed"]
        )
    lines.append("Verdict: " + WORDS[report["verdict"]])
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """The command line."""
    gc.disable()  # a short life, many objects, no cycles worth the search
    parser = argparse.ArgumentParser(prog="verify.py", description="Check a package of a training run.")
    parser.add_argument(
        "folder", nargs="?", metavar="DIR", default=os.path.dirname(os.path.abspath(__file__))
    )
    parser.add_argument("--json", action="store_true", help="print the report as one JSON document")
    parser.add_argument("--all", action="store_true", help="list verified items too")
    parser.add_argument("--key", metavar="FILE", help="verification key from a source other than the package")
    parser.add_argument("--pointers", action="store_true", help="also read what the package only points to")
    options = parser.parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        if not os.path.isdir(options.folder):
            msg = f"{plain(options.folder)} is not a folder"
            raise BadInput(msg)
        key = None
        if options.key:
            with open(options.key, "rb") as handle:
                key = parse_key(handle.read(4096))
        signs = (
            MANIFEST,
            PROOFS,
            NOTE,
            "records",
        )  # one that is there tells of a package that lost the others
        if not any(os.path.lexists(os.path.join(options.folder, name)) for name in signs):
            msg = "{} is no package: it has none of {}".format(plain(options.folder), ", ".join(signs))
            raise BadInput(msg)
        report = verify(options.folder, key=key, pointers=options.pointers)
    except (BadInput, OSError) as error:
        message = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        where = plain(options.key) + ": " if isinstance(error, OSError) and options.key else ""
        if options.json:
            print(
                json.dumps(
                    {"error": {"code": "bad_input", "message": where + message, "hint": "See --help."}}
                )
            )
        print("verify.py: " + where + message, file=sys.stderr)
        return 2
    print(json.dumps(report, indent=1) if options.json else table(report, everything=options.all))
    return EXIT[report["verdict"]]


if __name__ == "__main__":
    sys.exit(main())
