"""Forged packages: change what a file of a package says, and hash again whatever needs no signing key."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Change = Callable[[Any], Any]


def dump(value: Any) -> bytes:
    """JSON as the package writes it; text that UTF-8 cannot hold is written all the same."""
    text = json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def forge(folder: Path, path: str, change: Change) -> None:
    """Give the JSON of ``path`` to ``change``, write what it returns, and hash again what follows from it."""
    target = folder / path
    target.write_bytes(dump(change(json.loads(target.read_bytes()))))
    rehash(folder, keep=path)


def rehash(folder: Path, keep: str = "") -> None:
    """Manifest, closing records and leaves as they must be now; ``keep`` is left as the forger wrote it."""
    manifest = folder / "manifest.json"
    if keep != "manifest.json":
        listing = json.loads(manifest.read_bytes())
        for line in listing["files"]:
            data = (folder / line["path"]).read_bytes()
            line |= {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        manifest.write_bytes(dump(listing))
    digest = "sha256:" + hashlib.sha256(manifest.read_bytes()).hexdigest()
    for kind, field in (("package.written", "digest"), ("run.closed", "package_digest")):
        for path in (folder / "records").glob(f"*-{kind}.json"):
            if str(path.relative_to(folder)) != keep:
                body = json.loads(path.read_bytes())
                body["payload"][field] = digest
                path.write_bytes(dump(body))
    if keep != "proofs.json":
        proofs = json.loads((folder / "proofs.json").read_bytes())
        for number, leaf in enumerate(proofs["leaves"]):
            data = (folder / f"records/{number:06d}-{leaf[1]}.json").read_bytes()
            leaf[2] = hashlib.sha256(b"\x00" + data).hexdigest()
        (folder / "proofs.json").write_bytes(dump(proofs))


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place inside a JSON value, as a path of keys and indices."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, below in inner:
        yield (*above, name)
        yield from places(below, (*above, name))


def put(place: tuple[Any, ...], new: Any) -> Change:
    """A change that sets one place."""

    def change(whole: Any) -> Any:
        *above, last = place
        inside = whole
        for name in above:
            inside = inside[name]
        inside[last] = new
        return whole

    return change
