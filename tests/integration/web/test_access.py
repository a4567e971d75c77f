"""Who gets what from the mounted pages, asked of Airflow's real API server with real logins."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from urllib.parse import quote, urlsplit

import httpx
import pytest
from fastapi.routing import APIRoute
from tests.integration.web.conftest import EVIL, ODD_RUN, Seeded

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
EXTRA = (
    "/docs",
    "/redoc",
    "/openapi.json",
    "/nowhere",
    "/static/../app.py",
    "/static/%2e%2e/app.py",
    "/runs/",
)


def routes() -> list[str]:
    """The path of every route of the application."""
    from pretrain_archive.web.app import create_app

    found = [route.path for route in create_app().routes if isinstance(route, APIRoute)]
    assert len(found) > 8
    return found


def addresses(seeded: Seeded) -> list[str]:
    """Every route with real values, and what an intruder would try beside them."""
    values = {
        "run_uid": seeded.whole,
        "gate": "prepare",
        "record_id": "rec_x",
        "name": "archive.css",
        "path": "x/y",
    }
    filled = [re.sub(r"\{(\w+)(:path)?\}", lambda m: values[m[1]], path) for path in routes()]
    at = f"/at?dag_id=pretraining_reference&dag_run_id={quote(ODD_RUN, safe='')}"
    return [*filled, at, *EXTRA]


def everything(seeded: Seeded) -> list[tuple[str, str]]:
    """Every method at every address."""
    return [(method, path) for path in addresses(seeded) for method in METHODS]


@pytest.mark.case("P01")
def test_nobody_gets_anything_without_a_login(seeded: Seeded) -> None:
    """Every method at every route, static file and unknown address answers 401 or 403 to the anonymous."""
    with seeded.server.client(None) as client:
        codes = {
            (method, path): client.request(method, path).status_code for method, path in everything(seeded)
        }

    assert {} == {at: code for at, code in codes.items() if code not in {401, 403}}


@pytest.mark.case("P01")
@pytest.mark.parametrize(
    "token", ["x", "nonsense", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiIsInJvbGUiOiJhZG1pbiJ9."]
)
def test_a_forged_token_opens_nothing(seeded: Seeded, token: str) -> None:
    """A token that Airflow did not sign answers 401 or 403 everywhere."""
    headers = {"Authorization": f"Bearer {token}", "Cookie": f"_token={token}"}
    codes = {
        path: httpx.get(seeded.server.pages + path, headers=headers, timeout=30).status_code
        for path in addresses(seeded)
    }

    assert set() == set(codes.values()) - {401, 403}


@pytest.mark.case("P01")
def test_nobody_can_change_anything_here(seeded: Seeded) -> None:
    """Write methods, even of an administrator, are refused at every address, and the ledger stays as it was."""
    before = sum(1 for _ in seeded.ledger.records())
    with seeded.server.client("admin") as client:
        codes = {
            (method, path): client.request(method, path, json={}).status_code
            for method, path in everything(seeded)
            if method not in {"GET", "HEAD"}
        }

    assert {} == {at: code for at, code in codes.items() if code not in {403, 404, 405}}
    assert before == sum(1 for _ in seeded.ledger.records())


@pytest.mark.case("P01")
@pytest.mark.parametrize("name", ["alice", "bob", "carol", "admin"])
def test_whoever_may_read_the_dag_reads_its_runs(seeded: Seeded, name: str) -> None:
    """Viewer, user and administrator see list, run, gate, packages and the gate's state."""
    run = f"/runs/{seeded.whole}"
    paths = ["/runs", run, f"{run}/gates/prepare", f"{run}/gates/run/state", f"{run}/packages"]
    with seeded.server.client(name) as client:
        codes = [client.get(path).status_code for path in paths]

    assert [200] * len(paths) == codes


@pytest.mark.case("P01")
def test_the_user_of_another_dag_sees_nothing_of_this_one(seeded: Seeded) -> None:
    """Neither list nor search nor any page tells dave that a run exists whose Dag he may not read."""
    missing = "run_019a0000-0000-7000-8000-0000000000ff"
    pages = ["", "/gates/prepare", "/gates/prepare/state", "/packages", "/records/rec_x"]
    with seeded.server.client("dave") as client:
        listed = client.get("/runs").text
        searched = client.get("/runs", params={"q": "byte-level", "state": "waiting"}).text
        there = [client.get(f"/runs/{seeded.whole}{page}") for page in pages]
        absent = [client.get(f"/runs/{missing}{page}") for page in pages]
        at = client.get("/at", params={"dag_id": "pretraining_reference", "dag_run_id": ODD_RUN})
        own = client.get(f"/runs/{seeded.other}")

    assert 200 == own.status_code
    assert seeded.other in listed
    assert [] == [
        uid for uid in (seeded.whole, seeded.waiting, seeded.odd, seeded.evil) if uid in listed + searched
    ]
    assert {403} == {answer.status_code for answer in [*there, *absent, at]}
    assert {answer.text for answer in there} == {answer.text for answer in absent}


def test_the_runs_of_a_dag_that_airflow_forgot_are_still_listed(seeded: Seeded) -> None:
    """Airflow knows no Dag here at all; whoever may read any Dag still finds every archived run."""
    with seeded.server.client("carol") as client:
        known = httpx.get(f"{seeded.server.url}/api/v2/dags", cookies=client.cookies, timeout=30).json()
        listed = client.get("/runs").text

    assert 0 == known["total_entries"]
    assert [] == [
        uid for uid in (seeded.whole, seeded.waiting, seeded.odd, seeded.other) if uid not in listed
    ]


def test_every_answer_carries_the_security_headers(seeded: Seeded) -> None:
    """Pages, refusals, files and faults alike: strict policy, no sniffing, nothing kept by caches of pages."""
    answers = []
    with seeded.server.client(None) as client:
        answers += [client.get("/runs")]
    with seeded.server.client("bob") as client:
        answers += [
            client.get(path) for path in ("/runs", "/nowhere", "/at", "/runs?before=x", "/runs/run_x")
        ]
        answers += [client.get("/static/archive.css"), client.post("/runs")]
    seen = {(answer.status_code, answer.headers.get("content-security-policy")) for answer in answers}
    policy = (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'self'; base-uri 'none'"
    )

    assert {(code, policy) for code in (200, 401, 403, 404, 405, 422)} == seen
    assert {"nosniff"} == {answer.headers["x-content-type-options"] for answer in answers}
    assert {"private, no-store"} == {a.headers["cache-control"] for a in answers if "css" not in str(a.url)}


class Page(HTMLParser):
    """What a browser would run or load from a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.inline: list[str] = []
        self.loaded: list[str] = []
        self.links: list[str] = []
        self._in_script = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what could act: inline handlers and styles, sources, links."""
        given = dict(attrs)
        self.inline += [f"{tag} {name}" for name in given if name.startswith("on") or name == "style"]
        if tag == "style" or (tag == "script" and not given.get("src")):
            self.inline.append(tag)
        if tag in {"script", "img", "iframe", "object", "embed"} or (tag == "link" and given.get("href")):
            self.loaded.append(f"{tag} {given.get('src') or given.get('href')}")
        if tag in {"a", "form"}:
            self.links.append(str(given.get("href") or given.get("action") or ""))


def pages_of(seeded: Seeded, uid: str) -> list[str]:
    """Every page of a run."""
    records = [record.record_id for record in seeded.ledger.records(streams=(uid,))]
    run = f"/runs/{uid}"
    return [
        "/runs",
        run,
        *(f"{run}/gates/{gate}" for gate in ("prepare", "run", "close")),
        f"{run}/packages",
        *(f"{run}/records/{record}" for record in records),
    ]


@pytest.mark.parametrize("which", ["whole", "evil", "odd"])
def test_nothing_is_inline_and_nothing_comes_from_outside(seeded: Seeded, which: str) -> None:
    """Whatever the records hold, a page runs only our script and loads only below its own base path."""
    with seeded.server.client("bob") as client:
        answers = [client.get(path) for path in pages_of(seeded, getattr(seeded, which))]
    pages = [Page(answer.text) for answer in answers]

    assert {200} == {answer.status_code for answer in answers}
    assert [] == [name for page in pages for name in page.inline]
    assert {"script", "link"} == {name.split()[0] for page in pages for name in page.loaded}
    assert [] == [
        n for page in pages for n in page.loaded if not n.split()[1].startswith("/af/pretrain-archive/")
    ]
    assert [] == [at for page in pages for at in page.links if not at.startswith(("/af/", "#"))]


def test_a_hostile_text_is_shown_as_text(seeded: Seeded) -> None:
    """Markup in the purpose, the ids, the reason and the names arrives escaped, and is not evaluated."""
    with seeded.server.client("bob") as client:
        run = client.get(f"/runs/{seeded.evil}").text
        gate = client.get(f"/runs/{seeded.evil}/gates/prepare").text
        search = client.get("/runs", params={"q": EVIL}).text

    for html in (run, gate, search):
        assert "<script>alert" not in html
        assert "<img" not in html
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
        assert "{{7*7}}" in html


@pytest.mark.requirement("R138")
@pytest.mark.case("S01")
def test_a_tab_of_an_odd_dag_run_lands_on_its_run(seeded: Seeded) -> None:
    """Percent, plus, slash, newline, quotes and markup in a Dag run id survive, and the gate of a task is found."""
    query = {"dag_id": "pretraining_reference", "dag_run_id": ODD_RUN}
    with seeded.server.client("bob") as client:
        plain = client.get("/at", params=query)
        task = client.get("/at", params={**query, "task_id": "prepare_gate"})
        gate = client.get("/at", params={**query, "gate": "close"})
        literal = client.get("/at", params={**query, "task_id": "{TASK_ID}"})
        unknown = client.get("/at", params={**query, "dag_run_id": "never"})
        page = client.get(f"/runs/{seeded.odd}").text
    run = f"/af/pretrain-archive/runs/{seeded.odd}"

    assert [303] * 4 == [answer.status_code for answer in (plain, task, gate, literal)]
    assert [run, f"{run}/gates/prepare", f"{run}/gates/close", run] == [
        answer.headers["location"] for answer in (plain, task, gate, literal)
    ]
    assert 404 == unknown.status_code
    assert f"/af/dags/pretraining_reference/runs/{quote(ODD_RUN, safe='')}" in page


def test_the_login_page_is_one_step_away(seeded: Seeded) -> None:
    """Without a login the page says so and leads to Airflow's login and back."""
    with seeded.server.client(None) as client:
        answer = client.get(f"/runs/{seeded.whole}")
    link = next(at for at in Page(answer.text).links if "login" in at)

    assert 401 == answer.status_code
    assert "/af/auth/login" == urlsplit(link).path
    assert quote(f"/pretrain-archive/runs/{seeded.whole}", safe="") in link


def test_airflow_shows_the_pages_where_people_look(seeded: Seeded) -> None:
    """The plugin is valid for Airflow: a navigation entry and tabs on Dag run and task instance."""
    with seeded.server.client("admin") as client:
        plugins = httpx.get(f"{seeded.server.url}/api/v2/plugins", cookies=client.cookies, timeout=30).json()
        errors = httpx.get(
            f"{seeded.server.url}/api/v2/plugins/importErrors", cookies=client.cookies, timeout=30
        )
        icon = client.get("/static/icon-light.svg")
    ours = next(plugin for plugin in plugins["plugins"] if plugin["name"] == "pretrain_archive")

    assert 0 == errors.json()["total_entries"]
    assert {"nav", "dag_run", "task_instance"} == {view["destination"] for view in ours["external_views"]}
    assert "image/svg+xml" == icon.headers["content-type"]


def test_a_record_is_shown_as_it_is_stored(seeded: Seeded) -> None:
    """The record view prints the stored bytes and says that they hash to the leaf."""
    record = next(iter(seeded.ledger.records(streams=(seeded.whole,))))
    with seeded.server.client("carol") as client:
        html = client.get(f"/runs/{seeded.whole}/records/{record.record_id}").text
        absent = client.get(f"/runs/{seeded.whole}/records/rec_none")
        foreign = client.get(f"/runs/{seeded.waiting}/records/{record.record_id}")

    assert record.leaf in html
    assert "The stored bytes hash to the leaf hash" in html
    assert [404, 404] == [absent.status_code, foreign.status_code]


def test_a_static_file_may_be_kept_only_under_its_own_version(seeded: Seeded) -> None:
    """The versioned address is immutable, the plain one is asked again, and an unchanged file is not sent."""
    with seeded.server.client("carol") as client:
        plain = client.get("/static/host.js")
        version = plain.headers["etag"].strip('"')
        kept = client.get("/static/host.js", params={"v": version})
        same = client.get("/static/host.js", headers={"If-None-Match": plain.headers["etag"]})

    assert "no-cache" in plain.headers["cache-control"]
    assert "immutable" in kept.headers["cache-control"]
    assert (304, b"") == (same.status_code, same.content)
