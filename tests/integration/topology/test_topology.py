"""The team's deployment runs the reference DAG to its package: same commands, same settings, no containers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import psycopg
import pytest
from airflow_client import AirflowClient, wait_for
from demo import CONF, DAG, train
from progress import Progress
from tests.integration.topology.deployment import ROOT, Deployment
from tests.support.postgres import Server, binaries
from waiting import tail

STAYING = ("api-server", "ledger-signer", "dag-processor", "scheduler", "triggerer")


@pytest.fixture(scope="module")
def deployment(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: Server, s3_endpoint: str
) -> Iterator[Deployment]:
    """Everything that compose.yaml starts, healthy."""
    folder = tmp_path_factory.mktemp("deployment")
    made = Deployment(folder=folder, database_port=postgres_server.port, objects_url=s3_endpoint)
    programs = binaries()
    assert programs is not None
    made.create_databases(programs, postgres_server.user)
    try:
        made.run("init")
        made.run("init")  # every step may be repeated
        for service in STAYING:
            made.start(service)
        client = airflow(made)
        wait_for("a healthy deployment", lambda: check(made) and client.healthy(), timeout=240)
        yield made
    finally:
        left = made.stop()
    assert [] == left


def check(deployment: Deployment) -> bool:
    """True while every service runs; a service that ended fails the test with the end of its log."""
    for service, process in deployment.running.items():
        assert process.poll() is None, f"{service} ended:\n{tail(deployment.log(service))}"
    return True


def airflow(deployment: Deployment) -> AirflowClient:
    """A client with the users of the deployment."""
    return AirflowClient(
        deployment.url, passwords=deployment.passwords, scheduler_log=deployment.log("scheduler")
    )


@pytest.fixture(scope="module")
def package(deployment: Deployment) -> Path:
    """The package of a short run that alice submitted and bob approved."""
    configuration = json.loads((ROOT / "docker" / "trainer" / "demo.json").read_text())
    configuration.pop("checkpoint_every")
    configuration["optimisation"]["steps"] = 40
    configuration["evaluate_bytes"] = configuration["report_bytes"] = 4096
    # A model of forty steps beats no baseline; without any rule nothing would be accepted.
    rules = {"must_beat_baselines": False, "acceptance_limit": 9.0}
    conf = {**CONF, **rules, "configuration": configuration, "checkpoint_every": 20}
    conf["objective"] = "Show that the deployment for a team carries the whole line"
    return train(airflow(deployment), Progress(), conf)


@pytest.mark.airflow
def test_the_run_ends_in_a_package_that_verifies(deployment: Deployment, package: Path) -> None:
    """A stranger's Python verifies the package with the public key that the deployment hands out."""
    key = deployment.volume("public-key") / "ledger.pub"
    done = subprocess.run(
        [sys.executable, "-I", "-S", package / "verify.py", "--json", "--key", key, package],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (0, "verified") == (done.returncode, json.loads(done.stdout)["verdict"]), done.stdout


@pytest.mark.airflow
def test_only_the_signer_holds_the_key(deployment: Deployment, package: Path) -> None:
    """No component but the signer finds a signing key, and the run was packaged all the same."""
    assert package.is_dir()
    name = "AIRFLOW__PRETRAIN_ARCHIVE__SIGNING_KEY"
    holders = [s for s in STAYING if Path(deployment.environment(s)[name]).exists()]
    assert ["ledger-signer"] == holders


@pytest.mark.airflow
def test_evidence_is_in_postgresql_and_in_the_object_store(deployment: Deployment, package: Path) -> None:
    """Records are in the ledger's own database, snapshot and anchors in the S3 buckets."""
    assert package.is_dir()
    url = deployment.environment("scheduler")["AIRFLOW__PRETRAIN_ARCHIVE__DATABASE_URL"]
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT count(*) FROM pretrain_archive_record").fetchone()
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("DELETE FROM pretrain_archive_record")
    assert found is not None
    assert found[0] > 20
    settings = deployment.environment("scheduler")
    client = boto3.client(
        "s3",
        endpoint_url=settings["AWS_ENDPOINT_URL_S3"],
        aws_access_key_id=settings["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=settings["AWS_SECRET_ACCESS_KEY"],
        region_name=settings["AWS_DEFAULT_REGION"],
    )
    for bucket in ("pretrain-archive", "pretrain-archive-anchors"):
        assert client.list_objects_v2(Bucket=bucket).get("KeyCount", 0) > 0, bucket


@pytest.mark.airflow
def test_the_log_verifies_against_both_anchors(deployment: Deployment, package: Path) -> None:
    """`ledger verify` in the signer's place finds the log verified by the file and the object anchor."""
    assert package.is_dir()
    done = subprocess.run(
        ["pretrain-archive", "ledger", "verify", "--json"],
        env=deployment.environment("ledger-signer"),
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)
    assert ("verified", [], 2) == (found["verdict"], found["findings"], len(found["anchors"])), done.stderr


@pytest.mark.airflow
def test_carol_reads_and_cannot_submit(deployment: Deployment, package: Path) -> None:
    """The auditor sees the run and may not trigger one."""
    assert package.is_dir()
    client = airflow(deployment)
    assert 200 == client.request("carol", "GET", f"/api/v2/dags/{DAG}/dagRuns").status_code
    body = {"logical_date": None, "conf": {}}
    assert 403 == client.request("carol", "POST", f"/api/v2/dags/{DAG}/dagRuns", body).status_code
