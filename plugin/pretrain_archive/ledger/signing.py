"""Checkpoints as signed notes (Ed25519), in the text formats of the transparency-log community.

Note: https://c2sp.org/signed-note. Checkpoint: https://c2sp.org/tlog-checkpoint. A public key is one line,
``name+hash+base64(0x01 || key)``; a private key one line, ``PRIVATE+KEY+name+hash+base64(0x01 || seed)``.
``hash`` is the first four bytes of ``SHA-256(name || LF || 0x01 || key)``: it finds the key, it proves nothing.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import logging
import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from pretrain_archive.domain.errors import InputError, LedgerError
from pretrain_archive.ledger.port import SignedCheckpoint

log = logging.getLogger(__name__)

_ED25519 = b"\x01"
_DASH = "\u2014 "


def _key_hash(name: str, public: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + _ED25519 + public).digest()[:4]


def _split_key(text: str, what: str) -> tuple[str, bytes, bytes]:
    """Name, hash and 32 bytes of key material of a key line."""
    name, _, rest = text.strip().partition("+")
    short, _, encoded = rest.partition("+")
    try:
        material = base64.b64decode(encoded, validate=True)
        found = bytes.fromhex(short)
    except (ValueError, binascii.Error):
        material, found = b"", b""
    if not name or len(found) != 4 or len(material) != 33 or material[:1] != _ED25519:
        raise InputError(what, text.strip()[:20] + "…", "is not an Ed25519 key line of the note format")
    return name, found, material[1:]


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifyKey:
    """A public key by which signatures are known; ``public`` is 32 raw bytes."""

    name: str
    public: bytes

    @property
    def key_id(self) -> str:
        """The hex key hash of the note format."""
        return _key_hash(self.name, self.public).hex()

    def __str__(self) -> str:
        return f"{self.name}+{self.key_id}+{base64.b64encode(_ED25519 + self.public).decode()}"

    @classmethod
    def parse(cls, text: str) -> VerifyKey:
        """Read a public key line; ``InputError`` if it is not one."""
        name, short, public = _split_key(text, "public key")
        if _key_hash(name, public) != short:
            raise InputError("public key", name, "has a hash that does not fit its bytes")
        return cls(name=name, public=public)

    def verifies(self, body: str, signature: bytes) -> bool:
        """Whether ``signature`` (64 bytes) is this key's over ``body``."""
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, body.encode())
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, kw_only=True, slots=True)
class Signer:
    """A private key with its name."""

    name: str
    seed: bytes = field(repr=False)

    @classmethod
    def new(cls) -> Signer:
        """A fresh key under a name of its own."""
        return cls(name=f"pretrain-archive-{secrets.token_hex(4)}", seed=secrets.token_bytes(32))

    @classmethod
    def parse(cls, text: str) -> Signer:
        """Read a private key line; ``InputError`` if it is not one."""
        prefix = "PRIVATE+KEY+"
        if not text.startswith(prefix):
            raise InputError("signing_key", "(hidden)", f"must hold one line that begins with {prefix}")
        name, short, seed = _split_key(text.removeprefix(prefix), "signing_key")
        signer = cls(name=name, seed=seed)
        if bytes.fromhex(signer.verify_key.key_id) != short:
            raise InputError("signing_key", name, "has a hash that does not fit its bytes")
        return signer

    def to_text(self) -> str:
        """The private key line."""
        seed = base64.b64encode(_ED25519 + self.seed).decode()
        return f"PRIVATE+KEY+{self.name}+{self.verify_key.key_id}+{seed}\n"

    @property
    def verify_key(self) -> VerifyKey:
        """The public half."""
        private = Ed25519PrivateKey.from_private_bytes(self.seed)
        return VerifyKey(name=self.name, public=private.public_key().public_bytes_raw())

    def sign(self, *, origin: str, size: int, root: bytes) -> SignedCheckpoint:
        """Sign a checkpoint over the first ``size`` records."""
        body = f"{origin}\n{size}\n{base64.b64encode(root).decode()}\n"
        signature = Ed25519PrivateKey.from_private_bytes(self.seed).sign(body.encode())
        stamp = base64.b64encode(bytes.fromhex(self.verify_key.key_id) + signature).decode()
        return parse_checkpoint(f"{body}\n{_DASH}{self.name} {stamp}\n")


def _signatures(note: str) -> tuple[str, list[tuple[str, str, bytes]]]:
    """The signed body of a note and its signatures (name, key id, bytes)."""
    body, gap, lines = note.rpartition("\n\n")
    found = []
    for line in lines.splitlines():
        name, _, encoded = line.removeprefix(_DASH).partition(" ")
        try:
            stamp = base64.b64decode(encoded, validate=True)
        except (ValueError, binascii.Error):
            stamp = b""
        if not line.startswith(_DASH) or not name or len(stamp) <= 4:
            raise ValueError(f"a signature line is malformed: {line[:60]!r}")
        found.append((name, stamp[:4].hex(), stamp[4:]))
    if not gap or not found or not note.endswith("\n"):
        raise ValueError("a signed note has a body, an empty line and signature lines")
    return body + "\n", found


def parse_checkpoint(note: str) -> SignedCheckpoint:
    """Read a checkpoint without believing it; ``ValueError`` if the text is not one."""
    body, signatures = _signatures(note)
    lines = body.split("\n")
    if len(lines) < 4 or not lines[0] or not lines[1].isascii() or not lines[1].isdigit():
        raise ValueError("a checkpoint has three lines: origin, size, root")
    if str(int(lines[1])) != lines[1]:
        raise ValueError(f"a size has no leading zero, got {lines[1]!r}")
    root = base64.b64decode(lines[2], validate=True)
    if len(root) != 32:
        raise ValueError(f"a root has 32 bytes, got {len(root)}")
    name, key_id, _ = signatures[0]
    return SignedCheckpoint(
        origin=lines[0], size=int(lines[1]), root=root.hex(), signer=name, key_id=key_id, text=note
    )


def signed_by(note: str, keys: Iterable[VerifyKey]) -> VerifyKey | None:
    """The key of ``keys`` that truly signed ``note``, or None. A signature of a known key that fails is None."""
    body, signatures = _signatures(note)
    for key in keys:
        for name, key_id, signature in signatures:
            if (name, key_id) == (key.name, key.key_id):
                return key if key.verifies(body, signature) else None
    return None


def public_path(path: Path) -> Path:
    """Where the public half of the private key at ``path`` is written."""
    return path.with_suffix(".pub")


def load_signer(path: Path, *, create: bool = False) -> Signer | None:
    """The key at ``path``; None where there is none, or it is not for us to read.

    With ``create`` a missing key is made (mode 0600, public half beside it): fit for one machine and one
    user, and no protection against that user.
    """
    try:
        return Signer.parse(path.read_text(encoding="utf-8"))
    except PermissionError:
        return None
    except FileNotFoundError:
        return _create(path) if create else None
    except (OSError, UnicodeDecodeError) as problem:
        raise LedgerError(f"The signing key {path} cannot be read: {problem}.") from problem


def _create(path: Path) -> Signer:
    signer = Signer.new()
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        _write(draft, signer.to_text(), 0o600)
        os.link(draft, path)  # the first of two makers wins and the other reads it
    except FileExistsError:
        return Signer.parse(path.read_text(encoding="utf-8"))
    finally:
        draft.unlink(missing_ok=True)
    with contextlib.suppress(FileExistsError):
        _write(public_path(path), f"{signer.verify_key}\n", 0o644)
    log.warning(
        "Made the signing key %s with mode 0600; its public half is %s. Whoever can read the key can sign: "
        "in production let only the API server read it, and keep the public half elsewhere",
        path,
        public_path(path),
    )
    return signer


def _write(path: Path, text: str, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


def load_public_keys(paths: Iterable[Path]) -> list[VerifyKey]:
    """The keys in files of one public key per line; empty lines and ``#`` comments are skipped."""
    keys = []
    for path in paths:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as problem:
            raise InputError("public key", str(path), f"cannot be read: {problem}") from problem
        keys += [VerifyKey.parse(line) for line in lines if line.strip() and not line.startswith("#")]
    return keys
