"""Show where a DAG run stands: one changing line on a terminal, a line per change elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Mapping

MARKS = {
    "success": "✔",
    "failed": "✘",
    "upstream_failed": "✘",
    "running": "●",
    "awaiting_input": "?",
    "up_for_retry": "↻",
    "skipped": "–",
}
QUIET = frozenset({"none", "scheduled", "queued"})
"""States that say nothing to a person who waits."""


class Progress:
    """Write to ``stream`` what changed since the last :meth:`show`."""

    def __init__(self) -> None:
        self._stream = sys.stderr
        self._live = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._began = time.monotonic()
        self._states: dict[str, str] = {}
        self._since: dict[str, float] = {}

    def say(self, text: str) -> None:
        """A line that stays."""
        self._clear()
        print(text, file=self._stream, flush=True)

    def show(self, states: Mapping[str, str], order: list[str]) -> None:
        """Show ``states`` (task to state); ``order`` is the order of the tasks."""
        now = time.monotonic()
        for task in order:
            state = states.get(task, "none")
            if self._states.get(task) == state:
                continue
            self._states[task], self._since[task] = state, now
            if not self._live and state not in QUIET:
                self.say(f"[{now - self._began:4.0f} s] {task}: {state}")
        if self._live:
            self._line(order, now)

    def _line(self, order: list[str], now: float) -> None:
        done = sum(self._states.get(task) == "success" for task in order)
        busy = [t for t in order if self._states.get(t) not in QUIET | {"success", "skipped", None}]
        current = ", ".join(
            f"{MARKS.get(self._states[t], '·')} {t} {self._states[t]} {now - self._since[t]:.0f} s"
            for t in busy
        )
        text = f"[{now - self._began:4.0f} s] {done}/{len(order)} tasks  {current or 'waiting for the scheduler'}"
        self._stream.write("\r\x1b[2K" + text[: shutil.get_terminal_size().columns - 1])
        self._stream.flush()

    def _clear(self) -> None:
        if self._live:
            self._stream.write("\r\x1b[2K")
