"""A real S3 server on a free port, for every test that needs one."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import boto3
import pytest
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server


@dataclass(frozen=True, kw_only=True)
class S3Server:
    """Where the server listens and a bucket that this test alone uses."""

    endpoint: str
    bucket: str

    @property
    def options(self) -> dict[str, str]:
        """What ``open_store`` takes as ``s3_options``."""
        return {
            "endpoint_url": self.endpoint,
            "region_name": "us-east-1",
            "aws_access_key_id": "test",
            "aws_secret_access_key": "test",
        }

    def client(self):
        """A client of its own, for looking behind the store."""
        return boto3.session.Session().client("s3", **self.options)


class _OneAtATime:
    """The server's program behind a lock.

    The server handles requests in threads but looks for a key and stores it in two steps, so that two
    conditional writes could both succeed. S3 promises that they do not; the lock keeps that promise.
    """

    def __init__(self) -> None:
        self._application = DomainDispatcherApplication(create_backend_app)
        self._lock = threading.Lock()

    def __call__(self, environ, start_response) -> Iterable[bytes]:
        with self._lock:
            return self._application(environ, start_response)


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """The address of a server that runs as long as the tests."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, _OneAtATime(), threaded=True, request_handler=MotoRequestHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()


@pytest.fixture
def s3(s3_endpoint: str) -> S3Server:
    """The server with a new empty bucket."""
    server = S3Server(endpoint=s3_endpoint, bucket=f"b-{uuid.uuid4().hex}")
    server.client().create_bucket(Bucket=server.bucket)
    return server
