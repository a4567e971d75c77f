"""Signatures over released files: made offline from recorded digests, checked by OpenSSF's own program too."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import subprocess
import sys

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from model_signing import verifying
from tests.support.released import model_key

from pretrain_archive.artifacts.signing import (
    fingerprint,
    read_public_key,
    require_signable,
    sign_files,
    signature_fault,
    signed_names,
)
from pretrain_archive.domain.errors import ArchiveError, InputError
from pretrain_archive.domain.identity import path_to_text
from pretrain_archive.domain.kinds import FileDigest


@pytest.fixture
def model(tmp_path):
    """A folder with files of odd names, and what registration would record of it."""
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    for name in ("weights.bin", "a b%ü.bin", "sub/shard 1", ".complete", ".gitattributes"):
        (folder / name).write_bytes(name.encode())
    files = [
        FileDigest(
            path=path_to_text(str(path.relative_to(folder)).encode()), size=path.stat().st_size,
            sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in sorted(folder.rglob("*")) if path.is_file()
    ]  # fmt: skip
    return folder, files


@pytest.fixture
def key(tmp_path):
    """A private key, its public half beside it."""
    return model_key(tmp_path / "model.key")


def test_a_signature_holds_over_exactly_the_files(model, key):
    """The key and the files agree; another digest, a missing and a further file do not."""
    _, files = model
    made = sign_files(files, name="m", key=key)

    def fault(them):
        return signature_fault(made.bundle, them, name="m", public_key=made.public_key)

    assert "" == fault(files)
    assert "Hash mismatch" in fault([files[0].model_copy(update={"sha256": "0" * 64}), *files[1:]])
    weights = next(f for f in files if f.path == "weights.bin")
    assert "Missing files" in fault([f for f in files if f is not weights])
    assert "Extra files" in fault([*files, weights.model_copy(update={"path": "more.bin"})])


def test_openssf_s_own_program_checks_the_folder(model, key, tmp_path):
    """Whoever has the folder needs nothing of ours; a wrong byte is found."""
    folder, files = model
    (tmp_path / "model.sig").write_bytes(sign_files(files, name="m", key=key).bundle)

    def check() -> None:
        public = key.with_suffix(".pub")
        verifying.Config().use_elliptic_key_verifier(public_key=public).verify(folder, tmp_path / "model.sig")

    check()
    (folder / "sub" / "shard 1").write_bytes(b"sub/shard 2")
    with pytest.raises(ValueError, match=r"Hash mismatch for .*shard 1"):
        check()


def test_another_key_is_not_believed(model, key, tmp_path):
    """A valid signature of somebody else is none of ours."""
    _, files = model
    made = sign_files(files, name="m", key=key)
    other = read_public_key(model_key(tmp_path / "other.key").with_suffix(".pub"))

    assert signature_fault(made.bundle, files, name="m", public_key=other)
    assert fingerprint(other) != made.fingerprint == fingerprint(made.public_key)


@pytest.mark.parametrize(
    "bundle",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\xff\xfe", id="no text"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(json.dumps({"dsseEnvelope": {}}).encode(), id="no bundle"),
    ],
)
def test_a_hostile_bundle_is_refused_with_a_reason(model, key, bundle):
    """Whatever stands in the file, the answer is a sentence."""
    _, files = model
    public = read_public_key(key.with_suffix(".pub"))

    assert signature_fault(bundle, files, name="m", public_key=public)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(min_value=0), bit=st.integers(0, 7))
def test_no_bit_of_a_bundle_can_be_turned_unseen(model, key, at, bit):
    """Wherever it is: no longer a signature, or the very same statement and signature in another spelling."""
    _, files = model
    made = sign_files(files, name="m", key=key)
    place = at % len(made.bundle)
    broken = bytearray(made.bundle)
    broken[place] ^= 1 << bit
    fault = signature_fault(bytes(broken), files, name="m", public_key=made.public_key)

    if not fault:
        old, new = (json.loads(data)["dsseEnvelope"] for data in (made.bundle, bytes(broken)))
        assert base64.b64decode(old["payload"]) == base64.b64decode(new["payload"])
        assert base64.b64decode(old["signatures"][0]["sig"]) == base64.b64decode(new["signatures"][0]["sig"])


def test_a_changed_envelope_is_refused(model, key):
    """The payload of a signed bundle cannot be exchanged."""
    _, files = model
    made = sign_files(files, name="m", key=key)
    other = json.loads(sign_files(files[1:], name="m", key=key).bundle)
    bundle = json.loads(made.bundle)
    bundle["dsseEnvelope"]["payload"] = other["dsseEnvelope"]["payload"]

    assert signature_fault(json.dumps(bundle).encode(), files, name="m", public_key=made.public_key)


def test_nothing_is_sent_anywhere(model, key, monkeypatch):
    """Signing and checking open no connection."""

    def refuse(*_args, **_more):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    _, files = model
    made = sign_files(files, name="m", key=key)

    assert "" == signature_fault(made.bundle, files, name="m", public_key=made.public_key)


def pem(key) -> bytes:
    """A private key as people keep it."""
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(ed25519.Ed25519PrivateKey.generate(), id="the ledger's kind of key"),
        pytest.param(rsa.generate_private_key(65537, 2048), id="RSA"),
        pytest.param(ec.generate_private_key(ec.SECP256K1()), id="another curve"),
    ],
)
def test_a_key_of_another_kind_is_named(model, tmp_path, key):
    """It is a wrong setting, told in one line, before anything is released."""
    _, files = model
    file = tmp_path / "other.key"
    file.write_bytes(pem(key))

    for act in (lambda: require_signable(files, key=file), lambda: sign_files(files, name="m", key=file)):
        with pytest.raises(InputError, match="model_signing_key"):
            act()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(None, id="missing"),
        pytest.param(b"no key", id="no key"),
        pytest.param(b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", id="broken"),
    ],
)
def test_a_key_that_cannot_sign_is_named(model, tmp_path, content):
    """The option, the file and the way to a key are told."""
    _, files = model
    file = tmp_path / "bad.key"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(InputError, match="model_signing_key") as raised:
        sign_files(files, name="m", key=file)
    assert "openssl" in raised.value.hint


def test_a_name_that_no_bundle_can_hold_is_refused():
    """Names are bytes; one that is not UTF-8 cannot be signed, and the remedy is told."""
    odd = FileDigest(path=path_to_text(b"a\xff"), size=0, sha256="0" * 64)

    with pytest.raises(ArchiveError, match="not UTF-8"):
        signed_names([odd])


def test_the_library_is_loaded_only_when_something_is_signed():
    """Importing what the close task imports loads nothing heavy."""
    code = "import sys, pretrain_archive.services.releasing; sys.exit('model_signing' in sys.modules)"

    assert 0 == subprocess.run([sys.executable, "-c", code], check=False).returncode
