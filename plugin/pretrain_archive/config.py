"""The options of the section ``[pretrain_archive]``, one typed function each.

Each is read when it is asked for: from ``AIRFLOW__PRETRAIN_ARCHIVE__NAME``, else from Airflow's configuration
where Airflow is loaded or configured, else the default. A set variable therefore spares the import of Airflow.
"""

from __future__ import annotations

import configparser
import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from pretrain_archive.domain.errors import InputError

SECTION = "pretrain_archive"
CONNECTION_ID = "pretrain_archive_default"
LANGUAGES = ("en", "zh")


def airflow_home() -> Path:
    """The folder that Airflow calls its home (environment variable ``AIRFLOW_HOME``)."""
    return Path(os.environ.get("AIRFLOW_HOME") or Path("~/airflow")).expanduser().absolute()


def database_url() -> str:
    """``[pretrain_archive] database_url``: where the ledger is.

    Else the Airflow Connection ``pretrain_archive_default`` if its URI is in the environment, else a SQLite
    file in ``AIRFLOW_HOME``.
    """
    url = _option("database_url") or _connection_url()
    return url or f"sqlite:///{_folder('ledger.db')}"


def signing_key() -> Path:
    """``[pretrain_archive] signing_key``: the file of the private key that signs checkpoints."""
    return _path("signing_key", _folder("ledger.key"))


def public_keys() -> tuple[Path, ...]:
    """``[pretrain_archive] public_keys``: files of the keys by which checkpoints are believed.

    Separated by commas; default the public half beside :func:`signing_key`.
    """
    listed = _listed("public_keys")
    return tuple(Path(path).expanduser() for path in listed) or (signing_key().with_suffix(".pub"),)


def model_signing_key() -> Path | None:
    """``[pretrain_archive] model_signing_key``: PEM file of the key that signs released files; None signs nothing."""
    given = _option("model_signing_key")
    return Path(given).expanduser() if given else None


def model_signing_public_key() -> Path | None:
    """``[pretrain_archive] model_signing_public_key``: the key by which ``release verify`` believes a signature.

    Default: the file beside :func:`model_signing_key` with the suffix ``.pub``, if it is there.
    """
    given, key = _option("model_signing_public_key"), model_signing_key()
    if given:
        return Path(given).expanduser()
    beside = key.with_suffix(".pub") if key else None
    return beside if beside and beside.exists() else None


def mlflow_url() -> str:
    """``[pretrain_archive] mlflow_url``: the MLflow server that releases are registered in; empty if there is none.

    ``InputError`` repeats no password: credentials come from MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and
    MLFLOW_TRACKING_PASSWORD.
    """
    url = _option("mlflow_url").strip()
    try:
        parts = urlsplit(url)
        told, plain = parts.hostname, parts.port is None or parts.port > 0
    except ValueError:
        told, plain = "an address that cannot be read", False
    if (url and not (plain and told and parts.scheme in {"http", "https"})) or "@" in url or "?" in url:
        raise InputError(
            "[pretrain_archive] mlflow_url", told, "is no http:// or https:// address without credentials",
            hint="Write https://HOST; credentials go into MLFLOW_TRACKING_TOKEN.",
        )  # fmt: skip
    return url.rstrip("/")


def mlflow_access() -> dict[str, str]:
    """Credentials for :func:`mlflow_url` by MLflow's own variables: token, user, password; empty ones are unset.

    Space around them is none of them: a token from a file ends with a line break.
    """
    names = {"token": "TOKEN", "user": "USERNAME", "password": "PASSWORD"}
    return {key: os.environ.get(f"MLFLOW_TRACKING_{name}", "").strip() for key, name in names.items()}


def anchors() -> tuple[str, ...]:
    """``[pretrain_archive] anchors``: URLs (``file://``, ``s3://``, ``git+…``), separated by commas."""
    return _listed("anchors") or (_folder("anchors").as_uri(),)


def store_url() -> str:
    """``[pretrain_archive] store_url``: where snapshots, reports, checkpoints and packages are kept."""
    return _option("store_url") or _folder("store").as_uri()


def work_folder() -> Path:
    """``[pretrain_archive] work_folder``: local scratch space of tasks."""
    return _path("work_folder", _folder("work"))


def checkpoint_stamps_folder() -> Path:
    """Beside the ledger, where no training program has to write: the work folder is shared with its pods."""
    return _folder("checkpoint-stamps")


def policies_folder() -> Path:
    """``[pretrain_archive] policies_folder``: one policy file per project; default ``policies`` beside the DAGs."""
    given = _option("policies_folder")
    if given:
        return Path(given).expanduser()
    dags = os.environ.get("AIRFLOW__CORE__DAGS_FOLDER") or _from_airflow("core", "dags_folder")
    return (Path(dags).expanduser() if dags else airflow_home() / "dags") / "policies"


def language() -> str:
    """``[pretrain_archive] language``: ``en`` or ``zh``, for texts that have no reader's language."""
    found = (_option("language") or "en").lower().split("-")[0].split("_")[0]
    if found not in LANGUAGES:
        raise InputError("[pretrain_archive] language", found, f"must be one of {', '.join(LANGUAGES)}")
    return found


def s3_connection(connection_id: str) -> dict[str, str]:
    """Endpoint, region and keys, by boto3's names, of an Airflow Connection of type ``aws``.

    Login and password are the keys; the extra may hold ``endpoint_url``, ``region_name`` and
    ``aws_session_token``. What it leaves out comes from boto3's own chain. Inside a task the Connection comes through
    the task's own channel, elsewhere from the environment or Airflow's secrets. ``InputError`` repeats no value.
    """
    text = os.environ.get(f"AIRFLOW_CONN_{connection_id}".upper(), "")
    try:
        found = _read_connection(text) if text else _airflow_connection(connection_id)
        extra: dict[str, Any] = (
            found["extra"] if isinstance(found["extra"], dict) else json.loads(found["extra"])
        )
        options = _s3_options(found, extra)
        service = urlsplit(options["endpoint_url"])
    except (ValueError, KeyError, TypeError, AttributeError):
        # Without the cause: its text could hold the connection, and so its password.
        raise InputError("connection", connection_id, "cannot be read", hint="Write it as JSON.") from None
    half = bool(options["aws_access_key_id"]) != bool(options["aws_secret_access_key"])
    odd = bool(options["endpoint_url"]) and service.scheme not in {"http", "https"}
    foreign = sorted({"role_arn", "profile_name", "assume_role_method"} & extra.keys())
    problem = (
        ("is not of type aws" if found["conn_type"] != "aws" else "")
        or ("has a login without a password, or a password without a login" if half else "")
        or (f"asks for {foreign[0]}, which is not supported" if foreign else "")
        or ("has credentials in its endpoint_url" if "@" in service.netloc else "")
        or ("has an endpoint_url that is not http:// or https://" if odd else "")
    )
    if problem:
        raise InputError("connection", connection_id, problem, hint="Correct the connection in Airflow.")
    return {name: value for name, value in options.items() if value}


def _s3_options(found: dict[str, Any], extra: dict[str, Any]) -> dict[str, str]:
    service = extra.get("service_config", {}).get("s3", {})
    options = {
        "aws_access_key_id": found["login"] or extra.get("aws_access_key_id", ""),
        "aws_secret_access_key": found["password"] or extra.get("aws_secret_access_key", ""),
        "aws_session_token": extra.get("aws_session_token", ""),
        "region_name": extra.get("region_name", ""),
        "endpoint_url": service.get("endpoint_url") or extra.get("endpoint_url", ""),
    }
    if not all(isinstance(value, str) and value.isprintable() for value in options.values()):
        raise ValueError("an option is no text, or holds a character that no request can carry")
    return options


def _read_connection(text: str) -> dict[str, Any]:
    """A Connection as Airflow writes it in the environment: JSON, or a URI with the extra in its query."""
    if text.lstrip().startswith("{"):
        fields = json.loads(text)
        found = {name: fields.get(name) or "" for name in ("conn_type", "login", "password")}
        return found | {"extra": fields.get("extra") or {}}
    parts = urlsplit(text)
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    extra: dict[str, Any] = dict(parse_qsl(parts.query))
    extra = json.loads(extra["__extra__"]) if "__extra__" in extra else extra
    return {"conn_type": parts.scheme, "login": unquote(user), "password": unquote(password), "extra": extra}


def _airflow_connection(connection_id: str) -> dict[str, Any]:
    """A Connection from Airflow; ``InputError`` if it has none of this id."""
    try:
        if "airflow.sdk.execution_time.task_runner" in sys.modules:
            from airflow.sdk import Connection  # noqa: PLC0415 - heavy, and often not needed

            found = Connection.get(connection_id)
        else:
            from airflow.models.connection import Connection as Stored  # noqa: PLC0415 - see above

            found = Stored.get_connection_from_secrets(connection_id)
    except Exception as error:  # noqa: BLE001 - of many kinds: unknown id, no database, a failing backend
        raise InputError(
            "connection", connection_id, f"cannot be had from Airflow ({type(error).__name__})",
            hint=f"Define it in Airflow, or set AIRFLOW_CONN_{connection_id.upper()}.",
        ) from None  # fmt: skip
    login, password = found.login or "", found.password or ""
    return {"conn_type": found.conn_type, "login": login, "password": password, "extra": found.extra or "{}"}


def _folder(name: str) -> Path:
    return airflow_home() / "pretrain_archive" / name


def _path(name: str, default: Path) -> Path:
    given = _option(name)
    return Path(given).expanduser() if given else default


def _listed(name: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in (_option(name) or "").split(",") if part.strip())


def _option(name: str) -> str:
    """The value of an option, empty if it is not set."""
    variable = os.environ.get(f"AIRFLOW__{SECTION}__{name}".upper())
    return variable if variable is not None else _from_airflow(SECTION, name)


def _from_airflow(section: str, name: str) -> str:
    """The value in Airflow's configuration.

    Where Airflow is not loaded, its file is read without it: importing Airflow takes seconds and lets it write
    to the standard output of a command. Only a value that Airflow has to fetch (``_cmd``, ``_secret``) needs it.
    """
    if "airflow.configuration" not in sys.modules:
        written = _section(Path(os.environ.get("AIRFLOW_CONFIG") or airflow_home() / "airflow.cfg"), section)
        if f"{name}_cmd" not in written and f"{name}_secret" not in written:
            return written.get(name, "")
    try:
        from airflow.configuration import conf  # noqa: PLC0415 - heavy, and often not needed
    except ImportError:
        return ""
    return str(conf.get(section, name, fallback="") or "")


def _section(file: Path, section: str) -> dict[str, str]:
    """What a section of ``airflow.cfg`` says, with environment variables expanded as Airflow does."""
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(file.read_text(encoding="utf-8"), source=str(file))
    except FileNotFoundError:
        return {}
    except (configparser.Error, OSError, UnicodeDecodeError) as error:
        raise InputError("AIRFLOW_CONFIG", str(file), f"cannot be read: {error}") from error
    if not parser.has_section(section):
        return {}
    return {key: os.path.expandvars(value or "").replace("%%", "%") for key, value in parser.items(section)}


def _connection_url() -> str:
    """The ledger's Connection as a database URL, empty if there is none.

    Inside a task the Connection comes from Airflow's secrets through the task's own channel; elsewhere
    only from the environment.
    """
    uri = os.environ.get(f"AIRFLOW_CONN_{CONNECTION_ID}".upper(), "")
    if uri.startswith(("postgres://", "postgresql://", "sqlite://")):
        return uri
    if not uri and "airflow.sdk.execution_time.task_runner" not in sys.modules:
        return ""
    from airflow.sdk import Connection  # noqa: PLC0415
    from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError  # noqa: PLC0415

    try:
        found = str(Connection.get(CONNECTION_ID).get_uri())
    except (AirflowNotFoundException, AirflowRuntimeError):
        return ""
    return found
