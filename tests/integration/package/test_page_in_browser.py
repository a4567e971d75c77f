"""index.html in a real browser, from the disk: no request leaves, scripts off, phone to desktop, two languages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, sync_playwright
from tests.support.packages import Built

pytestmark = pytest.mark.browser
CHROMIUM = Path("/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium."""
    if not CHROMIUM.exists():
        pytest.skip("no Chromium")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield running
        running.close()


def opened(browser: Browser, built: Built, *, width: int = 1280, **options: object) -> tuple[Page, list[str]]:
    """The page without JavaScript, and every address that it asks for."""
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        java_script_enabled=False,
        **options,  # type: ignore[arg-type]
    )
    page = context.new_page()
    asked: list[str] = []

    def note(route: Route) -> None:
        asked.append(route.request.url)
        route.continue_()

    context.route("**/*", note)
    page.goto((built.folder / "index.html").as_uri())
    return page, asked


def test_nothing_is_requested_from_outside(browser: Browser, built: Built) -> None:
    """One file is loaded, and no other address is asked for."""
    page, asked = opened(browser, built)
    page.locator("details summary").click()

    assert [(built.folder / "index.html").as_uri()] == asked
    page.context.close()


@pytest.mark.parametrize("width", [360, 390, 768, 1280])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_all_verdicts_show_without_scripts(browser: Browser, built: Built, width: int, language: str) -> None:
    """Every item with its verdict in words, in the chosen language, without sideways scrolling."""
    page, _ = opened(browser, built, width=width)
    page.locator(f"label[for=show-{language}]").click()

    rows = page.locator("table.items tbody tr")
    word = {"en": "verified", "zh": "已核验"}[language]
    assert 19 == rows.count()
    assert 19 == rows.locator(".verdict", has_text=word).filter(visible=True).count()
    hidden = page.locator({"en": ".zh", "zh": ".en"}[language])
    assert 0 == hidden.filter(visible=True).count()
    sizes = page.locator("html").bounding_box(), page.locator("main").bounding_box()
    assert all(size is not None and size["width"] <= width for size in sizes)
    page.context.close()


def test_decision_stands_before_everything_else(browser: Browser, built: Built) -> None:
    """On a desk screen the verdict counts and the first sentences are visible at once."""
    page, _ = opened(browser, built)

    counts, decision = page.locator(".counts").bounding_box(), page.locator(".decision").bounding_box()
    assert counts is not None
    assert decision is not None
    assert counts["y"] < 300
    assert counts["y"] < decision["y"] < 600
    assert 6 == page.locator(".decision dd").count()
    page.context.close()


def test_languages_can_be_switched_by_keyboard(browser: Browser, built: Built) -> None:
    """The switch is a radio group: Tab reaches it, arrows change it."""
    page, _ = opened(browser, built)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")

    assert page.locator("#show-zh").is_checked()
    assert page.get_by_text("三道关口").is_visible()
    page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_marks_and_words_stand_out(browser: Browser, built: Built, scheme: str) -> None:
    """Text has a contrast of 4.5 or more in both themes; the page takes the system's theme."""
    page, _ = opened(browser, built, color_scheme=scheme)

    ratios = {
        name: contrast(page, name) for name in ("h1", ".decision dd", ".fine", ".verdict.verified", "small")
    }

    assert {} == {name: ratio for name, ratio in ratios.items() if ratio < 4.5}
    page.context.close()


def contrast(page: Page, selector: str) -> float:
    """WCAG contrast of the first match against the page's ground, read off the computed styles."""
    client = page.context.new_cdp_session(page)
    client.send("DOM.enable")
    client.send("CSS.enable")
    root = client.send("DOM.getDocument")["root"]["nodeId"]

    def colour(css: str, name: str) -> tuple[float, float, float]:
        node = client.send("DOM.querySelector", {"nodeId": root, "selector": css})["nodeId"]
        styles = client.send("CSS.getComputedStyleForNode", {"nodeId": node})["computedStyle"]
        value = next(s["value"] for s in styles if s["name"] == name)
        red, green, blue = (float(part) for part in value.partition("(")[2].rstrip(")").split(",")[:3])
        return red, green, blue

    def luminance(rgb: tuple[float, float, float]) -> float:
        linear = [c / 255 / 12.92 if c / 255 <= 0.03928 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted(
        (luminance(colour(selector, "color")), luminance(colour("html", "background-color"))), reverse=True
    )
    return (light + 0.05) / (dark + 0.05)
