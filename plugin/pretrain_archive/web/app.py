"""The pages in Airflow's UI: one FastAPI application, mounted by Airflow's API server.

Airflow mounts plugin applications without any login, so every route here asks for Airflow's user, and every
route about a run asks for the permission to read that run's Dag. A run that is not there and a run that may
not be read get the same answer. Decisions go through Airflow's own endpoint; the one thing that these pages write
is a manual change, by who may edit the run, sent from the page itself.
"""

import json
from typing import Annotated, Any

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response

from pretrain_archive.domain import kinds, merkle
from pretrain_archive.domain.identity import utc_now
from pretrain_archive.domain.run_view import ALL_GATES, RunView
from pretrain_archive.ledger.port import Ledger, RunQuery
from pretrain_archive.services.costing import history
from pretrain_archive.web import changes
from pretrain_archive.web.curve import loss_curve
from pretrain_archive.web.errors import add_handlers, error_page
from pretrain_archive.web.headers import SecurityHeaders
from pretrain_archive.web.login import UserDep, may_answer, may_edit, may_read, readable
from pretrain_archive.web.quality import quality_report
from pretrain_archive.web.read_cost import cost_panel
from pretrain_archive.web.read_gate import gate_page
from pretrain_archive.web.read_run import run_page
from pretrain_archive.web.read_runs import STATES, runs_page
from pretrain_archive.web.read_timeline import course
from pretrain_archive.web.remembered import Remembered
from pretrain_archive.web.render import STATIC, Links, label, page, static_file
from pretrain_archive.web.sources import Configured, KnownDags, Sources, opened_record, whole_run
from pretrain_archive.web.texts import Text, say

router = APIRouter()

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]


def sources_of(request: Request) -> Sources:
    """What this application reads from."""
    sources: Sources = request.app.state.sources
    return sources


SourcesDep = Annotated[Sources, Depends(sources_of)]


def readable_run(run_uid: str, user: UserDep, sources: SourcesDep) -> RunView:
    """The whole run, if it exists and this person may read its Dag; else 403 in both cases."""
    ledger = sources.ledger()
    opened = opened_record(ledger, run_uid)
    if opened is None or not may_read(user, str(opened.payload.get("dag_id", ""))):
        raise HTTPException(status_code=403)
    return whole_run(ledger, run_uid)


RunDep = Annotated[RunView, Depends(readable_run)]


@router.get("/", response_class=RedirectResponse)
def start(request: Request, _user: UserDep) -> Response:
    """The list of runs is the first page."""
    return RedirectResponse(Links(request).runs(), status_code=303)


@router.get("/runs")
def list_runs(
    *,
    request: Request,
    user: UserDep,
    sources: SourcesDep,
    q: str = "",
    state: str = "",
    before: Annotated[int | None, Query(ge=0)] = None,
) -> Response:
    """The runs that this person may read: waiting gates first, then newest first."""
    ledger = sources.ledger()
    known: KnownDags = request.app.state.known
    allowed = readable(user, known.names(ledger))
    wanted = state if state in STATES else ""
    found = runs_page(ledger, dag_ids=allowed, text=q.strip(), state=wanted, before=before)
    return page(
        request,
        "runs.html",
        title=say("runs"),
        runs=found,
        q=q,
        state=wanted,
        states=STATES,
        before=before,
    )


@router.get("/at")
def at_dag_run(
    *,
    request: Request,
    user: UserDep,
    sources: SourcesDep,
    dag_id: str,
    dag_run_id: str,
    task_id: str = "",
    gate: str = "",
    report: str = "",
) -> Response:
    """Where Airflow's tabs and links land: the newest run of a Dag run, the gate of a task, or the quality report."""
    if not may_read(user, dag_id):
        raise HTTPException(status_code=403)
    ledger = sources.ledger()
    rows = ledger.runs(RunQuery(dag_ids=(dag_id,), dag_run_id=dag_run_id, limit=1))
    if not rows:
        return page(
            request,
            "message.html",
            title=say("error.norun"),
            status=404,
            texts=[say("error.norun.text")],
            code=dag_run_id,
        )
    links, run_uid = Links(request), rows[0].run_uid
    if report == "quality":
        return RedirectResponse(links.quality(run_uid), status_code=303)
    asked = gate if gate in ALL_GATES else _gate_of_task(ledger, run_uid, task_id)
    return RedirectResponse(links.gate(run_uid, asked) if asked else links.run(run_uid), status_code=303)


def _gate_of_task(ledger: Ledger, run_uid: str, task_id: str) -> str | None:
    if not task_id:
        return None
    shown = ledger.records(streams=(run_uid,), kinds=("gate.dossier",))
    return next((str(r.payload["gate"]) for r in shown if r.origin.task_id == task_id), None)


@router.get("/runs/{run_uid}")  # noqa: FAST003 - readable_run takes the run
def show_run(request: Request, view: RunDep, sources: SourcesDep) -> Response:
    """One run: the decision, its evidence, its gates, what happened."""
    ledger = sources.ledger()
    drawn: Remembered[Any] = request.app.state.drawn
    newest = (view.run_uid, view.records[-1].record_id)
    shown = run_page(ledger, view, curve=lambda run: drawn.of(("curve", newest), lambda: loss_curve(run)))
    others = history(ledger, view)
    hour = utc_now()[: len("2026-11-29T10")]  # stored bytes cost more every day
    same = ledger.runs(RunQuery(dag_ids=(shown.opened.dag_id,), dag_run_id=shown.opened.dag_run_id, limit=20))
    objective = shown.opened.purpose.objective if shown.opened.purpose else view.run_uid
    return page(
        request,
        "run.html",
        title=Text(objective, objective),
        run=shown,
        course=drawn.of(("course", newest), lambda: course(view)),
        cost=drawn.of(("cost", newest, hour, others), lambda: cost_panel(view, [others])),
        others=[row for row in same if row.run_uid != view.run_uid],
    )


@router.get("/runs/{run_uid}/gates/{gate}")  # noqa: FAST003 - readable_run takes the run
def show_gate(request: Request, view: RunDep, gate: str, user: UserDep, sources: SourcesDep) -> Response:
    """The dossier of a gate as it stands now, and the way to sign it."""
    if gate not in ALL_GATES:
        raise HTTPException(status_code=404)
    opened = view.opened
    shown = gate_page(
        sources,
        sources.ledger(),
        view,
        gate,
        user=user.get_name(),
        role_may=opened is not None and may_answer(user, opened.dag_id),
    )
    return page(request, "gate.html", title=label("gate", gate), gate=shown, me=user.get_name())


@router.get("/runs/{run_uid}/gates/{gate}/state")  # noqa: FAST003 - readable_run takes the run
def gate_state(view: RunDep, gate: str) -> dict[str, Any]:
    """Whether an answer has arrived: the newest decision or refusal of the gate, for the page's script."""
    if gate not in ALL_GATES:
        raise HTTPException(status_code=404)
    answers = [
        record.record_id
        for record in view.records
        if record.kind in {"gate.decision", "gate.refused", "gate.expired"} and record.payload["gate"] == gate
    ]
    return {"answers": len(answers), "newest": answers[-1] if answers else ""}


@router.get("/runs/{run_uid}/changes")  # noqa: FAST003 - readable_run takes the run
def show_changes(request: Request, view: RunDep, user: UserDep) -> Response:
    """What persons changed by hand, and the form to record more."""
    return changes.show(request, view, me=user.get_name(), may=_edits(user, view))


@router.post("/runs/{run_uid}/changes")  # noqa: FAST003 - readable_run takes the run
async def record_change(request: Request, view: RunDep, user: UserDep, sources: SourcesDep) -> Response:
    """Record a manual change under the name of the person who is logged in."""
    typed = await changes.typed_values(request)

    def take() -> Response:
        may = _edits(user, view)
        return changes.take(request, sources.ledger(), view, typed, me=user.get_name(), may=may)

    return await run_in_threadpool(take)


def _edits(user: BaseUser, view: RunView) -> bool:
    return view.opened is not None and may_edit(user, view.opened.dag_id)


@router.get("/runs/{run_uid}/records/{record_id}")  # noqa: FAST003 - readable_run takes the run
def show_record(request: Request, view: RunDep, record_id: str) -> Response:
    """One record of the run, or of the rights to its sources, as it is stored and hashed."""
    told = (*view.records, *(view.around.records if view.around else ()))
    record = next((r for r in told if r.record_id == record_id), None)
    if record is None:
        raise HTTPException(status_code=404)
    holds = bool(record.stored) and merkle.leaf_hash(record.stored).hex() == record.leaf
    pretty = json.dumps(json.loads(record.stored), ensure_ascii=False, indent=2) if record.stored else "{}"
    return page(
        request,
        "record.html",
        title=say("record.title"),
        record=record,
        run_uid=view.run_uid,
        holds=holds,
        stored=record.stored.decode("utf-8", "replace"),
        pretty=pretty,
    )


@router.get("/runs/{run_uid}/quality")  # noqa: FAST003 - readable_run takes the run
def show_quality(view: RunDep, sources: SourcesDep) -> Response:
    """The newest quality report of a run as the page that its record names, if its bytes are still those."""
    return quality_report(view, sources)


@router.get("/runs/{run_uid}/packages")  # noqa: FAST003 - readable_run takes the run
def show_packages(request: Request, view: RunDep) -> Response:
    """The packages of a run, and how anybody verifies one."""
    packages = list(reversed(list(view.all(kinds.PackageWritten))))
    return page(request, "packages.html", title=say("run.packages"), packages=packages, run_uid=view.run_uid)


@router.get("/static/{name}")
def static(name: str, request: Request, _user: UserDep) -> Response:
    """A style sheet, script or icon; the address carries a version, so it may be kept for long."""
    if name not in STATIC:
        raise HTTPException(status_code=404)
    raw, version = static_file(name)
    headers = {
        "ETag": f'"{version}"',
        "Cache-Control": "private, max-age=31536000, immutable"
        if request.query_params.get("v") == version
        else "private, no-cache",
    }
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(raw, media_type=STATIC[name], headers=headers)


@router.api_route("/{path:path}", methods=METHODS)
def nowhere(path: str, request: Request, _user: UserDep) -> Response:
    """Everything else, for every method: 404 for the logged in, 401 for the others."""
    del path
    code = "404" if request.method in {"GET", "HEAD"} else "405"
    return error_page(request, int(code))


def create_app(sources: Sources | None = None) -> FastAPI:
    """Build the application; ``sources`` defaults to what Airflow's configuration names."""
    app = FastAPI(title="Pretrain archive", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.sources = sources or Configured()
    app.state.known = KnownDags()
    app.state.drawn = Remembered(most=64)
    app.include_router(router)
    add_handlers(app)
    app.add_middleware(SecurityHeaders)
    return app
