"""The pages in a real browser, alone and inside Airflow's real UI."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, Frame, Page, expect
from tests.e2e.browser import chromium, installed, listen, logged_in
from tests.integration.web.api_server import ApiServer, ledger_in, store_in
from tests.unit.web.gated_run import GatedRun, gated_run

from pretrain_archive.domain import kinds
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.ledger.sql import SqlLedger

pytestmark = [
    pytest.mark.browser,
    pytest.mark.airflow,
    pytest.mark.skipif(not installed(), reason="Chromium is not installed (apt-get install chromium)"),
]
EVIL = "\"><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
TOKENS = {
    "--bg": "bg",
    "--fg": "fg",
    "--border": "border",
    "--brand": "brand-solid",
    "--verified-text": "success-fg",
    "--changed-text": "warning-fg",
    "--refused-text": "failed-fg",
    "--waiting-text": "awaiting_input-fg",
}


@dataclass
class World:
    """A server, a browser and the runs that were seeded."""

    server: ApiServer
    browser: Browser
    ledger: SqlLedger
    whole: GatedRun
    waiting: GatedRun
    evil: GatedRun

    def page(self, name: str = "bob", *, problems: list[str] | None = None, **options: object) -> Page:
        """A page of a person in a fresh profile."""
        given = {"locale": "en-US", "viewport": {"width": 1280, "height": 844}, **options}
        token = self.server.token(name)
        page = logged_in(self.browser, url=self.server.url, token=token, **given).new_page()
        listen(page, problems if problems is not None else [])
        return page

    def addresses(self, run: GatedRun) -> list[str]:
        """Every kind of page of a run."""
        record = next(iter(self.ledger.records(streams=(run.uid,)))).record_id
        at = f"/runs/{run.uid}"
        pages = ["/runs", at, f"{at}/packages", f"{at}/records/{record}", "/nowhere"]
        return [
            self.server.pages + path
            for path in (*pages, *(f"{at}/gates/{g}" for g in ("prepare", "run", "close")))
        ]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One API server and one browser for all tests here."""
    home = tmp_path_factory.mktemp("browser")
    ledger, store = ledger_in(home), store_in(home)
    whole = gated_run(ledger, store, home / "w1", number=1)
    whole.whole()
    whole.package()
    waiting = gated_run(ledger, store, home / "w2", number=2, objective="A second run that waits")
    waiting.waiting_at_prepare()
    evil = gated_run(ledger, store, home / "w3", number=3, objective=EVIL, dag_run_id=EVIL)
    evil.waiting_at_prepare()
    server = ApiServer(home=home).start()
    try:
        with chromium() as browser:
            yield World(
                server=server, browser=browser, ledger=ledger, whole=whole, waiting=waiting, evil=evil
            )
    finally:
        server.stop()


def in_airflow(world: World, page: Page) -> Frame:
    """Open the navigation entry in Airflow's UI and return our page's frame."""
    page.goto(f"{world.server.url}/plugin/pretrain-archive")
    page.wait_for_selector("iframe")
    element = page.query_selector("iframe")
    frame = element.content_frame() if element else None
    assert frame is not None
    frame.wait_for_selector("h1")
    return frame


def tokens_of(frame: Frame) -> tuple[dict[str, str], dict[str, str]]:
    """Our colours and the host's, as computed."""
    ours, host = frame.evaluate(
        """(names) => {
          const read = (root, name) => getComputedStyle(root).getPropertyValue(name).trim();
          const ours = {}, host = {};
          for (const [our, their] of Object.entries(names)) {
            ours[our] = read(document.documentElement, our);
            host[our] = parent.getComputedStyle(parent.document.documentElement)
              .getPropertyValue("--chakra-colors-" + their).trim();
          }
          return [ours, host];
        }""",
        TOKENS,
    )
    return ours, host


def test_the_theme_follows_airflow_at_once(world: World) -> None:
    """Light and dark in Airflow are light and dark in our frame within 300 ms, in the host's own colours."""
    problems: list[str] = []
    page = world.page(problems=problems, color_scheme="light")
    frame = in_airflow(world, page)
    seen = {}
    for theme in ("light", "dark", "light"):
        # What Airflow's own switch does: the choice in storage, the class on the root element.
        page.evaluate(
            "(t) => { localStorage.setItem('theme', t); const c = document.documentElement.classList;"
            " c.remove('light', 'dark'); c.add(t); }",
            theme,
        )
        frame.wait_for_function("(t) => document.documentElement.dataset.theme === t", arg=theme, timeout=300)
        ours, host = tokens_of(frame)
        assert "" not in host.values()
        assert host == ours
        seen[theme] = frame.evaluate("getComputedStyle(document.documentElement).backgroundColor")

    assert seen["light"] != seen["dark"]
    assert [] == [said for said in problems if "pretrain-archive" in said or "Content Security" in said]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_marks_and_words_stand_out(world: World, theme: str) -> None:
    """In Airflow's own colours, marks of verdicts reach 3:1 and words 4.5:1 against the background."""
    page = world.page(color_scheme=theme)
    page.add_init_script(f"localStorage.setItem('theme', '{theme}')")
    frame = in_airflow(world, page)
    ratios = frame.evaluate(
        """(names) => {
          const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
          const light = (name) => {
            const probe = document.body.appendChild(document.createElement("i"));
            probe.style.color = `var(${name})`;
            canvas.fillStyle = getComputedStyle(probe).color;
            probe.remove();
            canvas.fillRect(0, 0, 1, 1);
            const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((v) => v / 255)
              .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          const ground = light("--bg");
          return Object.fromEntries(names.map((name) => {
            const [high, low] = [light(name), ground].sort((a, b) => b - a);
            return [name, (high + 0.05) / (low + 0.05)];
          }));
        }""",
        [
            f"--{n}{t}"
            for n in ("verified", "changed", "unrecorded", "refused", "waiting")
            for t in ("", "-text")
        ]
        + ["--fg", "--fg-muted", "--brand-fg"],
    )
    weak = {n: round(r, 2) for n, r in ratios.items() if r < (4.5 if "-text" in n or "fg" in n else 3.0)}

    assert {} == weak


def test_the_language_follows_airflow_without_a_reload(world: World) -> None:
    """Changing Airflow's language changes our words in place, and the page's language mark and title."""
    frame = in_airflow(world, page := world.page())
    expect(frame.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
    page.evaluate("localStorage.setItem('i18nextLng', 'zh-CN')")

    expect(frame.get_by_role("heading", name="训练", exact=True)).to_be_visible()
    expect(frame.get_by_role("heading", name="Runs", exact=True)).to_be_hidden()
    assert ["zh-CN", "训练"] == frame.evaluate("[document.documentElement.lang, document.title]")
    page.evaluate("localStorage.setItem('i18nextLng', 'de')")
    expect(frame.get_by_role("heading", name="Runs", exact=True)).to_be_visible()


@pytest.mark.parametrize(
    ("code", "language"), [("zh", "zh-CN"), ("zh-Hant", "zh-CN"), ("en-GB", "en"), ("ja", "en")]
)
def test_the_first_paint_already_speaks_the_language(world: World, code: str, language: str) -> None:
    """Standing alone, the language is set before the body exists: nothing flashes."""
    page = world.page()
    page.add_init_script(
        f"localStorage.setItem('i18nextLng', '{code}');"
        "new MutationObserver((_, self) => { if (document.body) { window.first = document.documentElement.lang;"
        " self.disconnect(); } }).observe(document, { childList: true, subtree: true });"
    )
    page.goto(f"{world.server.pages}/runs")

    assert language == page.evaluate("window.first")


def test_times_are_in_the_zone_that_the_person_chose(world: World) -> None:
    """Airflow keeps the zone as JSON text; the same instant is shown there, and unchanged in the attribute."""
    page = world.page(timezone_id="America/New_York")
    page.goto(f"{world.server.pages}/runs/{world.whole.uid}")
    instant = page.locator("time").first.get_attribute("datetime")
    local = page.locator("time").first.inner_text()
    page.evaluate("localStorage.setItem('timezone', JSON.stringify('Asia/Shanghai'))")
    page.reload()
    shown = page.locator("time").first

    assert shown.inner_text() != local
    assert "GMT+8" in shown.inner_text()
    assert instant == shown.get_attribute("datetime")


@pytest.mark.parametrize("width", [360, 390])
@pytest.mark.parametrize("language", ["en-US", "zh-CN"])
def test_a_phone_scrolls_only_down(world: World, width: int, language: str) -> None:
    """On a phone no page is wider than the screen, and what is tapped is large enough."""
    page = world.page(viewport={"width": width, "height": 740}, locale=language, has_touch=True)
    for run in (world.whole, world.waiting, world.evil):
        for address in world.addresses(run):
            page.goto(address)
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert width >= wide, address
            heights = page.evaluate(
                "[...document.querySelectorAll('.button, .chip, summary')].filter((e) => e.offsetParent)"
                ".map((e) => Math.round(e.getBoundingClientRect().height))"
            )
            assert [] == [height for height in heights if height < 44], address


def test_nothing_of_a_record_runs_and_nothing_is_refused(world: World) -> None:
    """Hostile records change no title; no page of ours asks for anything that its own policy refuses."""
    problems: list[str] = []
    page = world.page(problems=problems)
    outside: list[str] = []
    page.on("request", lambda r: outside.append(r.url) if not r.url.startswith(world.server.url) else None)
    for address in world.addresses(world.evil):
        page.goto(address)
        assert "owned" != page.title()

    assert [] == outside
    assert [] == [said for said in problems if "404" not in said]


def test_a_link_to_airflow_moves_airflow_and_never_nests_it(world: World) -> None:
    """Inside the frame, a link to the Dag run changes Airflow's own page; our frame never holds Airflow."""
    page = world.page()
    frame = in_airflow(world, page)
    frame.get_by_role("link", name=world.whole.objective).click()
    link = frame.locator("a[data-airflow]").first
    link.wait_for()
    link.click()
    page.wait_for_url(re.compile(r"/dags/pretraining_reference/runs/"))

    assert [] == [f.url for f in page.frames[1:] if "/dags/" in f.url]


def test_an_unknown_address_never_nests_airflow(world: World) -> None:
    """Inside the frame, a wrong address shows our own page, with a way back to the runs."""
    page = world.page()
    frame = in_airflow(world, page)
    frame.goto(f"{world.server.pages}/runs/x/y/z")

    expect(frame.get_by_role("heading", name="There is no such page")).to_be_visible()
    frame.get_by_role("main").get_by_role("link", name="Runs").click()
    expect(frame.get_by_role("heading", name="Runs", exact=True)).to_be_visible()


def test_the_worst_is_seen_first_and_the_equal_is_folded(world: World) -> None:
    """The gate view opens with the items that need a look; the verified ones are one line with their count."""
    page = world.page()
    page.goto(f"{world.server.pages}/runs/{world.waiting.uid}/gates/prepare")
    shown = [
        verdict.strip()
        for verdict in page.locator(".desk-main > section > .items .verdict").all_inner_texts()
    ]

    assert {"unrecorded"} == set(shown)
    expect(page.get_by_text(re.compile(r"\d+ items verified"))).to_be_visible()
    box = page.locator(".tally").first.bounding_box()
    assert box is not None
    assert box["y"] < 600


def test_the_form_asks_for_what_is_missing_before_it_sends(world: World) -> None:
    """Without a reason, or without the acknowledgement, nothing is sent and the gap is named and focused."""
    page = world.page()
    sent: list[str] = []
    page.on("request", lambda r: sent.append(r.method) if r.method == "PATCH" else None)
    page.goto(f"{world.server.pages}/runs/{world.waiting.uid}/gates/prepare")
    page.get_by_role("button", name="Approve").click()
    expect(page.locator("#said")).to_contain_text("Give a reason.")
    assert "reason" == page.evaluate("document.activeElement.id")
    page.get_by_label("Reason (required)").fill("Read and agreed.")
    page.get_by_role("button", name="Approve").click()
    expect(page.locator("#said")).to_contain_text("Acknowledge the advisory items")

    assert [] == sent


def test_what_airflow_answers_is_said_in_words(world: World) -> None:
    """Where Airflow has no such question, its 404 becomes a sentence, and the buttons work again."""
    page = world.page()
    page.goto(f"{world.server.pages}/runs/{world.waiting.uid}/gates/prepare")
    page.get_by_label("Reason (required)").fill("Read and agreed.")
    page.get_by_role("button", name="Reject").click()

    expect(page.locator("#said")).to_contain_text("The question is not open any more")
    expect(page.get_by_role("button", name="Reject")).to_have_attribute("aria-disabled", "false")


def test_somebody_who_may_not_sign_reads_why(world: World) -> None:
    """The submitter and a viewer find no form, but the reason and the name of who can sign."""
    said = {}
    for name in ("alice", "carol"):
        page = world.page(name)
        page.goto(f"{world.server.pages}/runs/{world.waiting.uid}/gates/prepare")
        assert 0 == page.locator("form#answer").count()
        said[name] = page.locator("#sign").inner_text()

    assert "You started this run; it must be signed by bob." in said["alice"]
    assert "The policy does not name you; it must be signed by bob." in said["carol"]


@pytest.mark.case("P01")
def test_a_person_without_the_permission_sees_nothing(world: World) -> None:
    """Dave may read another Dag only: his list is empty, and a link that he was sent tells him nothing."""
    page = world.page("dave")
    page.goto(f"{world.server.pages}/runs")
    expect(page.get_by_text("No run is recorded yet.")).to_be_visible()
    assert 0 == page.locator("table").count()
    answer = page.goto(f"{world.server.pages}/runs/{world.waiting.uid}/gates/prepare")

    assert answer is not None
    assert 403 == answer.status
    expect(page.get_by_role("heading", name="Not for you, or not there")).to_be_visible()
    assert world.waiting.objective not in page.content()


def test_a_stale_signature_is_nowhere_green(world: World) -> None:
    """After a bound fact changed, run page and gate view show no approval of that gate, and name the change."""
    run = gated_run(world.ledger, world.whole.store, world.whole.folder.parent / "stale", number=9)
    run.waiting_at_prepare()
    run.answer("prepare")
    declared = next(iter(world.ledger.records(streams=(run.uid,), kinds=("configuration.declared",))))
    payload = kinds.ConfigurationDeclared.model_validate(dict(declared.payload))
    configuration = {**payload.configuration, "learning_rate": 0.5}
    run.add(
        "prepare_gate",
        payload.model_copy(
            update={"configuration": configuration, "configuration_digest": digest_of(configuration)}
        ),
    )
    page = world.page()
    page.goto(f"{world.server.pages}/runs/{run.uid}")
    card = page.locator(".card.gate").first
    expect(card).to_contain_text("signed for older evidence")
    expect(card).to_contain_text("Configuration: sha256:")
    assert 0 == page.locator(".card.gate.approve").count()
    page.goto(f"{world.server.pages}/runs/{run.uid}/gates/prepare")

    expect(page.locator(".banner.stale")).to_contain_text("Configuration: sha256:")
    assert 0 == page.locator(".gate-state .icon.approve, .state .icon.approve").count()


def test_everything_is_reached_by_keyboard(world: World) -> None:
    """Tab goes from the first link to the decision, each stop with a visible focus."""
    page = world.page()
    page.goto(f"{world.server.pages}/runs/{world.waiting.uid}/gates/prepare")
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        name, outline = page.evaluate(
            "[document.activeElement.value || document.activeElement.innerText.trim(),"
            " getComputedStyle(document.activeElement).outlineStyle]"
        )
        reached.append(name)
        assert "none" != outline, name
        if name == "Reject":
            break

    assert "Skip to the content" == reached[0]
    assert ["Approve", "Reject"] == reached[-2:]
