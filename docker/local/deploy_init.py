"""Prepare a deployment: databases, signing key, buckets, users. Every step may be repeated.

Reads the settings that every component has, and of its own ``BUCKETS`` (names, separated by commas) and
``PASSWORDS`` (JSON object of user and password, only for SimpleAuthManager).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import boto3  # type: ignore[import-untyped]
from botocore.exceptions import ClientError  # type: ignore[import-untyped]

MINE_ALREADY = {"BucketAlreadyOwnedByYou", "BucketAlreadyExists"}


def migrate() -> None:
    """Airflow's tables, and through the provider's database manager the ledger's."""
    subprocess.run(["airflow", "db", "migrate"], check=True)


def make_key() -> None:
    """The signing key where there is none, and its public half where everybody reads it."""
    public = os.environ["AIRFLOW__PRETRAIN_ARCHIVE__PUBLIC_KEYS"]
    subprocess.run(["pretrain-archive", "ledger", "key", "--public", public], check=True)


def make_buckets() -> None:
    """The buckets of store and anchors."""
    client = boto3.client("s3")
    for name in filter(None, os.environ.get("BUCKETS", "").split(",")):
        try:
            client.create_bucket(Bucket=name)
        except ClientError as error:
            if error.response["Error"]["Code"] not in MINE_ALREADY:
                raise
        print(f"bucket {name} is there", flush=True)


def write_passwords() -> None:
    """The users' passwords where SimpleAuthManager reads (and locks) them."""
    given = os.environ.get("PASSWORDS")
    if not given:
        return
    path = Path(os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"])
    path.write_text(json.dumps(json.loads(given)), encoding="utf-8")
    path.chmod(0o660)  # the API server, of the same group, opens it for writing to lock it
    print(f"users: {', '.join(json.loads(given))}", flush=True)


def main() -> int:
    """Run every step; the first that fails ends the job."""
    for step in (migrate, make_key, make_buckets, write_passwords):
        try:
            step()
        except subprocess.CalledProcessError as error:
            print(f"{step.__name__} failed: exit {error.returncode}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
