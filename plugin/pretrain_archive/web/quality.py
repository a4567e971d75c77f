"""The quality report of a run, served as it was kept: the bytes that the record's digest names, or nothing.

The page carries its own style sheet and no script. It is served under its own policy, which allows that style sheet
by its hash and nothing else, so that even a wrong page could do nothing.
"""

from __future__ import annotations

import base64
import hashlib
import re
from urllib.parse import unquote

from fastapi import HTTPException
from fastapi.responses import Response

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import StorageError
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.web.sources import Sources

LIMIT = 16 << 20
"""Bytes of a page that are served."""

_STYLE = re.compile(rb"<style>(.*?)</style>", re.DOTALL)


def quality_report(view: RunView, sources: Sources) -> Response:
    """The page of the newest report; 404 where there is none, 502 where the store holds other bytes."""
    reports = [p for _, p in view.all(kinds.QualityReported) if p.html_digest and p.html_uri]
    if not reports:
        raise HTTPException(status_code=404)
    report = reports[-1]
    raw = _read(report.html_uri, sources)
    if f"sha256:{hashlib.sha256(raw).hexdigest()}" != report.html_digest:
        raise HTTPException(status_code=502)
    return Response(
        raw, media_type="text/html; charset=utf-8", headers={"Content-Security-Policy": _policy(raw)}
    )


def _read(uri: str, sources: Sources) -> bytes:
    store = sources.store()
    prefix = store.location("x")[:-1]
    if not uri.startswith(prefix):
        raise HTTPException(status_code=404)
    try:
        with store.open(unquote(uri[len(prefix) :])) as stream:
            return stream.read(LIMIT)
    except (OSError, StorageError) as error:
        raise HTTPException(status_code=404) from error


def _policy(raw: bytes) -> str:
    found = _STYLE.search(raw)
    digest = base64.b64encode(hashlib.sha256(found.group(1) if found else b"").digest()).decode()
    own = f"default-src 'none'; style-src 'sha256-{digest}'"
    return f"{own}; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
