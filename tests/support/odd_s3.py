"""An S3 service of a few dozen lines that can be told to misbehave as real ones do; it also takes any key.

It knows ListObjectsV2, ListObjectVersions (each key has an older version; what is in ``deleted`` ends in a delete
marker), and GetObject with Range, If-Match and versionId. What moto cannot store (a line break in a key) or never
does (cut connections, answer 503, list in another order) is tested against it.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, quote_plus, unquote_to_bytes, urlsplit

BUCKET = "odd"


@dataclass(kw_only=True)
class OddS3:
    """What it holds and how it behaves; ``asked`` are method, path and range of each GetObject."""

    objects: dict[bytes, bytes]
    space: str = "%20"
    page: int = 2
    backwards: bool = False
    says_how_to_go_on: bool = True
    knows_ranges: bool = True
    cut_after: int = -1
    cuts: int = 0
    slow_downs: int = 0
    rewrite_on_cut: bool = False
    versions: bool = False
    deleted: frozenset[bytes] = frozenset()
    knows_ids: bool = True
    web_page: bool = False
    refuses: str = ""
    code: str = "AccessDenied"
    tells_size: bool = True
    asked: list[str] = field(default_factory=list)
    endpoint: str = ""

    @property
    def options(self) -> dict[str, str]:
        """What ``open_bucket`` takes as ``s3_options``."""
        return {
            "endpoint_url": self.endpoint, "region_name": "us-east-1",
            "aws_access_key_id": "AKIAEXAMPLEKEY7777", "aws_secret_access_key": "geheimgeheim",
        }  # fmt: skip


def _etag(body: bytes) -> str:
    return '"' + hashlib.blake2b(body, digest_size=16).hexdigest() + '-2"'


class _Handler(BaseHTTPRequestHandler):
    odd: OddS3

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        if self.odd.slow_downs:
            self.odd.slow_downs -= 1
            self._answer(503, b"<Error><Code>SlowDown</Code><Message>slow down</Message></Error>")
            return
        if self.odd.web_page or self.odd.refuses:
            told = (
                f"<Error><Code>{self.odd.code}</Code><Message>{self.odd.refuses}</Message></Error>".encode()
            )
            self._answer(
                403 if self.odd.refuses else 200, told if self.odd.refuses else b"<html>Welcome<br></html>"
            )
            return
        parts = urlsplit(self.path)
        query = parse_qs(parts.query, keep_blank_values=True)
        key = (
            unquote_to_bytes(self.path.partition("?")[0])
            .removeprefix(f"/{BUCKET}".encode())
            .removeprefix(b"/")
        )
        if "versioning" in query and self.odd.versions:
            self._answer(200, b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>")
        elif "versions" in query:
            self._list_versions(query)
        elif "versioning" in query:
            self._answer(501, b"<Error><Code>NotImplemented</Code><Message>none</Message></Error>")
        elif key:
            self._object(key, query.get("versionId", [""])[0])
        else:
            self._list(query)

    def _list(self, query: dict[str, list[str]]) -> None:
        prefix = query.get("prefix", [""])[0].encode()
        keys = sorted((k for k in self.odd.objects if k.startswith(prefix)), reverse=self.odd.backwards)
        start = int(query.get("continuation-token", ["0"])[0])
        shown, more = keys[start : start + self.odd.page], start + self.odd.page < len(keys)
        rows = "".join(
            f"<Contents><Key>{self._named(k)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            f"<ETag>{_etag(self.odd.objects[k])}</ETag><Size>{len(self.odd.objects[k])}</Size></Contents>"
            for k in shown
        )
        token = f"<NextContinuationToken>{start + self.odd.page}</NextContinuationToken>"
        token = token if more and self.odd.says_how_to_go_on else ""
        self._answer(
            200,
            f"<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>{str(more).lower()}</IsTruncated>"
            f"{token}{rows}</ListBucketResult>".encode(),
        )

    def _list_versions(self, query: dict[str, list[str]]) -> None:
        after = query.get("key-marker", [""])[0].encode(), query.get("version-id-marker", [""])[0]
        rows = [
            (key, name, name == "3")
            for key in sorted(self.odd.objects)
            for name in (("3", "2", "1") if key in self.odd.deleted else ("2", "1"))
        ]
        start = 1 + rows.index((*after, after[1] == "3")) if after[0] else 0
        shown, more = rows[start : start + self.odd.page], start + self.odd.page < len(rows)
        text = "".join(
            f"<{kind}><Key>{self._named(key)}</Key><VersionId>{name}</VersionId><IsLatest>{newest}</IsLatest>"
            f"<LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>{_etag(self.odd.objects[key])}</ETag>"
            f"<Size>{len(self.odd.objects[key])}</Size></{kind}>"
            for key, name, marker in shown
            for kind in ["DeleteMarker" if marker else "Version"]
            for newest in [str(marker or (name == "2" and key not in self.odd.deleted)).lower()]
        )
        last = shown[-1]
        way = f"<NextKeyMarker>{self._named(last[0])}</NextKeyMarker>"
        way += f"<NextVersionIdMarker>{last[1]}</NextVersionIdMarker>"
        self._answer(
            200,
            f"<ListVersionsResult><EncodingType>url</EncodingType><IsTruncated>{str(more).lower()}</IsTruncated>"
            f"{way if more else ''}{text}</ListVersionsResult>".encode(),
        )

    def _named(self, key: bytes) -> str:
        return quote_plus(key, safe="/") if self.odd.space == "+" else quote(key)

    def _object(self, key: bytes, version: str) -> None:
        ranged = self.headers.get("Range", "")
        self.odd.asked.append(f"{key.decode()} {ranged}".strip())
        body = self.odd.objects.get(key)
        if body is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code><Message>no such key</Message></Error>")
            return
        if self.headers.get("If-Match", _etag(body)) != _etag(body):
            self._answer(412, b"<Error><Code>PreconditionFailed</Code><Message>it changed</Message></Error>")
            return
        start = (
            int(ranged.removeprefix("bytes=").removesuffix("-")) if ranged and self.odd.knows_ranges else 0
        )
        headers = {"ETag": _etag(body)}
        if version:
            headers["x-amz-version-id"] = version if self.odd.knows_ids else "9"
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
        cut = self.odd.cuts > 0 and self.odd.cut_after >= 0
        self.odd.cuts -= cut
        sent = body[start : start + self.odd.cut_after] if cut else body[start:]
        if cut and self.odd.rewrite_on_cut:
            self.odd.objects[key] = body[::-1]
        self._answer(206 if start else 200, sent, length=len(body) - start, **headers)

    def _answer(self, status: int, body: bytes, length: int | None = None, **headers: str) -> None:
        self.send_response(status)
        if self.odd.tells_size or length is None:
            self.send_header("Content-Length", str(len(body) if length is None else length))
        else:
            self.close_connection = True
        for name, text in headers.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def odd_s3(objects: dict[bytes, bytes], **behaviour: object) -> Iterator[OddS3]:
    """Serve ``objects`` on a free port."""
    odd = OddS3(objects=objects, **behaviour)
    handler = type("Handler", (_Handler,), {"odd": odd})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    odd.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield odd
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
