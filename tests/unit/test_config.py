"""Options are read from the environment first, and their defaults live in AIRFLOW_HOME."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pretrain_archive import config
from pretrain_archive.domain.errors import InputError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty AIRFLOW_HOME with a space in its name, and no option set."""
    import os

    for name in list(os.environ):
        if name.startswith("AIRFLOW"):
            monkeypatch.delenv(name)
    folder = tmp_path / "air flow"
    folder.mkdir()
    monkeypatch.setenv("AIRFLOW_HOME", str(folder))
    return folder


def set_option(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """Set an option by its environment variable."""
    monkeypatch.setenv(f"AIRFLOW__PRETRAIN_ARCHIVE__{name}", value)


def test_defaults_live_in_airflow_home(home: Path) -> None:
    """Without any option everything is below AIRFLOW_HOME."""
    own = home / "pretrain_archive"
    assert f"sqlite:///{own}/ledger.db" == config.database_url()
    assert own / "ledger.key" == config.signing_key()
    assert (own / "ledger.pub",) == config.public_keys()
    assert ((own / "anchors").as_uri(),) == config.anchors()
    assert (own / "store").as_uri() == config.store_url()
    assert own / "work" == config.work_folder()
    assert "en" == config.language()


@pytest.mark.parametrize(
    ("name", "value", "read", "expected"),
    [
        pytest.param(
            "DATABASE_URL",
            "postgresql://u:p%25@h/d",
            config.database_url,
            "postgresql://u:p%25@h/d",
            id="database_url",
        ),
        pytest.param("SIGNING_KEY", "/etc/key", config.signing_key, Path("/etc/key"), id="signing_key"),
        pytest.param(
            "PUBLIC_KEYS",
            "/a.pub, /b.pub,",
            config.public_keys,
            (Path("/a.pub"), Path("/b.pub")),
            id="public_keys",
        ),
        pytest.param(
            "ANCHORS", "file:///a, s3://b/c", config.anchors, ("file:///a", "s3://b/c"), id="anchors"
        ),
        pytest.param("STORE_URL", "s3://bucket/x", config.store_url, "s3://bucket/x", id="store_url"),
        pytest.param("WORK_FOLDER", "/scratch", config.work_folder, Path("/scratch"), id="work_folder"),
        pytest.param(
            "POLICIES_FOLDER", "/policies", config.policies_folder, Path("/policies"), id="policies_folder"
        ),
        pytest.param("LANGUAGE", "zh-CN", config.language, "zh", id="language"),
    ],
)
@pytest.mark.usefixtures("home")
def test_environment_wins(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, read: object, expected: object
) -> None:
    """Each option is read from its environment variable."""
    set_option(monkeypatch, name, value)
    assert callable(read)
    assert expected == read()


@pytest.mark.usefixtures("home")
def test_policies_are_beside_the_dags(monkeypatch: pytest.MonkeyPatch) -> None:
    """The policies' default follows Airflow's DAG folder."""
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", "/some/dags")
    assert Path("/some/dags/policies") == config.policies_folder()


@pytest.mark.usefixtures("home")
def test_connection_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Airflow Connection is used where no URL is set."""
    monkeypatch.setenv("AIRFLOW_CONN_PRETRAIN_ARCHIVE_DEFAULT", "postgresql://u@h/ledger")
    assert "postgresql://u@h/ledger" == config.database_url()
    set_option(monkeypatch, "DATABASE_URL", "sqlite:////x.db")
    assert "sqlite:////x.db" == config.database_url()


@pytest.mark.usefixtures("home")
def test_unknown_language_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A language that pages do not speak is an error of the option."""
    set_option(monkeypatch, "LANGUAGE", "fr")
    with pytest.raises(InputError, match="language"):
        config.language()


def test_airflow_is_not_imported_without_need(home: Path) -> None:
    """Reading defaults costs no import of Airflow, and neither does an option of its file."""
    program = (
        "import sys; from pretrain_archive import config as c; print(c.store_url(), 'airflow' in sys.modules)"
    )

    def read() -> list[str]:
        done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
        return done.stdout.split()[-2:]

    assert [(home / "pretrain_archive" / "store").as_uri(), "False"] == read()
    (home / "airflow.cfg").write_text("[pretrain_archive]\nstore_url = s3://from/file\n")
    assert ["s3://from/file", "False"] == read()


KEYS = {"aws_access_key_id": "AKIA1", "aws_secret_access_key": "a/b+c"}


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("aws://AKIA1:a%2Fb%2Bc@", KEYS, id="uri"),
        pytest.param(
            "aws://AKIA1:a%2Fb%2Bc@/?region_name=eu-west-1&endpoint_url=http%3A%2F%2Fminio%3A9000",
            KEYS | {"region_name": "eu-west-1", "endpoint_url": "http://minio:9000"},
            id="uri with an extra",
        ),
        pytest.param(
            "aws://AKIA1:a%2Fb%2Bc@/?__extra__=%7B%22region_name%22%3A+%22r%22%7D",
            KEYS | {"region_name": "r"},
            id="uri with a nested extra",
        ),
        pytest.param(
            '{"conn_type": "aws", "login": "AKIA1", "password": "a/b+c", "extra": {"aws_session_token": "t"}}',
            KEYS | {"aws_session_token": "t"},
            id="json",
        ),
        pytest.param(
            '{"conn_type": "aws", "login": "AKIA1", "password": "a/b+c", "extra": "{\\"region_name\\": \\"r\\"}"}',
            KEYS | {"region_name": "r"},
            id="json with its extra as text",
        ),
        pytest.param(
            '{"conn_type": "aws", "extra": {"service_config": {"s3": {"endpoint_url": "https://ceph"}}}}',
            {"endpoint_url": "https://ceph"},
            id="only a service, keys by boto3's chain",
        ),
    ],
)
def test_s3_connection(monkeypatch: pytest.MonkeyPatch, text: str, expected: dict[str, str]) -> None:
    """A connection in the environment gives endpoint, region and keys, in each form that Airflow reads."""
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", text)

    assert expected == config.s3_connection("lake")


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("postgres://u:geheim@h/db", "is not of type aws", id="type"),
        pytest.param("aws://AKIA1@", "a login without a password", id="half"),
        pytest.param("aws://:geheim@", "a login without a password", id="other half"),
        pytest.param("aws://A:geheim@/?role_arn=arn", "role_arn, which is not supported", id="role"),
        pytest.param(
            "aws://A:geheim@/?endpoint_url=http%3A%2F%2Fu%3Ageheim%40h", "credentials in its", id="endpoint"
        ),
        pytest.param("aws://A:geheim@/?endpoint_url=minio", "not http:// or https://", id="no scheme"),
        pytest.param(
            '{"conn_type": "aws", "password": "geheim", "extra": ', "cannot be read", id="broken JSON"
        ),
        pytest.param('{"conn_type": "aws", "extra": ["geheim"]}', "cannot be read", id="extra is a list"),
        pytest.param(
            '{"conn_type": "aws", "extra": {"endpoint_url": "http://[geheim"}}',
            "cannot be read",
            id="no address",
        ),
        pytest.param(
            '{"conn_type": "aws", "extra": {"endpoint_url": {"geheim": 1}}}',
            "cannot be read",
            id="not a text",
        ),
        pytest.param('{"conn_type": "aws", "extra": {"region_name": 5}}', "cannot be read", id="a number"),
        pytest.param(
            '{"conn_type": "aws", "extra": {"aws_session_token": "geheim\\nx"}}',
            "cannot be read",
            id="line break",
        ),
    ],
)
def test_a_wrong_s3_connection(monkeypatch: pytest.MonkeyPatch, text: str, problem: str) -> None:
    """The connection is named and what is wrong with it, and nothing that it holds."""
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", text)

    with pytest.raises(InputError, match=problem) as caught:
        config.s3_connection("lake")

    assert "'lake'" in str(caught.value)
    assert "geheim" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_an_s3_connection_from_airflow(home: Path) -> None:
    """What is not in the environment comes from Airflow's secrets; an unknown one is named with the way out."""
    secrets = home / "connections.json"
    secrets.write_text('{"lake": {"conn_type": "aws", "login": "AKIA1", "password": "a/b+c"}}')
    program = (
        "from pretrain_archive import config as c\n"
        "print(sorted(c.s3_connection('lake').items()))\n"
        "try: c.s3_connection('sea')\n"
        "except Exception as error: print(error)"
    )
    backend = "airflow.secrets.local_filesystem.LocalFilesystemBackend"
    environment = {
        "PATH": "/usr/bin:/bin", "AIRFLOW_HOME": str(home), "AIRFLOW__SECRETS__BACKEND": backend,
        "AIRFLOW__SECRETS__BACKEND_KWARGS": f'{{"connections_file_path": "{secrets}"}}',
    }  # fmt: skip

    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, env=environment
    )

    told = done.stdout.splitlines()[-2:]
    assert str(sorted(KEYS.items())) == told[0]
    assert "'sea'" in told[1]
    assert "AIRFLOW_CONN_SEA" in told[1]


@pytest.mark.usefixtures("home")
def test_nothing_is_signed_or_registered_by_default() -> None:
    """Without options there is no key and no registry."""
    assert (None, None, "") == (
        config.model_signing_key(), config.model_signing_public_key(), config.mlflow_url(),
    )  # fmt: skip


def test_the_public_model_key_lies_beside_the_private_one(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it is there; a named one wins."""
    set_option(monkeypatch, "MODEL_SIGNING_KEY", str(home / "model.key"))
    assert config.model_signing_public_key() is None
    (home / "model.pub").touch()
    assert home / "model.pub" == config.model_signing_public_key()
    set_option(monkeypatch, "MODEL_SIGNING_PUBLIC_KEY", "/etc/other.pub")
    assert Path("/etc/other.pub") == config.model_signing_public_key()


@pytest.mark.usefixtures("home")
def test_the_registry_s_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its last slash; credentials come from MLflow's own variables."""
    set_option(monkeypatch, "MLFLOW_URL", "https://registry.example/mlflow/")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "t\n")
    monkeypatch.delenv("MLFLOW_TRACKING_USERNAME", raising=False)
    monkeypatch.delenv("MLFLOW_TRACKING_PASSWORD", raising=False)

    assert "https://registry.example/mlflow" == config.mlflow_url()
    assert {"token": "t", "user": "", "password": ""} == config.mlflow_access()


@pytest.mark.parametrize(
    "url",
    [
        "file:///x", "registry:5000", "https://u:hunter2@h", "https://h?token=hunter2", "http://[::1", "http://h:x",
        "https://", "https://u:hunter2@h:x",
    ],
)  # fmt: skip
def test_a_registry_address_with_credentials_is_refused(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Or of another kind; the message repeats no password."""
    set_option(monkeypatch, "MLFLOW_URL", url)

    with pytest.raises(InputError, match="mlflow_url") as raised:
        config.mlflow_url()
    assert "hunter2" not in f"{raised.value} {raised.value.hint}"
