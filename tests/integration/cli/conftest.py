"""A home with one closed run in its ledger, and a way to call the program in it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from tests.support.packages import closing
from tests.support.seeded_run import seed_run

from pretrain_archive import services
from pretrain_archive.cli import run_command
from pretrain_archive.domain.records import Actor, Origin
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.package.writer import Writer, write_package

POLICY = Path(__file__).resolve().parents[3] / "dags" / "policies" / "demo.toml"
OTHER_RUN = "run_019a0000-0000-7000-8000-0000000000aa"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the program printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """Standard output as one JSON document."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


@dataclass(frozen=True, kw_only=True)
class Home:
    """An AIRFLOW_HOME with a closed run ``run_uid``, an open one, and the closed one's package."""

    folder: Path
    run_uid: str
    package: Path

    @property
    def key(self) -> Path:
        """The verification key."""
        return self.folder / "pretrain_archive" / "ledger.pub"

    @property
    def _settings(self) -> dict[str, str]:
        """Where home and policies are, though Airflow is loaded in this process and knows another home."""
        return {"AIRFLOW_HOME": str(self.folder), "AIRFLOW__CORE__DAGS_FOLDER": str(self.folder / "dags")}

    def ask(self, *arguments: str) -> Answer:
        """Run a command in this process: as :meth:`call`, without the time that a start takes."""
        out, err = io.StringIO(), io.StringIO()
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "PRETRAIN"))}
        with (
            mock.patch.dict(os.environ, {**kept, **self._settings}, clear=True),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = run_command(list(arguments))
        return Answer(code=code, out=out.getvalue(), err=err.getvalue())

    def call(self, *arguments: str, cwd: Path | None = None, **environment: str) -> Answer:
        """Run the installed program in this home."""
        program = Path(sys.executable).parent / "pretrain-archive"
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "PRETRAIN"))}
        settings = {**kept, "AIRFLOW_HOME": str(self.folder), **environment}
        done = subprocess.run(
            [program, *arguments],
            capture_output=True,
            text=True,
            env=settings,
            cwd=cwd,
            timeout=120,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Answer(code=done.returncode, out=done.stdout, err=done.stderr)


@pytest.fixture(scope="session")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """The untouched home."""
    folder = tmp_path_factory.mktemp("home")
    before = os.environ.get("AIRFLOW_HOME")
    os.environ["AIRFLOW_HOME"] = str(folder)
    try:
        ledger, store = services.open_ledger(), services.open_store()
        run_uid = seed_run(ledger, store, folder / "runs" / "one")
        seed_run(
            ledger, store, folder / "runs" / "two", run_uid=OTHER_RUN, dag_run_id="manual__2", until="prepare"
        )
        ledger.seal()
        view = RunView.of(run_uid, ledger.records(streams=[run_uid]))
        public = (folder / "pretrain_archive" / "ledger.pub").read_text().strip()
        writer = Writer(
            actor=Actor(type="task", name="archive_close"),
            origin=Origin(dag_id="pretraining_reference", dag_run_id="manual__1", task_id="archive_close"),
            verifier_key=public,
        )
        package = folder / "package"
        write_package(ledger, store, view, folder=package, writer=writer, closing=closing(run_uid))
        ledger.seal()
        ledger.close()
    finally:
        os.environ.pop("AIRFLOW_HOME")
        if before is not None:
            os.environ["AIRFLOW_HOME"] = before
    policies = folder / "dags" / "policies"
    policies.mkdir(parents=True)
    shutil.copy(POLICY, policies)
    return Home(folder=folder, run_uid=run_uid, package=package)


@pytest.fixture
def home(seeded: Home, tmp_path: Path) -> Callable[[], Home]:
    """Make a copy of the home that a test may change; the store's addresses still point to the original."""

    def make() -> Home:
        folder = tmp_path / "home"
        shutil.copytree(seeded.folder, folder)
        return Home(folder=folder, run_uid=seeded.run_uid, package=folder / "package")

    return make
