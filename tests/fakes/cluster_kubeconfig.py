"""A kubeconfig that leads to a fake cluster, right or wrong on purpose."""

from __future__ import annotations

import json
from pathlib import Path


def write_kubeconfig(
    path: Path, *, server: str, token: str = "", namespace: str = "default", context: str = "fake",
    current: str | None = None, ca: Path | None = None,
) -> Path:  # fmt: skip
    """Write it (JSON is YAML) and return its path; ``current`` names another context than the one there is."""
    cluster = {"server": server, **({"certificate-authority": str(ca)} if ca else {})}
    user = {"token": token} if token else {}
    path.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": context if current is None else current,
        "clusters": [{"name": "fake", "cluster": cluster}],
        "users": [{"name": "archive", "user": user}],
        "contexts": [{"name": context, "context": {"cluster": "fake", "user": "archive", "namespace": namespace}}],
    }))  # fmt: skip
    return path
