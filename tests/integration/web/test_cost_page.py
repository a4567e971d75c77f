"""Timeline, cost and diagnosis on a run's page, from Airflow's real API server and in a real browser."""

from __future__ import annotations

import pytest
from tests.e2e.browser import chromium, installed, logged_in
from tests.integration.web.conftest import EVIL, Seeded

SECTIONS = ("course", "cost", "diagnosis")


def page_of(seeded: Seeded, run_uid: str) -> str:
    """A run's page as the submitter gets it."""
    with seeded.server.client("alice") as client:
        answer = client.get(f"/runs/{run_uid}")
    assert 200 == answer.status_code
    return answer.text


@pytest.mark.requirement("R087")
def test_the_sections_are_there_for_every_run(seeded: Seeded) -> None:
    """A whole run, one that waits and one with hostile names have all three sections, and nothing inline."""
    for run_uid in (seeded.whole, seeded.waiting, seeded.odd, seeded.evil):
        html = page_of(seeded, run_uid)
        assert all(f'<h2 id="{name}">' in html for name in SECTIONS)
        assert " style=" not in html
        assert EVIL not in html


@pytest.mark.skipif(not installed(), reason="needs Chromium")
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("language", ["en", "zh-CN"])
def test_without_script_at_any_width(seeded: Seeded, width: int, language: str) -> None:
    """Without JavaScript, in both languages, wide and on a phone: all is drawn and nothing runs out of the page."""
    server = seeded.server
    with chromium() as browser:
        context = logged_in(
            browser, url=server.url, token=server.token("alice"), locale=language, java_script_enabled=False,
            viewport={"width": width, "height": 900},
        )  # fmt: skip
        page = context.new_page()
        page.goto(f"{server.pages}/runs/{seeded.whole}")
        for name in SECTIONS:
            box = page.locator(f"section[aria-labelledby={name}]").bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
        track = page.locator(".lane-track").first.bounding_box()
        bar = page.locator("svg.bins").first.bounding_box()
        assert track is not None
        assert bar is not None
        assert min(track["width"], bar["width"]) > 0.6 * min(width, 600)
        shown = page.locator("#course").inner_text()

    assert {"en": "Timeline", "zh-CN": "时间线"}[language] == shown
