"""Write docker/.env with random secrets for docker/compose.yaml; known values are kept. Standard library only."""

from __future__ import annotations

import base64
import os
import secrets
from pathlib import Path

FILE = Path(__file__).resolve().parents[1] / ".env"
SECRETS = (
    "POSTGRES_PASSWORD",
    "AIRFLOW_DB_PASSWORD",
    "LEDGER_OWNER_PASSWORD",
    "LEDGER_WRITER_PASSWORD",
    "API_SECRET_KEY",
    "JWT_SECRET",
    "S3_ACCESS_KEY",
    "S3_SECRET_KEY",
    "ALICE_PASSWORD",
    "BOB_PASSWORD",
    "CAROL_PASSWORD",
    "ADMIN_PASSWORD",
)
"""All are letters and digits: they stand in URLs, SQL and JSON."""


def values(known: dict[str, str]) -> dict[str, str]:
    """Every secret, ``known`` ones unchanged."""
    made = {name: known.get(name) or secrets.token_hex(16) for name in SECRETS}
    fernet = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
    return {**known, **made, "FERNET_KEY": known.get("FERNET_KEY") or fernet}


def main() -> None:
    """Write the file, readable by its owner only."""
    lines = FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else []
    known = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    descriptor = os.open(FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.writelines(f"{name}={value}\n" for name, value in values(known).items())
    print(f"{FILE}: alice, bob, carol and admin have the passwords …_PASSWORD that stand there")


if __name__ == "__main__":
    main()
