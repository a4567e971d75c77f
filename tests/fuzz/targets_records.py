"""Files of our own formats that somebody else may have written: manifests, signed notes, packages, policies."""

from __future__ import annotations

import io
import json
from pathlib import Path

from tests.fuzz.target import Target

from pretrain_archive.data.manifest import Entry, Header, read_entries
from pretrain_archive.data.quality.labels import read_definition
from pretrain_archive.domain.errors import ArchiveError
from pretrain_archive.domain.policy import parse_policy
from pretrain_archive.ledger.signing import Signer, VerifyKey, parse_checkpoint, signed_by
from pretrain_archive.package import verify

ROOT = Path(__file__).parents[2]
SIGNER = Signer(name="fuzz", seed=bytes(range(32)))


def manifest(raw: bytes) -> None:
    """Read every entry."""
    for entry in read_entries(io.BytesIO(raw)):
        entry.line()
        entry.sort_key()


def manifests() -> list[bytes]:
    """A small manifest with a file, a file at a version, and a link."""
    entries = [
        Entry(path="a.txt", size=3, sha256="0" * 64),
        Entry(path="b%0Ac", size=0, sha256="f" * 64, version="v1"),
        Entry(path="link", link="a.txt"),
    ]
    header = Header(files=2, links=1, total_bytes=3)
    return [header.line() + b"".join(entry.line() for entry in entries)]


def note(raw: bytes) -> None:
    """Read a checkpoint's text and ask whether a known key signed it."""
    text = raw.decode("utf-8", "strict")
    parse_checkpoint(text)
    signed_by(text, [SIGNER.verify_key])


def notes() -> list[bytes]:
    """A signed checkpoint."""
    return [SIGNER.sign(origin="fuzz", size=7, root=bytes(32)).text.encode()]


def public_key(raw: bytes) -> None:
    """Read a line with a public key."""
    VerifyKey.parse(raw.decode("utf-8", "strict"))


def verifier(raw: bytes) -> None:
    """The verifier's own small readers: JSON, note and key."""
    for read in (verify.parse_json, verify.parse_note, verify.parse_key):
        try:
            read(raw)
        except verify.BadInput:
            continue


def verifier_seeds() -> list[bytes]:
    """JSON, a note and a key."""
    return [b'{"a": [1, 2.5, "x", null, true], "b": {}}', *notes(), str(SIGNER.verify_key).encode()]


def package(raw: bytes, folder: Path) -> None:
    """A directory whose files are the bytes: each a part after a zero byte, in the places that are read."""
    places = (
        "manifest.json",
        "proofs.json",
        "checkpoint.txt",
        "records/0.json",
        "ro-crate-metadata.json",
        "x",
    )
    for place, content in zip(places, raw.split(b"\0"), strict=False):
        (folder / place).parent.mkdir(exist_ok=True)
        (folder / place).write_bytes(content)
    report = verify.verify(str(folder), key=None)
    assert report["verdict"] == "changed"
    json.dumps(report)


def policy(raw: bytes) -> None:
    """A project's policy file."""
    parse_policy(raw, name="fuzz.toml")


def policies() -> list[bytes]:
    """The policies that come with the project."""
    return [path.read_bytes() for path in sorted((ROOT / "dags/policies").glob("*.toml"))]


def definition(raw: bytes) -> None:
    """The definition of labels."""
    read_definition(raw, name="labels.toml")


def definitions() -> list[bytes]:
    """A definition of two labels."""
    return [b'name = "x"\nversion = 1\n[labels.spam]\nmeaning = "a"\n[labels.ham]\nmeaning = "b"\n']


MODULE = "pretrain_archive."
RECORDS = [
    Target(name="manifest of a snapshot", call=manifest, seeds=manifests, modules=(MODULE + "data.manifest",),
           refuses=(ArchiveError,)),
    Target(name="signed note", call=note, seeds=notes, modules=(MODULE + "ledger.signing",),
           refuses=(ArchiveError, ValueError)),
    Target(name="public key", call=public_key, seeds=lambda: [str(SIGNER.verify_key).encode()],
           modules=(MODULE + "ledger.signing",), refuses=(ArchiveError, UnicodeDecodeError)),
    Target(name="readers of the verifier", call=verifier, seeds=verifier_seeds, modules=(MODULE + "package.verify",)),
    Target(name="package directory", call=package, scratch=True, seeds=lambda: [b"{}\0[]\0a\n0\n\n\0{}\0{}\0x"],
           modules=(MODULE + "package.verify",)),
    Target(name="policy file", call=policy, seeds=policies, modules=(MODULE + "domain.policy",), longest=8192),
    Target(name="definition of labels", call=definition, seeds=definitions, modules=(MODULE + "data.quality.labels",)),
]  # fmt: skip
