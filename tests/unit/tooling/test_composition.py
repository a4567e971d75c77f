"""What docker/compose.yaml promises: separate services, three users, one holder of the key, make up's settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from private_airflow import USERS, archive_options, common_options

COMPOSE: dict[str, Any] = yaml.safe_load(
    (Path(__file__).resolve().parents[3] / "docker" / "compose.yaml").read_text(encoding="utf-8")
)
SERVICES: dict[str, Any] = COMPOSE["services"]
AIRFLOW = ("api-server", "scheduler", "dag-processor", "triggerer")
KEY = "/var/lib/pretrain-archive/signing-key"


def test_each_component_is_a_service_of_its_own() -> None:
    """PostgreSQL, object store, the four components, the signer and the init job."""
    assert {"postgres", "objects", "init", "ledger-signer", *AIRFLOW} == set(SERVICES)
    for name in AIRFLOW:
        assert ["airflow", name] == SERVICES[name]["command"]


def test_only_the_signer_and_the_init_job_see_the_signing_key() -> None:
    """The volume of the private key is mounted nowhere else, and the signer cannot change it."""
    holders = {
        name: entry
        for name, service in SERVICES.items()
        for entry in service.get("volumes", [])
        if entry.split(":")[1] == KEY
    }
    assert {"init", "ledger-signer"} == set(holders)
    assert holders["ledger-signer"].endswith(":ro")
    anchors = {n: v for n, s in SERVICES.items() for v in s.get("volumes", []) if v.startswith("anchors:")}
    assert ["ledger-signer"] == [name for name, entry in anchors.items() if not entry.endswith(":ro")]


@pytest.mark.parametrize("service", AIRFLOW)
def test_the_settings_are_those_of_make_up(service: str) -> None:
    """Every setting of the local installation stands in the composition; those of no one machine are equal."""
    local = {
        **common_options(url="http://127.0.0.1:1", dags_folder=Path("/d"), users=USERS, passwords=Path("/p")),
        **archive_options(Path("/h"), dags_folder=Path("/d")),
    }
    ports = {"AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT", "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT"}
    settings = SERVICES[service]["environment"]

    assert set() == set(local) - set(settings) - ports
    for name in (
        "AIRFLOW__CORE__PARALLELISM",
        "AIRFLOW__CORE__LOAD_EXAMPLES",
        "AIRFLOW__CORE__AUTH_MANAGER",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS",
        "AIRFLOW__API__WORKERS",
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL",
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL",
    ):
        assert local[name] == settings[name], name


def test_components_write_to_the_ledger_with_the_lesser_role() -> None:
    """Only the init job connects as the owner of the ledger's tables."""
    name = "AIRFLOW__PRETRAIN_ARCHIVE__DATABASE_URL"
    owners = [s for s, d in SERVICES.items() if "ledger_owner" in str(d.get("environment", {}).get(name))]
    assert ["init"] == owners


def test_no_secret_stands_in_the_file() -> None:
    """Every password and key comes from the environment and is required."""
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            secret = name.endswith(("PASSWORD", "_KEY", "SECRET", "_USER", "FERNET_KEY"))
            if secret and not str(value).startswith("/"):
                assert ":?" in value, name


def test_images_are_pinned() -> None:
    """No image floats."""
    for name, service in SERVICES.items():
        tag = service["image"].partition(":")[2]
        assert tag, name
        assert tag != "latest", name


def test_nothing_but_the_pages_is_published() -> None:
    """Databases and object store are reached from inside only."""
    assert {"api-server"} == {name for name, service in SERVICES.items() if service.get("ports")}
