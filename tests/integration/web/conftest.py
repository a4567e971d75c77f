"""One API server below a base path, over a ledger with runs of two Dags and names of every kind."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

# The walk over all routes imports the application, and with it Airflow, into this process.
os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="airflow-home-"))

from tests.integration.web.api_server import ApiServer, ledger_in, store_in
from tests.unit.web.gated_run import gated_run

from pretrain_archive.ledger.sql import SqlLedger

ODD_RUN = "odd%2F +/\n<b>\"'é"
EVIL = "\"><script>alert(1)</script><img src=x onerror=alert(1)>'{{7*7}}"


@dataclass
class Seeded:
    """A running server with the ids of what was seeded."""

    server: ApiServer
    ledger: SqlLedger
    whole: str
    waiting: str
    odd: str
    evil: str
    other: str


@pytest.fixture(scope="session")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seeded]:
    """The server, started once; nothing that its tests do changes the ledger."""
    home = tmp_path_factory.mktemp("api-server")
    ledger, store = ledger_in(home), store_in(home)
    runs = {
        "whole": gated_run(ledger, store, home / "w1", number=1),
        "waiting": gated_run(ledger, store, home / "w2", number=2),
        "odd": gated_run(ledger, store, home / "w3", number=3, dag_run_id=ODD_RUN),
        "evil": gated_run(ledger, store, home / "w4", number=4, objective=EVIL, dag_run_id=EVIL),
        "other": gated_run(
            ledger, store, home / "w5", number=5, dag_id="other_dag", objective="Another team's"
        ),
    }
    runs["whole"].whole()
    runs["whole"].package()
    for name in ("waiting", "odd", "other"):
        runs[name].waiting_at_prepare()
    runs["evil"].waiting_at_prepare()
    runs["evil"].answer("prepare", reason=EVIL, person=EVIL)
    runs["evil"].answer("prepare", reason=EVIL)
    server = ApiServer(home=home, base="/af").start()
    try:
        yield Seeded(server=server, ledger=ledger, **{name: run.uid for name, run in runs.items()})
    finally:
        server.stop()
