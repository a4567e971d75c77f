"""The composition root: ledger, store and policies from the settings of ``[pretrain_archive]``.

Everything heavy is imported when it is first built.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from pretrain_archive import config
from pretrain_archive.domain.errors import InputError, PolicyError
from pretrain_archive.domain.policy import LoadedPolicy, load_policy

if TYPE_CHECKING:
    from pretrain_archive.ledger.anchors import Anchor
    from pretrain_archive.ledger.sql import SqlLedger
    from pretrain_archive.retention.deletion import Finder
    from pretrain_archive.services.cleanup import Room
    from pretrain_archive.services.closing import Shelf
    from pretrain_archive.services.opening import Host
    from pretrain_archive.services.releasing import Releasing
    from pretrain_archive.storage.port import ObjectStore


log = logging.getLogger(__name__)


def policy(project: str) -> LoadedPolicy:
    """The policy of ``project`` as its file stands now."""
    return load_policy(config.policies_folder(), project)


def open_store() -> ObjectStore:
    """The object store; endpoint and credentials of S3 come from boto3's own chain."""
    from pretrain_archive.storage import factory  # noqa: PLC0415

    return factory.open_store(config.store_url())


def open_anchors(urls: Sequence[str]) -> list[Anchor]:
    """The anchors that the setting ``anchors`` lists: ``file://``, ``s3://`` or ``git+URL``."""
    from pretrain_archive.ledger.anchors import FileAnchor  # noqa: PLC0415
    from pretrain_archive.ledger.anchors_remote import GitAnchor, ObjectAnchor  # noqa: PLC0415
    from pretrain_archive.storage import factory  # noqa: PLC0415

    made: list[Anchor] = []
    for url in urls:
        parts = urlsplit(url)
        if parts.scheme == "file":
            made.append(FileAnchor(Path(unquote(parts.path))))
        elif parts.scheme == "s3":
            made.append(ObjectAnchor(factory.open_store(url), name=url))
        elif parts.scheme.startswith("git+"):
            made.append(GitAnchor(url.removeprefix("git+"), work_folder=config.work_folder()))
        else:
            raise InputError(
                "[pretrain_archive] anchors", url, "not an anchor", hint="Use file://, s3:// or git+URL."
            )
    return made


def open_ledger(*, create: bool = True) -> SqlLedger:
    """The ledger. SQLite and its key are made on first use; a server's tables come from a migration.

    Whoever only reads says ``create=False``: then nothing is made, and ``NoLedgerError`` says that there is none.
    """
    from pretrain_archive.ledger import factory  # noqa: PLC0415

    url = config.database_url()
    return factory.open_ledger(
        url,
        signing_key=config.signing_key(),
        anchors=open_anchors(config.anchors()),
        public_keys=config.public_keys(),
        create=create and url.startswith("sqlite"),
    )


def host(*, code_version: str | None = None, bundle: str | None = None) -> Host:
    """Where runs are opened on this machine."""
    from pretrain_archive.services.opening import Host  # noqa: PLC0415

    return Host(policies=policy, work_folder=runs_folder(), code_version=code_version, bundle=bundle)


def own_places() -> dict[str, Path | ObjectStore]:
    """Folders, files and buckets that this program writes or keeps secret, by what they are for."""
    from pretrain_archive.storage import factory  # noqa: PLC0415

    places: dict[str, Path | ObjectStore] = {
        "signing key": config.signing_key(),
        "work folder": config.work_folder(),
        "folder of the archive": config.airflow_home() / "pretrain_archive",
    }
    url = urlsplit(config.database_url())
    if url.scheme.startswith("sqlite") and url.path[1:]:
        places["ledger"] = Path(unquote(url.path[1:]))
    for what, text in (
        ("store", config.store_url()),
        *((f"anchor {anchor}", anchor) for anchor in config.anchors()),
    ):
        if text.startswith(("/", "file:")):
            places[what] = Path(unquote(urlsplit(text).path))
        elif text.startswith("s3:"):
            places[what] = factory.open_store(text)
    return places


def stamps_folder() -> Path:
    """The folder with the stamps of files that snapshots have read: a cache, which may be deleted."""
    return config.work_folder() / "stamps"


def runs_folder() -> Path:
    """The folder with one work folder per run."""
    return config.work_folder() / "runs"


def packages_folder() -> Path:
    """The folder with one package per closed run."""
    return config.work_folder() / "packages"


def verifier_key() -> str:
    """The first public key by which checkpoints are believed, as text; empty if there is none yet."""
    return next((path.read_text().strip() for path in config.public_keys() if path.exists()), "")


def shelf() -> Shelf:
    """Where packages go on this machine."""
    from pretrain_archive.services.closing import Shelf  # noqa: PLC0415

    return Shelf(
        packages_folder=packages_folder(), verifier_key=verifier_key(), policies=policy, releasing=releasing()
    )


def releasing() -> Releasing:
    """The key that signs released files and the registry, as far as they are configured."""
    from pretrain_archive.artifacts.export_mlflow import MlflowRegistry  # noqa: PLC0415
    from pretrain_archive.artifacts.mlflow_rest import Access  # noqa: PLC0415
    from pretrain_archive.services.releasing import Releasing  # noqa: PLC0415

    url = config.mlflow_url()
    registry = MlflowRegistry(url, access=Access(**config.mlflow_access())) if url else None
    return Releasing(signing_key=config.model_signing_key(), registry=registry)


def cleanup_room() -> Room:
    """Every project's policy, and the places where artifacts lie: folders of this machine and the store.

    A policy that cannot be read blocks the clean-up of its own project only: without a policy nothing of it goes.
    """
    from pretrain_archive.retention.folders import FolderFiles  # noqa: PLC0415
    from pretrain_archive.retention.objects import BucketFiles, StoreFiles  # noqa: PLC0415
    from pretrain_archive.services.cleanup import Room  # noqa: PLC0415
    from pretrain_archive.storage import factory  # noqa: PLC0415

    policies: dict[str, LoadedPolicy] = {}
    for project in sorted(path.stem for path in config.policies_folder().glob("*.toml")):
        try:
            policies[project] = policy(project)
        except PolicyError as error:
            log.warning("nothing of project %s is cleaned up: %s", project, error)
    store = open_store()
    places = (FolderFiles(), StoreFiles(store), BucketFiles(factory.open_store, journals=store))
    owner = next(iter(policies)) if len(policies) == 1 else ""
    return Room(policies=policies, places=places, store=store, finders=finders(store, owner=owner))


def finders(store: ObjectStore, *, owner: str = "") -> tuple[Finder, ...]:
    """What finds and removes things that are no checkpoints: work folders, logs and snapshots.

    ``owner`` is the project that answers for what belongs to no run: without one nothing of that goes.
    """
    from pretrain_archive.package.secrets import scan  # noqa: PLC0415
    from pretrain_archive.retention.subjects_folders import WorkFolders  # noqa: PLC0415
    from pretrain_archive.retention.subjects_logs import Logs  # noqa: PLC0415
    from pretrain_archive.retention.subjects_snapshots import Snapshots  # noqa: PLC0415
    from pretrain_archive.retention.subjects_strays import Strays  # noqa: PLC0415
    from pretrain_archive.retention.subjects_uploads import Uploads  # noqa: PLC0415

    def sensitive(log_file: Path) -> bool:
        end = b""
        with log_file.open("rb") as file:
            while block := file.read(1 << 23):
                if any(scan(log_file.name, end + block)):
                    return True
                end = block[-4096:]  # what two blocks share is seen whole
        return False

    work = WorkFolders(work=config.work_folder(), runs=runs_folder(), packages=packages_folder(), owner=owner)
    strays = Strays(store=store, owner=owner)
    uploads = Uploads(store=store, owner=owner)
    return (strays, uploads, work, Logs(sensitive=sensitive), Snapshots(store=store, owner=owner))
