"""A manifest over Python's own standard library: real data that is on every machine."""

from __future__ import annotations

import hashlib
import json
import sys
import sysconfig
from pathlib import Path
from typing import Any

LEFT_OUT = {"site-packages", "test", "tests", "__pycache__"}


def entries(root: Path | None = None) -> list[dict[str, Any]]:
    """Manifest lines for every ``.py`` file, 95 to 5 by the digest of the content."""
    root = root or Path(sysconfig.get_paths()["stdlib"])
    lines = []
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        if LEFT_OUT & set(relative.parts):
            continue
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        split = "validation" if int(digest[:8], 16) % 100 < 5 else "train"
        lines.append(
            {
                "path": relative.as_posix(),
                "location": str(path),
                "sha256": digest,
                "size": len(content),
                "split": split,
            }
        )
    return lines


def write_manifest(target: Path, lines: list[dict[str, Any]]) -> Path:
    """Write manifest lines as JSON Lines."""
    target.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return target


if __name__ == "__main__":
    write_manifest(Path(sys.argv[1]), entries())
