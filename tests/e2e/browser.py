"""Chromium as the system ships it, with a fresh profile and no traffic of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

EXECUTABLE = "/usr/bin/chromium"
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser that is gone afterwards."""
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=EXECUTABLE, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


def logged_in(browser: Browser, *, url: str, token: str, **options: Any) -> BrowserContext:
    """A fresh profile that carries a person's login, as Airflow's own login page would leave it."""
    context = browser.new_context(**options)
    context.add_cookies([{"name": "_token", "value": token, "url": url, "httpOnly": True}])
    return context


def listen(page: Page, problems: list[str]) -> None:
    """Collect what the page's own console complains about: refused scripts, faults, failed requests."""
    page.on("pageerror", lambda error: problems.append(f"error {error}"))
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)


def installed() -> bool:
    """Whether the system has Chromium."""
    return Path(EXECUTABLE).exists()
