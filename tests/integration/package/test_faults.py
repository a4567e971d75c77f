# ruff: noqa: E501 - one fault, one line
"""Every single fault is reported on the item that it hit."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.packages import Built, faults, run_verifier

from pretrain_archive.ledger.canonical import canonical_bytes

Damage = Callable[[Path], None]


def flip(name: str, at: int = -2) -> Damage:
    """Flip one bit of one byte."""

    def damage(folder: Path) -> None:
        path = folder / name
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)

    return damage


def remove(name: str) -> Damage:
    """Remove one file."""
    return lambda folder: (folder / name).unlink()


def add(name: str, data: bytes = b"{}") -> Damage:
    """Add one file."""
    return lambda folder: (folder / name).write_bytes(data) and None


def rename(name: str, target: str) -> Damage:
    """Rename one file."""
    return lambda folder: (folder / name).rename(folder / target) and None


def cut(name: str, keep: int) -> Damage:
    """Cut the end off."""
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:keep]) and None


def swap(name: str, other: str) -> Damage:
    """Exchange two files."""

    def damage(folder: Path) -> None:
        one, two = (folder / name).read_bytes(), (folder / other).read_bytes()
        (folder / name).write_bytes(two)
        (folder / other).write_bytes(one)

    return damage


def edit(name: str, change: Callable[[dict[str, Any]], None], *, consistent: bool = False) -> Damage:
    """Edit a JSON file; ``consistent`` also mends its line in the manifest and its leaf, as a forger would."""

    def damage(folder: Path) -> None:
        path = folder / name
        body = json.loads(path.read_bytes())
        change(body)
        data = canonical_bytes(body)
        path.write_bytes(data)
        if consistent:
            mend(folder, name, data)

    return damage


def mend(folder: Path, name: str, data: bytes) -> None:
    """Put the new size, digest and leaf hash where the old ones stood."""
    manifest = json.loads((folder / "manifest.json").read_bytes())
    for entry in manifest["files"]:
        if entry["path"] == name:
            entry |= {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / "manifest.json").write_bytes(canonical_bytes(manifest))
    if name.startswith("records/"):
        proofs = json.loads((folder / "proofs.json").read_bytes())
        proofs["leaves"][int(name[8:14])][2] = hashlib.sha256(b"\x00" + data).hexdigest()
        (folder / "proofs.json").write_bytes(canonical_bytes(proofs))


def set_payload(field: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Set one field of a record's payload."""
    return lambda body: body["payload"].__setitem__(field, value)


def drop_last_record(folder: Path) -> None:
    """A forger removes the close and its leaf."""
    (folder / "records/000036-run.closed.json").unlink()
    proofs = json.loads((folder / "proofs.json").read_bytes())
    proofs["leaves"].pop()
    (folder / "proofs.json").write_bytes(canonical_bytes(proofs))


def flip_signature(folder: Path) -> None:
    """One bit of the signature, under its base64 form: the note stays a note whatever was signed."""
    path = folder / "checkpoint.txt"
    text, _, line = path.read_text().rpartition(" ")
    blob = bytearray(base64.b64decode(line))
    blob[-12] ^= 1
    path.write_text(f"{text} {base64.b64encode(blob).decode()}\n")


def sign_with_own_key(folder: Path) -> None:
    """A forger replaces the signature, and the key in the package with it."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(b"\x09" * 32)
    text = (folder / "checkpoint.txt").read_text().partition("\n\n")[0] + "\n"
    name = text.split("\n")[0]
    public = key.public_key().public_bytes_raw()
    head = hashlib.sha256(name.encode() + b"\n\x01" + public).digest()[:4]
    line = base64.b64encode(head + key.sign(text.encode())).decode()
    (folder / "checkpoint.txt").write_text(f"{text}\n— {name} {line}\n")


def edit_note(old: str, new: str) -> Damage:
    """Replace text in the note."""

    def damage(folder: Path) -> None:
        path = folder / "checkpoint.txt"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return damage


def repeat_key(folder: Path) -> None:
    """The same key twice: two readers would see two different decisions."""
    path = folder / "records/000008-gate.decision.json"
    path.write_bytes(path.read_bytes().replace(b'{"actor"', b'{"kind":"gate.decision","actor"', 1))


DECISION = "records/000008-gate.decision.json"
DOSSIER = "records/000007-gate.dossier.json"
REPORT = "evidence/000028-evaluation-report.json"

FAULTS = [
    pytest.param(flip("index.html"), "index.html", id="byte of the page flipped"),
    pytest.param(flip("verify.py"), "verify.py", id="byte of the verifier flipped"),
    pytest.param(flip("README.txt"), "README.txt", id="byte of the read-me flipped"),
    pytest.param(flip("records/000002-snapshot.created.json", 300), "records/000002-snapshot.created.json", id="byte of a record flipped"),
    pytest.param(flip("manifest.json"), "manifest.json", id="byte of the manifest flipped"),
    pytest.param(flip("manifest.json", 200), "manifest.json", id="digest in the manifest flipped"),
    pytest.param(flip("proofs.json", 60), "proofs.json", id="byte of the proofs flipped"),
    pytest.param(flip_signature, "signature", id="byte of the signature flipped"),
    pytest.param(flip("records/000035-package.written.json", 400), "records/000035-package.written.json", id="byte of the statement flipped"),
    pytest.param(flip("ro-crate-metadata.json"), "ro-crate-metadata.json", id="byte of the crate flipped"),
    pytest.param(remove("evidence/metrics.csv"), "evidence/metrics.csv", id="metrics removed"),
    pytest.param(remove(DECISION), DECISION, id="decision removed"),
    pytest.param(remove("manifest.json"), "manifest.json", id="manifest removed"),
    pytest.param(remove("checkpoint.txt"), "checkpoint.txt", id="signed checkpoint removed"),
    pytest.param(remove("proofs.json"), "proofs.json", id="proofs removed"),
    pytest.param(remove("records/000036-run.closed.json"), "records/000036-run.closed.json", id="close removed"),
    pytest.param(add("evidence/more.json"), "evidence/more.json", id="evidence added"),
    pytest.param(add("records/000037-note.added.json"), "records/000037-note.added.json", id="record added"),
    pytest.param(add("sitecustomize.py", b"raise SystemExit(0)"), "sitecustomize.py", id="code added"),
    pytest.param(cut("evidence/000017-attempt-1.log", 20), "evidence/000017-attempt-1.log", id="log cut"),
    pytest.param(cut("evidence/000017-attempt-1.log", 0), "evidence/000017-attempt-1.log", id="log emptied"),
    pytest.param(cut(DECISION, 100), DECISION, id="decision cut"),
    pytest.param(rename(REPORT, "evidence/report.json"), REPORT, id="evidence renamed: the old name is missing"),
    pytest.param(rename(REPORT, "evidence/report.json"), "evidence/report.json", id="evidence renamed: the new name is not listed"),
    pytest.param(rename("checkpoint.txt", "Checkpoint.txt"), "checkpoint.txt", id="checkpoint renamed"),
    pytest.param(swap("records/000013-checkpoint.registered.json", "records/000015-checkpoint.registered.json"), "records/000013-checkpoint.registered.json", id="two records exchanged"),
    pytest.param(edit(DECISION, set_payload("person_id", "mallory")), DECISION, id="signer altered"),
    pytest.param(edit(DECISION, set_payload("person_id", "mallory")), "gate/prepare", id="signer altered: the gate says so"),
    pytest.param(edit(DECISION, set_payload("decision", "reject")), "gate/prepare", id="answer altered"),
    pytest.param(edit(DOSSIER, set_payload("eligible", ["mallory"])), "gate/prepare", id="who may sign altered"),
    pytest.param(edit(DECISION, set_payload("person_id", "mallory"), consistent=True), "manifest.json", id="signer forged throughout: the statement names another manifest"),
    pytest.param(edit(DECISION, set_payload("person_id", "mallory"), consistent=True), "proofs.json", id="signer forged throughout: the root differs"),
    pytest.param(edit(DECISION, set_payload("reason", "other"), consistent=True), "chain", id="reason forged throughout: the next record names another hash"),
    pytest.param(edit("records/000013-checkpoint.registered.json", set_payload("checkpoint_id", "ckpt_other")), "records/000013-checkpoint.registered.json", id="checkpoint renamed in its record"),
    pytest.param(edit("records/000026-checkpoint.registered.json", set_payload("checkpoint_id", "ckpt_other")), "candidate/cand_019a0000-0000-7000-8000-000000000001", id="candidate's checkpoint renamed"),
    pytest.param(edit("references.json", lambda body: body["references"].pop()), "references.json", id="reference removed"),
    pytest.param(edit("references.json", lambda body: body["references"][0].__setitem__("digest", "sha256:" + "0" * 64)), "reference/checkpoint-ckpt_019a0000-0000-7000-8000-000000000001_000020", id="digest in a reference altered"),
    pytest.param(edit("records/000004-quality.reported.json", set_payload("report_digest", "sha256:" + "0" * 64)), "evidence/000004-quality-report.json", id="report digest altered in the record"),
    pytest.param(edit("evidence/000004-quality-report.json", lambda body: body.__setitem__("documents", 1), consistent=True), "evidence/000004-quality-report.json", id="report replaced, manifest mended"),
    pytest.param(edit_note("\n4", "\n5"), "signature", id="log size altered in the note"),
    pytest.param(edit_note("pretrain-archive.test/ledger\n4", "pretrain-archive.test/other\n4"), "signature", id="origin altered in the note"),
    pytest.param(sign_with_own_key, "signature", id="signed with another key"),
    pytest.param(drop_last_record, "proofs.json", id="close and its leaf removed"),
    pytest.param(repeat_key, DECISION, id="a key twice in a record"),
]  # fmt: skip


@pytest.mark.parametrize("keyed", [True, False], ids=["with the key", "without a key"])
@pytest.mark.parametrize(("damage", "item"), FAULTS)
def test_fault_is_reported_on_its_item(
    built: Built, copy: Callable[[], Path], damage: Damage, item: str, keyed: bool
) -> None:
    """One fault: exit 1, verdict changed, and the item that was hit is among the changed ones."""
    folder = copy()
    damage(folder)

    # The session's own verifier: the package's could be what was damaged.
    code, report = run_verifier(built.folder, *(["--key", str(built.key)] if keyed else []), str(folder))

    assert (1, "changed") == (code, report["verdict"])
    assert item in faults(report)
    assert "changed" == report["items"][0]["verdict"]


def test_two_faults_are_both_listed(built: Built, copy: Callable[[], Path]) -> None:
    """One fault does not hide the next."""
    folder = copy()
    (folder / "evidence/metrics.csv").unlink()
    flip("index.html")(folder)

    _, report = run_verifier(built.folder, str(folder))

    assert {"evidence/metrics.csv", "index.html"} == set(faults(report))


def test_a_flipped_byte_anywhere_is_reported(copy: Callable[[], Path]) -> None:
    """Every file in turn, at its first, a middle and its last byte."""
    from pretrain_archive.package.verify import verify

    folder = copy()
    missed = []
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        whole = path.read_bytes()
        for at in {0, len(whole) // 2, len(whole) - 1}:
            data = bytearray(whole)
            data[at] ^= 0x10
            path.write_bytes(data)
            if verify(str(folder))["verdict"] != "changed":
                missed.append((path.name, at))
        path.write_bytes(whole)

    assert [] == missed
    assert "intact" == verify(str(folder))["verdict"]
