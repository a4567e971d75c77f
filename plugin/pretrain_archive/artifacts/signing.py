"""Signatures over released files with OpenSSF model-signing and a key file: offline, nothing is sent anywhere.

Format: https://github.com/sigstore/model-transparency, a sigstore bundle with a DSSE envelope over an in-toto statement
that lists every file with its SHA-256. The digests are those that registration recorded, so that a checkpoint in a
bucket is signed like one on disk; whoever has the files can check them with that project's own program. As there,
``.git`` and its companions at the top are left out.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from pretrain_archive.domain.errors import ArchiveError, InputError
from pretrain_archive.domain.identity import text_to_path
from pretrain_archive.domain.kinds import FileDigest, ReleasedFile

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

LEFT_OUT = frozenset({".git", ".gitattributes", ".github", ".gitignore"})
"""Names at the top of a folder that model-signing never looks at."""
MAX_BUNDLE = 256 << 20
"""Bytes: a bundle over a million files stays below this."""
MAX_KEY = 1 << 16
"""Bytes of a key in PEM."""
MOST_TOLD = 500
"""Characters of a fault: a list of a thousand files helps nobody."""
OPTION = "[pretrain_archive] model_signing_key"
EXTRA = "Install pretrain-archive[sign]."


@dataclass(frozen=True, kw_only=True, slots=True)
class Signature:
    """A bundle with the public key that checks it (PEM), the key's fingerprint and the tool that made it."""

    bundle: bytes
    public_key: str
    fingerprint: str
    tool: str


def signed_names(files: Iterable[FileDigest | ReleasedFile]) -> dict[str, str]:
    """Name in the folder → SHA-256 in hex of what is signed.

    Raises :class:`ArchiveError` for a name that is not UTF-8, which no bundle can hold.
    """
    found = {}
    for file in files:
        raw = text_to_path(file.path)
        try:
            name = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ArchiveError(
                f"{file.path}: the name is not UTF-8, which a signature cannot name.",
                hint="Rename the file in the training program and release another checkpoint.",
            ) from error
        if PurePosixPath(name).parts[0] not in LEFT_OUT:
            found[name] = file.sha256
    return found


def sign_files(files: Iterable[FileDigest | ReleasedFile], *, name: str, key: Path) -> Signature:
    """Sign the recorded ``files`` of the model ``name`` with the private key in ``key`` (PEM, NIST curve)."""
    hashing, signing = _library("hashing", "signing")
    public = public_key_of(key)
    config = signing.Config().set_hashing_config(_recorded(hashing, signed_names(files), name))
    with tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch) / "model.sig"
        try:
            config.use_elliptic_key_signer(private_key=key).sign(Path(scratch), target)
        except (OSError, ValueError, TypeError) as error:
            raise _unusable(key, error) from error
        bundle = target.read_bytes()
    return Signature(bundle=bundle, public_key=public, fingerprint=fingerprint(public), tool=_tool())


def require_signable(files: Iterable[FileDigest | ReleasedFile], *, key: Path) -> None:
    """Sign something for nobody, so that what cannot sign is found before anything is released.

    Raises what :func:`sign_files` raises: for the key, for a library that is not there, for the files' names.
    """
    signed_names(files)
    sign_files([ReleasedFile(path="probe", size=0, sha256="0" * 64)], name="probe", key=key)


def signature_fault(
    bundle: bytes, files: Iterable[FileDigest | ReleasedFile], *, name: str, public_key: str
) -> str:
    """Why ``bundle`` is no signature of ``public_key`` (PEM) over exactly ``files``; empty if it is one.

    ``files`` are digests that the caller has just compared with the bytes.
    """
    if len(bundle) > MAX_BUNDLE:
        return f"the bundle is larger than {MAX_BUNDLE} bytes"
    hashing, verifying = _library("hashing", "verifying")
    with tempfile.TemporaryDirectory() as scratch:
        stored, key = Path(scratch) / "model.sig", Path(scratch) / "key.pub"
        stored.write_bytes(bundle)
        key.write_text(public_key)
        config = verifying.Config().set_hashing_config(_recorded(hashing, signed_names(files), name))
        try:
            config.use_elliptic_key_verifier(public_key=key).verify(Path(scratch), stored)
        except Exception as error:  # noqa: BLE001 - a bundle is foreign: of many kinds, and all of them mean "no"
            return str(error).replace(scratch, "…")[:MOST_TOLD] or type(error).__name__
    return ""


def public_key_of(key: Path) -> str:
    """The public half, as PEM, of the private key in a file; :class:`InputError` says why there is none."""
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - only where somebody signs
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey  # noqa: PLC0415

    try:
        private = serialization.load_pem_private_key(_key_text(key), None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _unusable(key, error) from error
    if not isinstance(private, EllipticCurvePrivateKey):
        raise _unusable(key, TypeError(f"it is no key on a NIST curve but {type(private).__name__}"))
    return _pem(private.public_key())


def _key_text(file: Path) -> bytes:
    """A key's file, as far as any key is long."""
    with file.open("rb") as handle:
        return handle.read(MAX_KEY)


def read_public_key(file: Path) -> str:
    """A public key from a PEM file, in its normal form; :class:`InputError` says why it is none."""
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - see above
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415

    try:
        public: Any = serialization.load_pem_public_key(_key_text(file))
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise InputError("--key", str(file), f"is no public key: {error}", hint="Give a PEM file.") from error
    return _pem(public)


def fingerprint(public_key: str) -> str:
    """``sha256:`` of the key in DER: the same for every way in which the text is laid out."""
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - see above

    public = serialization.load_pem_public_key(public_key.encode())
    der = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return "sha256:" + hashlib.sha256(der).hexdigest()


def _pem(public: EllipticCurvePublicKey) -> str:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - see above

    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return public.public_bytes(serialization.Encoding.PEM, form).decode()


def _recorded(hashing: Any, digests: Mapping[str, str], name: str) -> Any:
    """A way of hashing that reads nothing: it tells the digests that are given."""
    from model_signing import manifest  # noqa: PLC0415 - heavy, and often not installed
    from model_signing._hashing.hashing import Digest  # noqa: PLC0415 - has no public name

    class Recorded(hashing.Config):  # type: ignore[misc]
        """Serves recorded digests in place of those of a folder's files."""

        def hash(self, _model_path: Any, **_: Any) -> manifest.Manifest:
            items = [
                manifest.FileManifestItem(
                    path=PurePosixPath(path), digest=Digest("sha256", bytes.fromhex(hexed))
                )
                for path, hexed in sorted(digests.items())
            ]
            how = {"method": "files", "hash_type": "sha256", "allow_symlinks": False}
            return manifest.Manifest(name, items, manifest.SerializationType.from_args(how))

    return Recorded()


def _library(*names: str) -> list[Any]:
    """Modules of model-signing; it needs pyopenssl without saying so."""
    import importlib  # noqa: PLC0415

    try:
        return [importlib.import_module(f"model_signing.{name}") for name in names]
    except ImportError as error:
        raise ArchiveError(f"signatures need model-signing: {error}.", hint=EXTRA) from error


def _tool() -> str:
    from importlib.metadata import version  # noqa: PLC0415

    return f"model-signing {version('model-signing')}"


def _unusable(key: Path, error: Exception) -> InputError:
    text = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    return InputError(
        OPTION, str(key), f"cannot sign: {text}",
        hint="Make one: openssl ecparam -name prime256v1 -genkey -noout -out model.key (without a pass phrase).",
    )  # fmt: skip
