"""The real S3 server with faults inside the answers of DeleteObjects: keys that fail once, always, or silently.

The faults are put around the server's own program, so that everything else (versions, markers, listings) is its own.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs
from xml.etree import ElementTree as ET

from moto.core import DEFAULT_ACCOUNT_ID
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from moto.s3.models import s3_backends
from werkzeug.serving import make_server

NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"


@dataclass(kw_only=True)
class Fault:
    """An error in the answer for one key: ``times`` None is for ever, ``silent`` says nothing of it."""

    code: str
    message: str = ""
    times: int | None = None
    silent: bool = False


@dataclass(kw_only=True)
class FaultyS3:
    """``faults`` by the end of a key; ``whole`` are statuses and codes that whole requests get first.

    ``requests`` lists the keys of each DeleteObjects that reached the server; ``singles`` counts DeleteObject.
    """

    faults: dict[str, Fault] = field(default_factory=dict)
    whole: list[tuple[int, str]] = field(default_factory=list)
    requests: list[list[str]] = field(default_factory=list)
    singles: list[str] = field(default_factory=list)
    endpoint: str = ""

    @property
    def options(self) -> dict[str, str]:
        """What ``open_store`` takes as ``s3_options``."""
        return {
            "endpoint_url": self.endpoint, "region_name": "us-east-1",
            "aws_access_key_id": "test", "aws_secret_access_key": "test",
        }  # fmt: skip

    def fault_of(self, key: str) -> Fault | None:
        """The fault of a key, used up once."""
        for end, fault in self.faults.items():
            if key.endswith(end) and (fault.times is None or fault.times > 0):
                if fault.times is not None:
                    fault.times -= 1
                return fault
        return None


class _Around:
    def __init__(self, faulty: FaultyS3) -> None:
        self._faulty = faulty
        self._application = DomainDispatcherApplication(create_backend_app)
        self._lock = threading.Lock()

    def __call__(self, environ, start_response) -> Iterable[bytes]:
        with self._lock:
            query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
            if environ["REQUEST_METHOD"] == "POST" and "delete" in query:
                return self._delete_objects(environ, start_response)
            if environ["REQUEST_METHOD"] == "DELETE":
                self._faulty.singles.append(environ["PATH_INFO"])
            return self._application(environ, start_response)

    def _delete_objects(self, environ, start_response) -> Iterable[bytes]:
        raw = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        asked = ET.fromstring(raw)
        self._faulty.requests.append([each.text or "" for each in asked.iter(f"{NAMESPACE}Key")])
        if self._faulty.whole:
            status, code = self._faulty.whole.pop(0)
            start_response(f"{status} no", [("Content-Type", "application/xml")])
            return [f"<Error><Code>{code}</Code><Message>said {code}</Message></Error>".encode()]
        errors = ""
        for each in list(asked.iter(f"{NAMESPACE}Object")):
            key = each.findtext(f"{NAMESPACE}Key") or ""
            fault = self._faulty.fault_of(key)
            if fault is not None:
                asked.remove(each)
                version = each.findtext(f"{NAMESPACE}VersionId")
                told = f"<VersionId>{version}</VersionId>" if version else ""
                errors += (
                    "" if fault.silent else
                    f"<Error><Key>{key}</Key>{told}<Code>{fault.code}</Code><Message>{fault.message}</Message></Error>"
                )  # fmt: skip
        if not list(asked.iter(f"{NAMESPACE}Object")):
            start_response("200 OK", [("Content-Type", "application/xml")])
            return [f"<DeleteResult>{errors}</DeleteResult>".encode()]
        body = ET.tostring(asked, default_namespace=NAMESPACE[1:-1])
        environ = {**environ, "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        answer = b"".join(self._application(environ, lambda *_given: start_response("200 OK", [])))
        return [answer.replace(b"</DeleteResult>", errors.encode() + b"</DeleteResult>")]


def fill(bucket: str, keys: Iterable[str], body: bytes = b"x") -> None:
    """Put many small objects into a bucket of this process's servers, without a request each."""
    backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    for key in keys:
        backend.put_object(bucket, key, body)


@contextmanager
def faulty_s3() -> Iterator[FaultyS3]:
    """Run the server on a free port."""
    faulty = FaultyS3()
    server = make_server("127.0.0.1", 0, _Around(faulty), threaded=True, request_handler=MotoRequestHandler)
    faulty.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield faulty
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
