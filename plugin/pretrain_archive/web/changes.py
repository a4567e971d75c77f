"""Manual changes of a run: the list, the form, and the one place of these pages that writes to the ledger.

A form of another site must not write as the person who looks at it: a browser says where a request comes from
(``Sec-Fetch-Site``, or ``Origin`` where a page is not served over HTTPS), and what was not sent from this very origin
is refused. A form that is sent twice is one record: it carries a word of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from airflow.configuration import conf
from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from pretrain_archive.domain import kinds
from pretrain_archive.domain.changes import unexplained_drift
from pretrain_archive.domain.errors import ArchiveError, InputError, LedgerError, StreamMovedError
from pretrain_archive.domain.identity import new_id
from pretrain_archive.domain.records import Origin, Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.changing import MOST, WHATS, Change, record_change
from pretrain_archive.web.errors import error_page
from pretrain_archive.web.render import Links, label, page
from pretrain_archive.web.texts import Text, say

MOST_BODY = 64 * 1024
FIELDS = ("what", "scope", "reason", "before", "after", "attempt", "once")
REQUIRED = ("what", "scope", "reason")


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangesPage:
    """The changes of a run, newest first, and the form: what was typed, and why it was not taken."""

    run_uid: str
    changes: tuple[tuple[Record, kinds.ChangeRecorded], ...]
    notes: tuple[tuple[Record, kinds.NoteAdded], ...]
    unexplained: tuple[str, ...]
    closed: bool
    may: bool
    me: str
    attempts: int
    whats: tuple[str, ...]
    most: Mapping[str, int]
    typed: Mapping[str, str]
    fault: Text | None


def changes_page(
    view: RunView, *, me: str, may: bool, typed: Mapping[str, str] | None = None, fault: Text | None = None
) -> ChangesPage:
    """What the page shows to ``me``, who ``may`` record something or not."""
    values = dict.fromkeys(FIELDS, "") | (dict(typed) if typed else {"once": new_id("call")})
    return ChangesPage(
        run_uid=view.run_uid,
        changes=tuple(reversed(list(view.all(kinds.ChangeRecorded)))),
        notes=tuple(reversed([f for f in view.all(kinds.NoteAdded) if f[1].topic == "manual_change"])),
        unexplained=tuple(unexplained_drift(view)),
        closed=view.state == "closed",
        may=may,
        me=me,
        attempts=view.attempts,
        whats=WHATS,
        most=MOST,
        typed=values,
        fault=fault,
    )


def show(request: Request, view: RunView, *, me: str, may: bool) -> Response:
    """The page as it is asked for."""
    shown = changes_page(view, me=me, may=may)
    return page(request, "changes.html", title=say("change.title"), shown=shown)


async def typed_values(request: Request) -> dict[str, str] | None:
    """The form's fields as they were typed; None where the body is none of a form, or too large."""
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return None
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BODY:
            return None
    pairs = parse_qsl(bytes(body).decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=50)
    return {name: value for name, value in pairs if name in FIELDS}


def came_from_here(request: Request) -> bool:
    """Whether the browser says that a page of this very origin sent the request; what says nothing does not count."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    sender = urlsplit(request.headers.get("origin", "")).netloc
    known = {request.headers.get("host", ""), urlsplit(conf.get("api", "base_url", fallback="")).netloc}
    return bool(sender) and sender in known


def take(
    request: Request, ledger: Ledger, view: RunView, typed: Mapping[str, str] | None, *, me: str, may: bool
) -> Response:
    """Record what was typed and lead back to the list; otherwise the form again, with everything that was typed."""
    if not may or typed is None or not came_from_here(request):
        return error_page(request, 403, say("change.may_not") if not may else say("change.foreign"))
    fault, status = _fault(view, typed), 422
    if fault is None:
        try:
            record_change(
                ledger, view, _change(typed, me), as_note=True,
                origin=Origin(dag_id="web", dag_run_id=new_id("call"), task_id="run_change"),
                unique=f"change/{view.run_uid}/{typed['once']}" if typed.get("once") else "",
            )  # fmt: skip
        except StreamMovedError as error:
            fault, status = say("change.moved", why=str(error)), 409
        except InputError as error:
            fault = say("change.fault", why=str(error))
        except LedgerError as error:
            fault, status = say("change.moved", why=str(error)), 503
        except ArchiveError as error:
            fault = say("change.fault", why=str(error))
        else:
            return RedirectResponse(Links(request).changes(view.run_uid), status_code=303)
    shown = changes_page(view, me=me, may=may, typed=typed, fault=fault)
    return page(request, "changes.html", title=say("change.title"), status=status, shown=shown)


def _change(typed: Mapping[str, str], me: str) -> Change:
    attempt = typed.get("attempt", "").strip()
    return Change(
        what=typed["what"], scope=typed["scope"], reason=typed["reason"], before=typed.get("before"),
        after=typed.get("after"), attempt=int(attempt) if attempt else None, person=me, via="page",
        authentication=conf.get("core", "auth_manager", fallback="").rpartition(".")[2] or "unknown",
    )  # fmt: skip


def _fault(view: RunView, typed: Mapping[str, str]) -> Text | None:
    """What is missing or wrong, in words of the page; None if the ledger may be asked."""
    gaps = [name for name in REQUIRED if not typed.get(name, "").strip()]
    if gaps or typed["what"] not in WHATS:
        names = [label("change", name) for name in gaps or ["what"]]
        listed = Text(", ".join(name.en for name in names), "、".join(name.zh for name in names))
        return say("change.missing", names=listed)
    for name, most in MOST.items():
        if len(typed.get(name, "").strip()) > most:
            return say("change.too_long", name=label("change", name), most=most)
    attempt = typed.get("attempt", "").strip()
    if attempt and not (attempt.isascii() and attempt.isdecimal() and 1 <= int(attempt[:9]) <= view.attempts):
        return say("change.number", most=view.attempts)
    return None
