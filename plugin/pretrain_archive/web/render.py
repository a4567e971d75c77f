"""Pages from templates: one environment, everything escaped, times and sizes in one form."""

from __future__ import annotations

import hashlib
import shlex
from datetime import UTC
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode

import jinja2
from fastapi import Request
from fastapi.responses import HTMLResponse, Response
from markupsafe import Markup

from pretrain_archive.domain.identity import parse_time
from pretrain_archive.domain.texts import (
    fact_title,
    gate_title,
    item_title,
    outcome_word,
    state_word,
    track_title,
    verdict_word,
)
from pretrain_archive.web.about import about
from pretrain_archive.web.headers import HEADERS
from pretrain_archive.web.texts import Text, known, say
from pretrain_archive.web.texts_items import check_text, found_text, hint_text

FOLDER = Path(__file__).parent
STATIC: dict[str, str] = {
    "archive.css": "text/css; charset=utf-8",
    "host.js": "text/javascript; charset=utf-8",
    "gate.js": "text/javascript; charset=utf-8",
    "icon-light.svg": "image/svg+xml",
    "icon-dark.svg": "image/svg+xml",
}
"""The files that are served, each with its media type; nothing else in the folder can be asked for."""

UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size(value: int | None) -> Text:
    """Bytes in the largest binary unit that keeps a digit before the point."""
    if value is None:
        return say("unrecorded")
    amount, unit = float(value), 0
    while amount >= 1024 and unit < len(UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    text = f"{value} B" if unit == 0 else f"{amount:.1f} {UNITS[unit]}"
    return Text(text, text)


def short(digest: str) -> str:
    """A digest as people compare it: its first and last eight characters."""
    hexes = digest.rpartition(":")[2]
    return f"{hexes[:8]}…{hexes[-8:]}" if len(hexes) > 20 else hexes


def moment(value: str | None) -> Markup:
    """A time in UTC that the page's script shows in the person's zone; the exact value stays in ``datetime``."""
    if not value:
        return say("unrecorded").__html__()
    try:
        text = parse_time(value).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except ValueError:
        return Markup("{}").format(value)
    return Markup('<time datetime="{0}" title="{0}">{1}</time>').format(value, text)


def duration(seconds: float | None) -> Text:
    """Seconds as hours, minutes and seconds."""
    if seconds is None:
        return say("unrecorded")
    whole = int(seconds)
    hours, minutes = divmod(whole // 60, 60)
    text = f"{hours}:{minutes:02d}:{whole % 60:02d}" if whole >= 60 else f"{seconds:.1f} s"
    return Text(text, text)


def or_unrecorded(value: object) -> object:
    """``value``, or the word for a fact that nobody captured; an empty list is none."""
    if value is None or value == "":
        return say("unrecorded")
    if isinstance(value, list | tuple) and not value:
        return say("none")
    return value


WORDS = {
    "gate": gate_title,
    "item": item_title,
    "fact": fact_title,
    "verdict": verdict_word,
    "track": track_title,
    "state": state_word,
    "outcome": outcome_word,
}


def label(group: str, name: str) -> Text:
    """What people call ``name``: by ``group.name`` of the pages' own texts, else by the domain's words.

    A name that a later release wrote, and that this one does not know, is shown as it is.
    """
    key = f"{group}.{name}"
    if known(key):
        return say(key)
    if group == "fact" and name.startswith("configuration."):
        return Text(name, name)  # a key of the training program: never translated
    if group in WORDS:
        return Text(WORDS[group](name, "en"), WORDS[group](name, "zh-CN"))
    return Text(name, name)


def verify_command(location: str) -> str:
    """The command that verifies a package at ``location``, ready to paste into a shell."""
    path = unquote(location.removeprefix("file://"))
    return f"python3 -I -S {shlex.quote(f'{path}/verify.py')} --key KEY_FILE {shlex.quote(path)}"


def part_text(named: str) -> Text:
    """A changed part as the gates name it (``fact or item: old → new``), with its title in words."""
    key, found, rest = named.partition(": ")
    if not found:
        return Text(named, named)
    title = label("item" if "." in key else "fact", key)
    said = say("gate.part.replaced") if rest == "evidence replaced" else Text(rest, rest)
    return say("gate.part", title=title, rest=said)


@cache
def static_file(name: str) -> tuple[bytes, str]:
    """The bytes of a static file and a version made from them, for its address and ETag."""
    raw = (FOLDER / "static" / name).read_bytes()
    return raw, hashlib.sha256(raw).hexdigest()[:16]


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(say=say, label=label, colon=say("colon"))
    environment.filters.update(
        size=size,
        short=short,
        moment=moment,
        duration=duration,
        recorded=or_unrecorded,
        verify_command=verify_command,
        part=part_text,
        about=about,
        check=check_text,
        hint=hint_text,
        found=found_text,
    )
    return environment


def mounted_at(request: Request) -> str:
    """The path below which the pages stand, with Airflow's own base path: ``/pretrain-archive`` or longer."""
    return str(request.scope.get("root_path", "")).rstrip("/")


class Links:
    """Addresses of our pages and of Airflow's, correct below any base path; names are percent-encoded whole."""

    def __init__(self, request: Request) -> None:
        self.base = mounted_at(request)
        self.airflow = self.base.rpartition("/")[0]

    def static(self, name: str) -> str:
        """A static file; its address changes with its content."""
        return f"{self.base}/static/{name}?v={static_file(name)[1]}"

    def runs(self, **query: object) -> str:
        """The list of runs with a query; empty values are left out."""
        kept = {name: value for name, value in query.items() if value not in (None, "")}
        return f"{self.base}/runs" + (f"?{urlencode(kept)}" if kept else "")

    def run(self, run_uid: str) -> str:
        """A run's page."""
        return f"{self.base}/runs/{quote(run_uid, safe='')}"

    def gate(self, run_uid: str, gate: str) -> str:
        """The view of a gate of a run."""
        return f"{self.run(run_uid)}/gates/{quote(gate, safe='')}"

    def record(self, run_uid: str, record_id: str) -> str:
        """A record of a run."""
        return f"{self.run(run_uid)}/records/{quote(record_id, safe='')}"

    def quality(self, run_uid: str) -> str:
        """The quality report of a run as a page."""
        return f"{self.run(run_uid)}/quality"

    def changes(self, run_uid: str) -> str:
        """The manual changes of a run, and the form that records one."""
        return f"{self.run(run_uid)}/changes"

    def packages(self, run_uid: str) -> str:
        """The packages of a run."""
        return f"{self.run(run_uid)}/packages"

    def dag(self, dag_id: str) -> str:
        """Airflow's page of a Dag, where a run is triggered."""
        return f"{self.airflow}/dags/{quote(dag_id, safe='')}"

    def dag_run(self, dag_id: str, dag_run_id: str) -> str:
        """Airflow's page of a Dag run."""
        return f"{self.airflow}/dags/{quote(dag_id, safe='')}/runs/{quote(dag_run_id, safe='')}"

    def form(self, dag_id: str, dag_run_id: str, task_id: str) -> str:
        """Airflow's form for a question of a task."""
        return f"{self.dag_run(dag_id, dag_run_id)}/tasks/{quote(task_id, safe='')}/required_actions"

    def answer(self, dag_id: str, dag_run_id: str, task_id: str, map_index: int) -> str:
        """Airflow's endpoint that takes the answer of the logged-in person."""
        names = [quote(name, safe="") for name in (dag_id, dag_run_id, task_id)]
        return (
            f"{self.airflow}/api/v2/dags/{names[0]}/dagRuns/{names[1]}"
            f"/taskInstances/{names[2]}/{map_index}/hitlDetails"
        )


def first_language(request: Request) -> str:
    """What to show before (or without) the script: the first language of the browser that we have."""
    for part in request.headers.get("accept-language", "").split(","):
        code = part.split(";")[0].strip().lower()
        if code.startswith("zh"):
            return "zh-CN"
        if code.startswith("en"):
            return "en"
    return "en"


def page(request: Request, template: str, *, title: Text, status: int = 200, **values: Any) -> Response:
    """Render a template as a whole page."""
    html = (
        _environment()
        .get_template(template)
        .render(title=title, links=Links(request), lang=first_language(request), **values)
    )
    # Set here too: the answer to a fault is written outside the middleware.
    return HTMLResponse(html, status_code=status, headers={**HEADERS, "Cache-Control": "private, no-store"})
