#!/usr/bin/env python3
"""Check a package of a training run with nothing but Python 3.9 or newer.

    python3 -I -S verify.py [--json] [--all] [--key FILE] [--pointers] [DIR]

DIR is the package, by default the folder of this file. It only reads: no network, no unpickling, no other
program, no link is followed. Every fault is listed; one fault does not hide the next.

    exit 0  verified  everything holds and the signature matches the key given with --key
    exit 3  intact    everything holds, but no key was given: whoever changed the package could have changed
                      this program and the key inside it too
    exit 1  changed   at least one item is not what was signed
    exit 2            wrong use (no such folder, unreadable key)

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
from collections.abc import Iterator
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

# Limits against a package that is made to exhaust the reader: far above what a writer makes.
MAX_ENTRIES, MAX_DEPTH = 2_000_000, 8
MAX_RECORD, MAX_INDEX, MAX_NOTE = 16 << 20, 512 << 20, 64 << 10
FOLD_ABOVE = 1000  # more verified records than this are summed up by kind

PLAIN_PATH = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
PLAIN_NAME = re.compile(rb"[ -$&-~]+")  # printable ASCII without the percent sign
HEX64 = re.compile(r"[0-9a-f]{64}")
KIND = re.compile(r"[a-z_]+\.[a-z_]+")
RECORD_KEYS = {
    "format", "record_id", "stream", "sequence", "previous", "kind", "schema_version", "attempt", "ordinal",
    "payload", "actor", "origin", "recorded_at", "edges", "unique",
}  # fmt: skip

TRACK_OF = {
    "source": "data", "snapshot": "data", "split": "data", "quality": "data", "temporary": "data",
    "configuration": "compute", "environment": "compute", "launch": "compute", "attempt": "compute",
    "metrics": "compute", "event": "compute", "stop": "compute",
    "checkpoint": "artifact", "evaluation": "artifact", "candidate": "artifact", "release": "artifact",
    "tombstone": "artifact", "retention": "artifact",
}  # fmt: skip

EVIDENCE = {
    "snapshot.created": "manifest_digest",
    "split.created": "split_digest",
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

    __slots__ = ("check", "expected", "found", "id", "track", "verdict")

    def __init__(self, name: str, track: str, check: str) -> None:
        self.id, self.track, self.check = name, track, check
        self.verdict, self.expected, self.found = VERIFIED, "", ""

    def fault(self, expected: str, found: str) -> None:
        """The item is not what was signed."""
        self.expected = expected if self.verdict != CHANGED else self.expected + "; " + expected
        self.found = found if self.verdict != CHANGED else self.found + "; " + found
        self.verdict = CHANGED

    def gap(self, expected: str, found: str) -> None:
        """Nothing stands there that could be compared."""
        if self.verdict == VERIFIED:
            self.verdict, self.expected, self.found = UNRECORDED, expected, found


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
        self.authenticated = False

    def item(self, name: str, track: str, check: str) -> Item:
        """The item ``name``, made on first use."""
        found = self.items.get(name)
        if found is None:
            found = self.items[name] = Item(name, track, check)
        return found

    def run(self) -> None:
        """All checks, in the order of the module's text."""
        self.walk(self.folder, b"", 0)
        self.read_manifest()
        leaves = self.read_proofs()
        self.read_records(leaves)
        self.read_listed()
        self.find_unlisted()
        self.check_statement()
        self.check_evidence()
        self.check_gates()
        self.check_results()

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
        where = self.folder + b"/" + path.encode()
        flags = (
            os.O_RDONLY
            | getattr(os, "O_NOFOLLOW", 0)
            | getattr(os, "O_NONBLOCK", 0)
            | getattr(os, "O_BINARY", 0)
        )
        try:
            handle = os.open(where, flags)
        except OSError as error:
            raise BadInput("cannot be opened: " + str(error.strerror)) from None
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

    # -- manifest, tree and records ----------------------------------------------------------------------

    def read_manifest(self) -> None:
        """The list of files: shape, plain paths, no path twice."""
        item = self.item(MANIFEST, "package", "the list of files can be read")
        self.seen.add(MANIFEST)
        try:
            raw = self.read(MANIFEST, MAX_INDEX)
            self.manifest_digest = "sha256:" + hashlib.sha256(raw).hexdigest()
            manifest = parse_json(raw)
            if not isinstance(manifest, dict) or manifest.get("format") != PACKAGE_FORMAT:
                raise BadInput("not a manifest of format " + PACKAGE_FORMAT)
            files, count = manifest.get("files"), manifest.get("records")
            if not isinstance(files, list) or not isinstance(count, int) or isinstance(count, bool):
                raise BadInput("the lists of files and records are missing")
        except BadInput as error:
            item.fault("a readable " + MANIFEST, str(error))
            return
        self.manifest, self.record_count = manifest, count
        flat: dict[str, str] = {}
        for entry in files:
            self.list_file(entry, flat, item)

    def list_file(self, entry: Any, flat: dict[str, str], item: Item) -> None:
        """Take one line of the manifest, or say what is wrong with it."""
        path = entry.get("path") if isinstance(entry, dict) else None
        size, sha = (entry.get("size"), entry.get("sha256")) if isinstance(entry, dict) else (None, None)
        if not isinstance(path, str) or not PLAIN_PATH.fullmatch(path):
            item.fault("plain relative paths", "path " + repr(path))
            self.item(repr(path), "package", "the listed path stays inside the package").fault(
                "a plain relative path", repr(path)
            )
        elif not isinstance(size, int) or not isinstance(sha, str) or not HEX64.fullmatch(sha):
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
        try:
            leaves = [(at, kind, leaf) for at, kind, leaf in proofs["leaves"]]
            well = all(
                type(at) is int and isinstance(kind, str) and KIND.fullmatch(kind) and HEX64.fullmatch(leaf)
                for at, kind, leaf in leaves
            )
            order = all(a[0] < b[0] for a, b in zip(leaves, leaves[1:]))
            size = proofs["size"]
            if not well or not order or proofs["format"] != PROOFS_FORMAT or type(size) is not int:
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
                key = parse_key(str(self.manifest.get("verifier_key") or "").encode())
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
        previous, ids, run_uid = "", set(), self.manifest.get("run_uid")
        for number, (_, kind, leaf) in enumerate(leaves):
            path = "records/%06d-%s.json" % (number, kind)
            self.seen.add(path)
            item = self.item(
                path, TRACK_OF.get(kind.partition(".")[0], "gates"), "bytes hash to the leaf in the tree"
            )
            try:
                raw = self.read(path, MAX_RECORD)
                self.compare_listing(item, path, raw, number)
                found = hashlib.sha256(b"\x00" + raw).hexdigest()
                if found != leaf:
                    item.fault("leaf " + leaf, found)
                body = parse_json(raw)
                if (
                    not isinstance(body, dict)
                    or not body.keys() >= RECORD_KEYS
                    or type(body["payload"]) is not dict
                ):
                    raise BadInput("not a record of format " + RECORD_FORMAT)
            except BadInput as error:
                item.fault("the signed record", str(error))
                previous = leaf
                continue
            identity = (body["format"], body["kind"], body["sequence"], body["stream"])
            if (
                identity != (RECORD_FORMAT, kind, number, run_uid or body["stream"])
                or body["record_id"] in ids
            ):
                item.fault(
                    "record %d of run %s, a %s with an id of its own" % (number, run_uid, kind),
                    "{} of {}, a {}, id {}".format(
                        body["sequence"], body["stream"], body["kind"], body["record_id"]
                    ),
                )
            if body["previous"] != previous:
                chain.fault("record %d after %s" % (number, previous or "nothing"), str(body["previous"]))
            previous = leaf
            ids.add(str(body["record_id"]))
            if self.keep_all or kind in MEANT or number >= self.record_count:
                self.records.append(Record(path, kind, body, item))
        if not leaves:
            chain.gap("records", "none that can be placed in the tree")

    def compare_listing(self, item: Item, path: str, raw: bytes, number: int) -> None:
        """A file's size and digest against the manifest; the records that close the package are not in it."""
        entry = self.listed.get(path)
        if entry is None:
            if self.manifest and number < self.record_count:
                item.fault("a line in " + MANIFEST, "none")
            return
        found = hashlib.sha256(raw).hexdigest()
        if (entry["size"], entry["sha256"]) != (len(raw), found):
            item.fault(
                "%d bytes, sha256:%s" % (entry["size"], entry["sha256"]),
                "%d bytes, sha256:%s" % (len(raw), found),
            )

    def read_listed(self) -> None:
        """Every other file against the manifest."""
        for path, entry in self.listed.items():
            if (
                path in self.items
                and path.startswith("records/")
                and path in self.seen
                and path in self.files
            ):
                continue
            self.seen.add(path)
            item = self.item(path, track_of(path), "size and SHA-256 as the manifest lists them")
            if path in UNLISTED_BY_DESIGN:
                item.fault("not in its own list", "listed")
                continue
            try:
                self.compare_listing(item, path, self.read(path, max(MAX_RECORD, entry["size"])), -1)
            except BadInput as error:
                item.fault("%d bytes, sha256:%s" % (entry["size"], entry["sha256"]), str(error))

    def find_unlisted(self) -> None:
        """A file that nobody signed for."""
        for path in sorted(self.files.keys() - self.seen):
            self.item(path, track_of(path), "every file is listed").fault(
                "nothing here", "a file that is not listed"
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
                claims[str(entry["record"]), str(entry.get("field"))] = ("sha256:" + entry["sha256"], item)
        for entry in self.read_references():
            name = "reference/{}".format(entry["id"])
            item = self.item(
                name,
                "package",
                "digest of what is not copied, as the record {} names it".format(entry["record"]),
            )
            claims[str(entry["record"]), str(entry.get("field"))] = (str(entry["digest"]), item)
            self.check_pointer(entry, item)
        for record in self.records:
            field = EVIDENCE.get(record.kind)
            if field:
                self.check_claim(record, field, claims)

    def check_claim(
        self, record: Record, field: str, claims: dict[tuple[str, str], tuple[str, Item]]
    ) -> None:
        """One record that rests on bytes: are they here, or pointed to, under the digest that it names?"""
        expected = record.payload.get(field)
        claim = claims.get((str(record.body["record_id"]), field))
        if claim is None:
            name = "evidence of " + record.path
            self.item(name, record.item.track, "").gap("a file or reference for " + field, "none")
            return
        claim[1].track = record.item.track
        if claim[0] != expected or record.item.verdict == CHANGED:
            claim[1].fault(str(expected) + " in " + record.path, claim[0])

    def read_references(self) -> list[dict[str, Any]]:
        """The list of what is not copied."""
        path = "references.json"
        if path not in self.files or path not in self.listed:
            return []
        try:
            entries = parse_json(self.read(path, MAX_INDEX))["references"]
            self.references = [entry for entry in entries if {"id", "record", "digest"} <= entry.keys()]
            if len(self.references) != len(entries):
                raise BadInput("a reference without id, record or digest")
        except (BadInput, KeyError, TypeError, AttributeError) as error:
            self.item(path, "package", "").fault("a list of references", str(error))
        return self.references

    def check_pointer(self, entry: dict[str, Any], item: Item) -> None:
        """What the writer found at the location, and with --pointers what is there now."""
        if entry.get("verdict") == CHANGED:
            item.fault(str(entry["digest"]), "already other bytes when the package was written")
        if not self.pointers:
            return
        where = urlsplit(str(entry.get("location") or ""))
        if where.scheme != "file":
            item.gap("bytes at the location", "not reachable from here: " + (where.scheme or "no location"))
            return
        base = os.fsencode(unquote(where.path, errors="surrogateescape"))
        for part in entry.get("files") or [
            {"path": "", "sha256": str(entry["digest"])[7:], "size": entry.get("size")}
        ]:
            expected = part.get("sha256")
            found = _hash_outside(
                os.path.join(base, _text_to_path(str(part["path"]))) if part["path"] else base
            )
            if found is None:
                item.gap("bytes at the location", "absent: " + str(part["path"] or where.path))
            elif found != expected:
                item.fault("sha256:{} {}".format(expected, part["path"]), "sha256:" + found)

    def check_gates(self) -> None:
        """Each sign-off: who, entitled, over which dossier, and is it the newest question?"""
        opened = next(self.of("run.opened"), None)
        submitter = opened.payload.get("submitter") if opened else None
        for gate in ("prepare", "run", "close"):
            item = self.item(
                "gate/" + gate,
                "gates",
                "the decision names the dossier that was shown, by an entitled person",
            )
            decisions = [r for r in self.of("gate.decision") if r.payload.get("gate") == gate]
            shown = [r for r in self.of("gate.dossier") if r.payload.get("gate") == gate]
            if not decisions:
                broken = [
                    i
                    for i in self.items.values()
                    if i.verdict == CHANGED and i.id.endswith("-gate.decision.json")
                ]
                item.gap(
                    "a decision", "a decision that cannot be read" if broken else "no decision in the package"
                )
            else:
                self.check_decision(item, decisions[-1], shown, submitter)

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
        entitled = dossier.payload.get("eligible") or []
        person = (said.get("person_id"), said.get("person_name"))
        if not any(name and name in entitled for name in person):
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
        known = {r.payload.get("checkpoint_id"): r for r in self.of("checkpoint.registered")}
        for kind in ("evaluation.reported", "candidate.named", "release.made"):
            for record in self.of(kind):
                name = kind.partition(".")[0] + "/" + str(record.payload.get(kind.partition(".")[0] + "_id"))
                item = self.item(
                    name, "artifact", "the checkpoint that it names was registered with this digest"
                )
                digest, wanted = record.payload.get("checkpoint_digest"), record.payload.get("checkpoint_id")
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


def _hash_outside(path: bytes) -> str | None:
    """SHA-256 of a regular file outside the package, None if it is not there."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, flags)
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        digest = hashlib.sha256()
        while True:
            block = os.read(handle, 1 << 20)
            if not block:
                return digest.hexdigest()
            digest.update(block)
    except OSError:
        return None
    finally:
        os.close(handle)


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
