"""docker/compose.yaml without containers: its services' commands and settings as processes of this machine.

Host names become local addresses and container paths become folders, per service as its volumes say: what is
not mounted into a service is not there for it.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import processes
import yaml
from compose_env import values
from private_airflow import clean_environment
from waiting import tail

ROOT = Path(__file__).resolve().parents[3]
COMPOSE = ROOT / "docker" / "compose.yaml"
VARIABLE = re.compile(r"\$(?:\$|\{([A-Z0-9_]+)(?:(:[-?])([^}]*))?\})")


def interpolate(text: str, variables: dict[str, str]) -> str:
    """Fill in ``${NAME}``, ``${NAME:-default}`` and ``${NAME:?message}`` as compose does; ``$$`` is a dollar."""

    def fill(found: re.Match[str]) -> str:
        name, mode, rest = found.groups()
        if name is None:
            return "$"
        if name in variables:
            return variables[name]
        if mode == ":-":
            return rest or ""
        raise KeyError(name)

    return VARIABLE.sub(fill, text)


@dataclass
class Deployment:
    """The composition in ``folder``, with PostgreSQL and an S3 server that run already."""

    folder: Path
    database_port: int
    objects_url: str
    port: int = field(default_factory=processes.free_port)
    secrets: dict[str, str] = field(default_factory=lambda: values({}))
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.url = f"http://127.0.0.1:{self.port}"
        text = interpolate(COMPOSE.read_text(encoding="utf-8"), {**self.secrets, "BASE_URL": self.url})
        self.document: dict[str, Any] = yaml.safe_load(text)

    @property
    def passwords(self) -> dict[str, str]:
        """The users' passwords."""
        return {name: self.secrets[f"{name.upper()}_PASSWORD"] for name in ("alice", "bob", "carol", "admin")}

    def log(self, service: str) -> Path:
        """Where a service writes."""
        return self.folder / f"{service}.log"

    def volume(self, name: str) -> Path:
        """The folder that stands for a named volume."""
        path = self.folder / "volumes" / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def places(self, service: str) -> dict[str, str]:
        """Container path to local path, for one service."""
        own = self.folder / "services" / service
        mounts = [entry.split(":") for entry in self.document["services"][service].get("volumes", [])]
        found = {target: str(self.volume(name)) for name, target, *_ in mounts}
        for path in ("/opt/airflow", "/var/lib/pretrain-archive"):
            local = own / path.lstrip("/")
            local.mkdir(parents=True, exist_ok=True)
            found[path] = str(local)
        return found | {"/opt/pretrain-archive": str(ROOT)}

    def local(self, service: str, text: str) -> str:
        """A value of the composition as this machine understands it."""
        text = text.replace("postgres:5432", f"127.0.0.1:{self.database_port}")
        text = text.replace("http://objects:9000", self.objects_url).replace(
            "http://api-server:8080", self.url
        )
        for path, place in sorted(self.places(service).items(), key=lambda pair: -len(pair[0])):
            text = text.replace(path, place)
        return text

    def environment(self, service: str) -> dict[str, str]:
        """The environment of a service: what the composition says, and what the image and one host need."""
        settings = self.document["services"][service]["environment"]
        made = {name: self.local(service, str(value)) for name, value in settings.items()}
        made["AIRFLOW_HOME"] = self.local(service, "/opt/airflow")
        # Containers have addresses of their own; here every listener needs a port of its own.
        made |= {"AIRFLOW__API__PORT": str(self.port), "AIRFLOW__API__HOST": "127.0.0.1"}
        made["AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT"] = str(processes.free_port())
        made["AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT"] = str(processes.free_port())
        base = clean_environment()
        base["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), base["PATH"]])
        return {**base, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1", **made}

    def command(self, service: str) -> list[str]:
        """The command of a service."""
        return [self.local(service, part) for part in self.document["services"][service]["command"]]

    def create_databases(self, programs: Path, superuser: str) -> None:
        """Run the script that the PostgreSQL image runs on its first start."""
        script = self.document["configs"]["databases"]["content"].replace(
            "-U postgres", f"-U {shlex.quote(superuser)}"
        )
        environment = {
            **self.secrets,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PGHOST": "127.0.0.1",
            "PGPORT": str(self.database_port),
            "PGDATABASE": "postgres",
        }
        subprocess.run(["bash", "-c", script], env=environment, check=True, capture_output=True, text=True)

    def run(self, service: str) -> None:
        """Run a service that ends by itself."""
        with self.log(service).open("wb") as log:
            done = subprocess.run(
                self.command(service),
                env=self.environment(service),
                cwd=self.local(service, "/opt/airflow"),
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=300,
                check=False,
            )
        assert 0 == done.returncode, tail(self.log(service))

    def start(self, service: str) -> None:
        """Start a service that stays."""
        with self.log(service).open("wb") as log:
            self.running[service] = subprocess.Popen(
                self.command(service),
                env=self.environment(service),
                cwd=self.local(service, "/opt/airflow"),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def stop(self) -> list[str]:
        """End every service with all of its processes; return what is left."""
        left = []
        for service, process in reversed(self.running.items()):
            left += processes.end(process.pid, Path(self.local(service, "/opt/airflow")))
            process.wait(timeout=10)
        return left
