"""Write docs/command-line.md from the program's own help, so that the two cannot differ."""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path

from pretrain_archive.cli import run_command

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "command-line.md"
COMMANDS = (
    ("source", "list"),
    ("source", "show"),
    ("source", "register"),
    ("source", "grant"),
    ("source", "revoke"),
    ("snapshot", "create"),
    ("snapshot", "verify"),
    ("snapshot", "rebuild"),
    ("snapshot", "diff"),
    ("snapshot", "leftovers"),
    ("snapshot", "croissant"),
    ("quality", "check"),
    ("quality", "overlap"),
    ("labels", "show"),
    ("labels", "verify"),
    ("run", "list"),
    ("run", "show"),
    ("run", "trace"),
    ("run", "diff"),
    ("run", "timeline"),
    ("run", "diagnose"),
    ("run", "lineage"),
    ("run", "attempts"),
    ("run", "change"),
    ("run", "conclude"),
    ("run", "resubmit"),
    ("run", "oncall"),
    ("launch", "plan"),
    ("evaluation", "show"),
    ("evaluation", "compare"),
    ("evaluation", "import"),
    ("evaluation", "curve"),
    ("evaluation", "suites"),
    ("evaluation", "outputs"),
    ("model", "list"),
    ("model", "show"),
    ("model", "note"),
    ("model", "retire"),
    ("checkpoint", "inspect"),
    ("checkpoint", "register"),
    ("checkpoint", "verify"),
    ("checkpoint", "list"),
    ("checkpoint", "newest"),
    ("checkpoint", "classify"),
    ("package", "verify"),
    ("package", "explain"),
    ("package", "exam"),
    ("cost", "show"),
    ("cost", "report"),
    ("cost", "idle"),
    ("ledger", "verify"),
    ("ledger", "anchor"),
    ("ledger", "key"),
    ("ledger", "migrate"),
    ("ledger", "recover"),
    ("release", "show"),
    ("release", "verify"),
    ("release", "export"),
    ("release", "card"),
    ("release", "check"),
    ("retention", "plan"),
    ("retention", "show"),
    ("retention", "apply"),
    ("retention", "hold"),
    ("retention", "classify"),
    ("retention", "reconcile"),
    ("drill", "run"),
    ("platform", "change", "propose"),
    ("platform", "change", "verify"),
    ("platform", "change", "widen"),
    ("platform", "change", "accept"),
    ("platform", "change", "roll-back"),
    ("platform", "change", "list"),
    ("platform", "change", "show"),
    ("platform", "stage"),
    ("platform", "label"),
    ("platform", "confirm"),
    ("platform", "walk"),
    ("incident", "open"),
    ("incident", "review"),
    ("incident", "close"),
    ("incident", "list"),
    ("incident", "show"),
    ("withdraw",),
)
HEAD = """\
# Command line

Written by `make docs` from the program's own help.

With `--json` a command prints one JSON document on standard output and nothing else, errors too:
`{"error": {"code", "message", "hint"}}`. Progress goes to standard error, and only to a terminal. `NO_COLOR` is
respected. The program reads the settings of `[pretrain_archive]` from `AIRFLOW__PRETRAIN_ARCHIVE__…` or from
`airflow.cfg` in `AIRFLOW_HOME`.

| exit code | meaning |
| --- | --- |
| 0 | all well |
| 1 | a finding |
| 2 | wrong use or unreadable input |
| 3 | intact but not authenticated (packages only) |
| 4 | refused by policy |
"""


def help_text(*command: str) -> str:
    """What ``pretrain-archive COMMAND --help`` prints, at a fixed width."""
    before = {name: os.environ.get(name) for name in ("COLUMNS", "TERMINAL_WIDTH")}
    os.environ.update({"COLUMNS": "100", "TERMINAL_WIDTH": "100"})
    try:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            run_command([*command, "--help"])
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)
    return "\n".join(line.rstrip() for line in printed.getvalue().splitlines()).strip()


def page() -> str:
    """The whole page."""
    parts = [HEAD, f"```text\n{help_text()}\n```\n"]
    parts += [
        f"## pretrain-archive {' '.join(command)}\n\n```text\n{help_text(*command)}\n```\n"
        for command in COMMANDS
    ]
    return "\n".join(parts)


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.relative_to(ROOT))


if __name__ == "__main__":
    main()
