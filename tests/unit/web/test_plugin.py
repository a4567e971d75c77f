"""The plugin as Airflow loads it: light in every process, closed where login cannot be checked."""

from __future__ import annotations

import subprocess
import sys

import pytest
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.api_fastapi.core_api.security import get_user
from starlette.testclient import TestClient
from tests.unit.web.gated_run import demo_policy

from pretrain_archive.airflow_plugin import MOUNT, PretrainArchivePlugin
from pretrain_archive.domain.errors import LedgerUnavailableError
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.web.app import create_app
from pretrain_archive.web.headers import POLICY


class Broken:
    """Sources whose ledger cannot be opened."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def ledger(self) -> Ledger:
        """Raise."""
        raise self.error

    def policy(self, _project: str) -> LoadedPolicy:
        """The demo policy."""
        return demo_policy()


def client_over(error: Exception) -> TestClient:
    """A client logged in as carol, over sources that raise."""
    app = create_app(Broken(error))
    app.dependency_overrides[get_user] = lambda: SimpleAuthManagerUser(username="carol", role="viewer")
    return TestClient(app, raise_server_exceptions=False)


def test_loading_the_plugin_does_not_build_the_pages() -> None:
    """Schedulers and workers load every plugin: none of the pages, the ledger or the quality engine comes along."""
    code = (
        "import sys; from pretrain_archive.airflow_plugin import PretrainArchivePlugin as P; P(); "
        "print([n for n in sys.modules if n.startswith(('pretrain_archive.web', 'pretrain_archive.services', "
        "'pretrain_archive.ledger', 'great_expectations', 'boto3', 'airflow.api_fastapi.core_api.app'))])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]" == told.stdout.strip().splitlines()[-1]


@pytest.mark.case("P01")
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_without_airflows_login_everything_is_refused(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """Where the application cannot be imported, the mounted one answers 403 to every request."""
    monkeypatch.setitem(sys.modules, "pretrain_archive.web.app", None)
    [mounted] = PretrainArchivePlugin().fastapi_apps
    client = TestClient(mounted["app"])

    assert MOUNT == mounted["url_prefix"]
    assert {403} == {
        client.request(method, path).status_code for path in ("/", "/runs", "/static/host.js", "/x/y")
    }


def test_the_pages_are_built_once() -> None:
    """Airflow asks for the applications several times and gets the same one."""
    plugin = PretrainArchivePlugin()

    assert plugin.fastapi_apps[0]["app"] is plugin.fastapi_apps[0]["app"]


def test_an_unreachable_ledger_is_said_in_words() -> None:
    """The page names what cannot be reached and what to do, with status 503."""
    error = LedgerUnavailableError("The ledger at db.example cannot be reached.", hint="Start the database.")
    answer = client_over(error).get("/runs")

    assert 503 == answer.status_code
    assert "db.example" in answer.text
    assert "Start the database." in answer.text


def test_a_fault_of_ours_tells_nothing_of_its_inside() -> None:
    """An unexpected error is a page with the strict policy, without the error's own words."""
    answer = client_over(RuntimeError("password=hunter2")).get("/runs")

    assert (500, POLICY) == (answer.status_code, answer.headers["content-security-policy"])
    assert "hunter2" not in answer.text
    assert "The page could not be made" in answer.text
