"""The quality report behind a run's page: the bytes of the record, under a policy that allows its style sheet alone."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io

import pytest
from fastapi import HTTPException
from fastapi.responses import Response
from tests.support.data_track import ACTOR, origin

from pretrain_archive.domain.identity import new_id
from pretrain_archive.domain.kinds import QualityReported
from pretrain_archive.domain.records import Draft
from pretrain_archive.web.headers import HEADERS, SecurityHeaders
from pretrain_archive.web.quality import quality_report
from pretrain_archive.web.sources import whole_run

PAGE = b"<!doctype html><style>p { color: red }</style><p>report</p>"


class Kept:
    """Sources with a store alone."""

    def __init__(self, store) -> None:
        self._store = store

    def store(self):
        """The test's store."""
        return self._store


@pytest.fixture
def reported(ledger, store):
    """Record a report whose page lies in the store; gives the run's view."""

    def record(*, page: bytes = PAGE, digest: str = "", uri: str = ""):
        store.put_if_absent("reports/a.html", io.BytesIO(page))
        digest = digest or "sha256:" + hashlib.sha256(PAGE).hexdigest()
        payload = QualityReported(
            snapshot="corpus@1", suite_name="standard", suite_digest=digest, passed=True, documents=1,
            exact_duplicates=0, gates=[], report_uri="", report_digest=digest, engine="e",
            html_uri=uri or store.location("reports/a.html"), html_digest=digest,
        )  # fmt: skip
        uid = new_id("run")
        draft = Draft(
            stream=uid, kind="quality.reported", payload=payload.to_json(), actor=ACTOR, origin=origin()
        )
        ledger.append([draft])
        return whole_run(ledger, uid)

    return record


def test_the_recorded_page_is_served(reported, store):
    """The page's own bytes come back, and nothing but its style sheet is allowed."""
    answer = quality_report(reported(), Kept(store))
    digest = base64.b64encode(hashlib.sha256(b"p { color: red }").digest()).decode()

    assert PAGE == answer.body
    assert "text/html; charset=utf-8" == answer.headers["content-type"]
    assert answer.headers["content-security-policy"].startswith(
        f"default-src 'none'; style-src 'sha256-{digest}';"
    )


def test_other_bytes_are_not_served(reported, store):
    """A page that is not what its record says is no evidence, and is not shown."""
    with pytest.raises(HTTPException) as raised:
        quality_report(reported(page=PAGE + b"<script>"), Kept(store))

    assert 502 == raised.value.status_code


@pytest.mark.parametrize("uri", ["file:///etc/passwd", "s3://elsewhere/a.html", "gone"])
def test_no_other_place_is_read(reported, store, uri):
    """An address outside the store, or of nothing, is not there."""
    with pytest.raises(HTTPException) as raised:
        quality_report(reported(uri=store.location("gone") if uri == "gone" else uri), Kept(store))

    assert 404 == raised.value.status_code


def test_a_run_without_a_page_has_none(ledger, store):
    """Before the check, and for reports of an earlier release, there is no page."""
    with pytest.raises(HTTPException) as raised:
        quality_report(whole_run(ledger, new_id("run")), Kept(store))

    assert 404 == raised.value.status_code


@pytest.mark.parametrize("own", ["default-src 'none'", ""])
def test_a_stricter_policy_of_a_page_is_kept(own):
    """The application's policy stands unless an answer brings its own; the other headers always stand."""
    sent = []

    async def send(message):
        sent.append(message)

    headers = {"Content-Security-Policy": own} if own else {}
    application = SecurityHeaders(Response(b"", headers=headers))
    asyncio.run(application({"type": "http", "method": "GET"}, None, send))
    told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}

    assert (own or HEADERS["Content-Security-Policy"]) == told["content-security-policy"]
    assert "nosniff" == told["x-content-type-options"]
