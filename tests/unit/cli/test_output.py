"""How answers and errors are printed."""

from __future__ import annotations

import json

import pytest
import typer

from pretrain_archive.cli import run_command
from pretrain_archive.commands import output


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["run", "list", "--json"], True, id="option"),
        pytest.param(["--json"], True, id="alone"),
        pytest.param(["run", "show", "--", "--json"], False, id="an argument that looks like it"),
        pytest.param([], False, id="nothing"),
    ],
)
def test_wants_json(arguments: list[str], expected: bool) -> None:
    """The wish for JSON is found where parsing itself failed."""
    assert expected == output.wants_json(arguments)


def test_what_a_library_prints_is_not_part_of_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """Standard output carries the document alone; a library's words go to standard error."""
    app = typer.Typer()

    @output.command(app)
    def speak(as_json: output.Json = False) -> None:
        print("a library has something to say")  # noqa: T201 - what libraries do
        output.answer({"a": 1}, ["a is 1"], as_json=as_json)

    app(["--json"], standalone_mode=False)
    seen = capsys.readouterr()

    assert {"a": 1} == json.loads(seen.out)
    assert "a library has something to say\n" == seen.err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("plain", "plain", id="plain"),
        pytest.param("\x1b[2Jgone\n", "\\x1b[2Jgone\\x0a", id="control characters"),
        pytest.param("数据 ü", "数据 ü", id="letters of any script"),
    ],
)
def test_plain(text: str, expected: str) -> None:
    """No value can move the cursor or end a line."""
    assert expected == output.plain(text)


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (12_340_000, "12.3 MB"), (5 * 10**15, "5000.0 TB")],
)
def test_size_text(number: int, expected: str) -> None:
    """Sizes are shown in decimal units."""
    assert expected == output.size_text(number)


def test_colour_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe and NO_COLOR get no escape sequences."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[32m✔ verified\x1b[0m" == output.verdict_text("verified")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "✔ verified" == output.verdict_text("verified")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["nonsense"], "No such command", id="unknown command"),
        pytest.param(["ledger"], "Missing command", id="no sub-command"),
        pytest.param(["run", "show"], "Missing argument", id="missing argument"),
        pytest.param(["run", "list", "--limit", "x"], "--limit", id="not a number"),
        pytest.param(["run", "trace", "a:b", "--direction", "up"], "--direction", id="unknown choice"),
    ],
)
def test_wrong_use(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong use is exit 2, with one line on standard error, or one document with --json."""
    assert 2 == run_command(arguments)
    seen = capsys.readouterr()
    assert ("", 1) == (seen.out, seen.err.count("\n"))
    assert words in seen.err

    assert 2 == run_command([*arguments, "--json"])
    seen = capsys.readouterr()
    assert "usage" == json.loads(seen.out)["error"]["code"]
    assert "" == seen.err


def test_an_unexpected_error_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fault of the program itself is one line and exit 2; the traceback comes only when asked for."""

    def broken(**_: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("pretrain_archive.services.open_ledger", broken)
    assert 2 == run_command(["run", "list"])
    assert "Traceback" not in capsys.readouterr().err
    monkeypatch.setenv("PRETRAIN_ARCHIVE_DEBUG", "1")
    assert 2 == run_command(["run", "list"])
    assert "ZeroDivisionError: by zero" in capsys.readouterr().err


def test_nothing_heavy_is_imported_to_start() -> None:
    """Starting the program imports neither Airflow nor a database nor a data library."""
    import subprocess
    import sys

    heavy = (
        "airflow",
        "sqlalchemy",
        "boto3",
        "great_expectations",
        "pandas",
        "fastapi",
        "pydantic",
        "torch",
        "rich",
        "huggingface_hub",
        "model_signing",
    )
    ask = f"import sys, pretrain_archive.cli; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)

    assert "[]" == done.stdout.strip()
