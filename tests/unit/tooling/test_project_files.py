"""The files that install, check and run the project say what they promise."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import install
import lock
import pytest
import reference

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PIN = re.compile(r"[A-Za-z0-9._-]+(\[[a-z0-9,_-]+\])?==[0-9][A-Za-z0-9.]*( ; .+)?")


def names(requirements: list[str]) -> set[str]:
    """The normalised names of requirements."""
    found = (re.match(r"[A-Za-z0-9._-]+", text) for text in requirements)
    return {re.sub(r"[-_.]+", "-", match[0]).lower() for match in found if match}


@pytest.mark.parametrize("path", ["requirements.lock", "docker/requirements.lock"])
def test_every_line_of_a_lock_is_one_pin(path: str) -> None:
    """A lock holds exact versions and nothing of one machine: no address, file, hash or local suffix."""
    lines = [line for line in (ROOT / path).read_text().splitlines() if line and not line.startswith("#")]

    assert len(lines) > 100
    assert [] == [line for line in lines if not PIN.fullmatch(line)]
    assert lines == sorted(lines)


def test_the_lock_has_every_direct_dependency() -> None:
    """Whatever pyproject.toml asks for is pinned, for developers and in the image."""
    project, groups = PROJECT["project"], PROJECT["dependency-groups"]
    wanted = names(project["dependencies"]) | names(project["optional-dependencies"]["train"])
    image = names((ROOT / "docker" / "requirements.lock").read_text().splitlines())
    everything = names((ROOT / "requirements.lock").read_text().splitlines())

    assert set() == (wanted | names(groups["build"])) - image
    assert set() == (wanted | names(groups["build"]) | names(groups["dev"])) - everything
    assert set() == image & {"pytest", "ruff", "mypy", "moto", "playwright"}


def test_the_locks_agree() -> None:
    """The image runs the versions that were tested."""
    tested = set((ROOT / "requirements.lock").read_text().splitlines())
    shipped = set((ROOT / "docker" / "requirements.lock").read_text().splitlines())

    assert set() == shipped - tested


def test_device_libraries_and_local_versions_stay_out_of_a_lock() -> None:
    """What a resolver prints is cleaned: pins only, without NVIDIA's libraries and local suffixes."""
    lines = ["# comment", "--index-url x", "torch==2.13.0+cpu", "nvidia-nccl-cu13==2.29.7 ; sys_platform == 'linux'",
             "    # via x", "triton==3.7.1", "abc==1.0"]  # fmt: skip

    assert ["abc==1.0", "torch==2.13.0"] == lock.locked(lines)


@pytest.mark.parametrize("version", [(3, 10, 9), (3, 14, 0)])
def test_an_unsupported_python_is_named(
    version: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interpreter out of range ends the installation with the way out."""
    monkeypatch.setattr(sys, "version_info", version)
    with pytest.raises(SystemExit, match=r"3\.11, 3\.12 or 3\.13 is needed.*make PYTHON="):
        install.check_interpreter()


def test_make_lists_its_targets() -> None:
    """`make` alone prints every target with what it does."""
    told = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ("demo", "up", "down", "test", "check", "bench", "lock", "fmt", "docs"):
        assert re.search(rf"^  make {target} +\S", told, re.MULTILINE), target


def test_ci_runs_make_test_and_nothing_else() -> None:
    """CI and a developer run the same thing."""
    script = ROOT / ".ci" / "run"
    commands = [line for line in script.read_text().splitlines() if line and not line.startswith("#")]

    assert script.stat().st_mode & 0o111
    assert ["set -euo pipefail", 'cd "$(dirname "$0")/.."', "exec make test"] == commands


def test_the_command_line_page_is_the_programs_own_help() -> None:
    """docs/command-line.md is what `make docs` would write now."""
    assert reference.page() == reference.PAGE.read_text(encoding="utf-8")


def test_every_command_is_on_the_page() -> None:
    """No command is left out of the page."""
    listed = {words[0] for words in reference.COMMANDS}
    told = reference.help_text()
    commands = set(re.findall(r"^  ([a-z]+)  ", told.partition("Commands:")[2], re.MULTILINE))

    assert commands == listed
    for group in sorted({words[0] for words in reference.COMMANDS if len(words) > 1}):
        inner = set(
            re.findall(r"^  ([a-z]+)  ", reference.help_text(group).partition("Commands:")[2], re.MULTILINE)
        )
        assert inner == {words[1] for words in reference.COMMANDS if words[0] == group}


def test_the_image_file_is_clean() -> None:
    """Hadolint has nothing to say about docker/Dockerfile."""
    program = Path(sys.executable).parent / "hadolint"
    done = subprocess.run(
        [program, "docker/Dockerfile"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert (0, "") == (done.returncode, done.stdout)


def test_the_composition_fits_the_published_schema() -> None:
    """docker/compose.yaml is valid against the compose specification's schema."""
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        "vendor.compose-spec",
        "docker/compose.yaml",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert 0 == done.returncode, done.stdout + done.stderr
