"""Where prompts and outputs for readers lie: the file of a request or a program, and the kept lines of a sample.

Whoever names a file is not believed: it must be a regular file, and a link that a program left is not followed.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Final

from pretrain_archive.artifacts.formats import strict_json
from pretrain_archive.artifacts.location import to_location, to_path
from pretrain_archive.domain.errors import InputError
from pretrain_archive.ledger.canonical import canonical_bytes, digest_of
from pretrain_archive.services.human_items import MOST_BYTES, OutputItem
from pretrain_archive.storage.factory import open_store
from pretrain_archive.storage.port import ObjectStore

SAMPLES: Final = "samples.jsonl"
"""The file that an evaluation program may write."""


def open_items(uri: str, *, names: dict[str, str]) -> tuple[BinaryIO, str]:
    """The file that a request names, and its address: a path, ``file://`` or ``s3://``.

    ``names`` fills ``{run_uid}``, ``{checkpoint_id}`` and ``{step}``. Raises ``InputError`` where there is none.
    """
    text = uri
    for name, value in names.items():
        text = text.replace("{" + name + "}", value)
    if text.startswith("s3://") and text.rpartition("/")[0] != "s3:/":
        parent, _, key = text.rpartition("/")
        return open_store(parent).open(key), text
    path = Path(text) if text.startswith("/") else to_path(text)
    if path is None:
        raise InputError("human_items", uri, "is no absolute path, file:// or s3:// address")
    file = _open_regular(path, text, field="human_items")
    if file is None:
        raise InputError("human_items", text, "is not there")
    return file, to_location(path)


def _open_regular(path: Path, shown: str, *, field: str, follow: bool = True) -> BinaryIO | None:
    """A file, None where nothing is there; ``InputError`` for anything else. A pipe does not hold the task."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(field, shown, f"cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError(field, shown, "is no file")
    return os.fdopen(descriptor, "rb")


def samples_key(run_uid: str, evaluation_id: str, digest: str) -> str:
    """Where the outputs with this digest that an evaluation program wrote are kept."""
    return f"runs/{run_uid}/evaluations/{evaluation_id}/samples/{digest.removeprefix('sha256:')}.jsonl"


def keep_samples(store: ObjectStore, run_uid: str, evaluation_id: str, path: Path) -> tuple[str, str] | None:
    """Keep the outputs that the evaluation program wrote: their address and digest; None where it wrote none.

    Links are not followed.
    """
    file = _open_regular(path, path.name, field="samples", follow=False)
    if file is None:
        return None
    with file:
        if os.fstat(file.fileno()).st_size > MOST_BYTES:
            raise InputError("samples", path.name, f"is larger than {MOST_BYTES} bytes")
        whole = hashlib.sha256()
        while block := file.read(1 << 20):
            whole.update(block)
        digest = "sha256:" + whole.hexdigest()
        file.seek(0)
        key = samples_key(run_uid, evaluation_id, digest)
        store.put_if_absent(key, file)
    return store.location(key), digest


def lines_of(items: Iterable[OutputItem]) -> bytes:
    """The drawn lines as they are kept."""
    return b"".join(canonical_bytes(item.document()) + b"\n" for item in items)


def keep_items(store: ObjectStore, run_uid: str, raw: bytes, *, keep: bool = True) -> tuple[str, str]:
    """Keep the drawn lines (unless they are only compared); return their address and digest."""
    digest = "sha256:" + hashlib.sha256(raw).hexdigest()
    key = items_key(run_uid, digest)
    if keep:
        store.put_if_absent(key, io.BytesIO(raw))
    return store.location(key), digest


def items_key(run_uid: str, digest: str) -> str:
    """Where a sample's lines are kept."""
    return f"runs/{run_uid}/human/{digest.removeprefix('sha256:')}.jsonl"


def kept_items(store: ObjectStore, run_uid: str, digest: str) -> list[OutputItem]:
    """The kept lines of a sample; ``InputError`` where they are no longer what was recorded."""
    with store.open(items_key(run_uid, digest)) as file:
        raw = file.read(MOST_BYTES)
    if "sha256:" + hashlib.sha256(raw).hexdigest() != digest:
        raise InputError("items", digest, "the kept items are not the recorded ones any more")
    made = []
    for line in raw.splitlines():
        value = strict_json.loads(line, where="kept items")
        texts = {name: value[name] for name in ("prompt", "output", "baseline")}
        made.append(OutputItem(digest=digest_of(texts), line=value["line"], item_id=value["id"], **texts))
    return made
