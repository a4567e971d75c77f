"""Keys and checkpoints in the note format, checked against published examples."""

from __future__ import annotations

import base64
import logging
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from pretrain_archive.domain.errors import InputError
from pretrain_archive.ledger.signing import (
    Signer,
    VerifyKey,
    load_public_keys,
    load_signer,
    parse_checkpoint,
    public_path,
    signed_by,
)

# The example key and note of Go's golang.org/x/mod/sumdb/note, the reference of the format.
GO_PRIVATE = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
GO_PUBLIC = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
GO_TEXT = (
    "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
)
GO_SIGNATURE = "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM="


def test_known_private_key_has_known_public_key() -> None:
    """The reference's private key gives its public key, and both survive being written."""
    signer = Signer.parse(GO_PRIVATE)
    assert GO_PUBLIC == str(signer.verify_key) == str(VerifyKey.parse(GO_PUBLIC))
    assert GO_PRIVATE == signer.to_text().strip()


def test_known_signature_verifies() -> None:
    """The reference's signature is accepted over its text and over no other."""
    key = VerifyKey.parse(GO_PUBLIC)
    stamp = base64.b64decode(GO_SIGNATURE)
    assert key.key_id == stamp[:4].hex()
    assert key.verifies(GO_TEXT, stamp[4:])
    assert not key.verifies(GO_TEXT + " ", stamp[4:])


def test_checkpoint_round_trip() -> None:
    """A signed checkpoint reads back, is known by its key, and not by another of the same name."""
    signer = Signer.new()
    checkpoint = signer.sign(origin="log.example", size=7, root=bytes(range(32)))

    assert checkpoint == parse_checkpoint(checkpoint.text)
    assert ["log.example", "7", base64.b64encode(bytes(range(32))).decode(), ""] == checkpoint.text.split(
        "\n"
    )[:4]
    assert signer.verify_key == signed_by(checkpoint.text, [Signer.new().verify_key, signer.verify_key])
    impostor = replace(Signer.new(), name=signer.name)
    assert None is signed_by(checkpoint.text, [impostor.verify_key])
    assert None is signed_by(checkpoint.text.replace("\n7\n", "\n8\n"), [signer.verify_key])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("\n7\n", "\n07\n", id="leading zero"),
        pytest.param("\n7\n", "\n-7\n", id="negative"),
        pytest.param("\n7\n", "\n٧\n", id="other digits"),
        pytest.param("log.example\n", "\n", id="no origin"),
        pytest.param("\u2014 ", "- ", id="other dash"),
        pytest.param("\n\n", "\n", id="no empty line"),
        pytest.param("AAECAwQF", "AAECAw", id="short root"),
        pytest.param("AAECAwQF", "AAE!AwQF", id="not base64"),
    ],
)
def test_malformed_checkpoints_are_refused(old: str, new: str) -> None:
    """What is not a checkpoint raises ValueError and nothing else."""
    text = Signer.new().sign(origin="log.example", size=7, root=bytes(range(32))).text
    assert old in text
    with pytest.raises(ValueError, match=r".+"):
        parse_checkpoint(text.replace(old, new))


def test_key_is_made_once_and_private(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """First use makes a key of mode 0600 with a notice; several first users end with the same key."""
    path = tmp_path / "keys" / "ledger.key"
    assert None is load_signer(path)
    with caplog.at_level(logging.WARNING), ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: load_signer(path, create=True), range(4)))

    assert 1 == len({signer.name for signer in made if signer})
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert load_signer(path) == made[0]
    assert [made[0].verify_key] == load_public_keys([public_path(path)]) if made[0] else False
    assert str(path) in caplog.text
    assert {path, public_path(path)} == set(path.parent.iterdir())


@pytest.mark.parametrize(
    "text", ["", "nonsense", GO_PUBLIC, GO_PRIVATE.replace("c74f20a3", "c74f20a4"), GO_PRIVATE[:-6]]
)
def test_wrong_key_file_is_named(tmp_path: Path, text: str) -> None:
    """A file that is no private key is an error of the option, and its content is not shown."""
    path = tmp_path / "ledger.key"
    path.write_text(text)
    with pytest.raises(InputError, match="signing_key") as refused:
        load_signer(path)
    assert "AYEKFALVFGyN" not in str(refused.value)


def test_wrong_public_key_is_refused(tmp_path: Path) -> None:
    """A public key whose hash does not fit, or whose file is not text, is refused."""
    path = tmp_path / "a.pub"
    path.write_text(f"# ours\n\n{GO_PUBLIC.replace('c7', 'c8')}\n")
    with pytest.raises(InputError, match="hash"):
        load_public_keys([path])
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="public key"):
        load_public_keys([path])
