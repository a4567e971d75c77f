"""Refusals and faults as pages of ours, in the frame or alone, that never contain Airflow's own pages."""

from __future__ import annotations

import logging

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from pretrain_archive.domain.errors import ArchiveError
from pretrain_archive.web.login import login_url
from pretrain_archive.web.render import page
from pretrain_archive.web.texts import Text, say

log = logging.getLogger(__name__)


def error_page(request: Request, status: int, *texts: Text) -> Response:
    """The page of a status that is not 200; ``texts`` say more than the status does."""
    said = str(status) if status in {401, 403, 404, 405, 422, 503} else "500"
    known = texts or (say(f"error.{said}.text"),) if said not in {"422", "503"} else texts
    where = login_url(str(request.url)) if status == 401 else ""
    return page(
        request,
        "message.html",
        title=say(f"error.{said}"),
        status=status,
        texts=list(known),
        code="",
        login=where,
    )


def on_http_error(request: Request, error: Exception) -> Response:
    """401, 403, 404 and the like."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    return error_page(request, status)


def on_bad_address(request: Request, error: Exception) -> Response:
    """A query that cannot be read: names what was expected."""
    faults = error.errors() if isinstance(error, RequestValidationError) else []
    expected = ", ".join(str(fault["loc"][-1]) for fault in faults)
    return error_page(request, 422, say("error.422.text", expected=expected))


def on_archive_error(request: Request, error: Exception) -> Response:
    """The ledger or a policy cannot be used: says what and what to do, as its own message does."""
    log.error("%s: %s", type(error).__name__, error)
    return error_page(request, 503, Text(str(error), str(error)))


def on_fault(request: Request, error: Exception) -> Response:
    """A fault of ours: the page says where the reason stands, never the reason itself."""
    log.error("The page %s could not be made", request.url.path, exc_info=error)
    return error_page(request, 500)


def add_handlers(app: FastAPI) -> None:
    """Make every refusal and fault of ``app`` a page."""
    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(RequestValidationError, on_bad_address)
    app.add_exception_handler(ArchiveError, on_archive_error)
    app.add_exception_handler(Exception, on_fault)
