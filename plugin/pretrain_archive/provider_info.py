"""What Airflow is told of this provider: its ledger's tables, its settings, its links."""

from __future__ import annotations

from typing import Any

from pretrain_archive import __version__

_OPTIONS: dict[str, tuple[str, str | None]] = {
    "database_url": ("Where the ledger is: a SQLAlchemy URL. Default: SQLite in AIRFLOW_HOME.", None),
    "signing_key": ("File of the private key that signs checkpoints of the log. Made on first use.", None),
    "public_keys": ("Files of the public keys by which checkpoints are believed, separated by commas.", None),
    "anchors": (
        "Where signed checkpoints are kept outside the database: file://, s3:// or git+URL, by commas.",
        None,
    ),
    "store_url": ("Where snapshots, reports and packages are kept: file:// or s3://.", None),
    "work_folder": ("Local folder for runs: checkpoints, logs, packages.", None),
    "policies_folder": ("Folder with one policy file per project. Default: policies beside the DAGs.", None),
    "model_signing_key": (
        "PEM file of the private key (NIST curve) that signs released files; without it releases are unsigned.",
        None,
    ),
    "model_signing_public_key": (
        "PEM file of the public key by which release verify believes; default: beside the private one, .pub.",
        None,
    ),
    "mlflow_url": (
        "Address of the MLflow tracking server that releases are registered in; empty: none.",
        None,
    ),
    "language": ("Language of texts without a reader's own: en or zh.", "en"),
}


def get_provider_info() -> dict[str, Any]:
    """The provider's description, in the format of Airflow's provider info schema."""
    return {
        "package-name": "pretrain-archive",
        "name": "Pretrain archive",
        "description": "Makes an LLM pre-training run rebuildable as a decision.",
        "versions": [__version__],
        "db-managers": ["pretrain_archive.ledger.db_manager.LedgerDBManager"],
        "extra-links": [
            "pretrain_archive_operators.links.DossierLink",
            "pretrain_archive_operators.links.GateLink",
            "pretrain_archive_operators.links.QualityLink",
        ],
        "config": {
            "pretrain_archive": {
                "description": "Settings of pretrain-archive.",
                "options": {
                    name: {
                        "description": text,
                        "version_added": __version__,
                        "type": "string",
                        "example": None,
                        "default": default,
                    }
                    for name, (text, default) in _OPTIONS.items()
                },
            }
        },
    }
