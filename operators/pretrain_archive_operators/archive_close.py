"""Close a run and write its package; clean its temporary data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pretrain_archive.domain.errors import RefusedError
from pretrain_archive_operators.base import ArchiveOperator
from pretrain_archive_operators.cluster import launch_bench
from pretrain_archive_operators.links import DossierLink

if TYPE_CHECKING:
    from pretrain_archive.services.caller import Caller


class ArchiveCloseOperator(ArchiveOperator):
    """Carry out the outcome that the close gate signed, freeze the run, and write its package.

    An exploration ends without a gate: its outcome is ``explored``, and the task fails behind the close where its
    last attempt did not complete. Retried or repeated, it finds the release, the close and the package that are
    there. A secret in what would be packaged ends the task and names file and kind.

    :param attach: files and folders on the worker that go into the package as they are, below ``attachments/``;
        each file of at most 4 MiB.
    """

    template_fields = (*ArchiveOperator.template_fields, "attach")
    operator_extra_links = (DossierLink(),)

    def __init__(self, *, attach: Sequence[str] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.attach = attach

    def work(self, caller: Caller, run_uid: str) -> dict[str, Any]:
        """Return ``package, digest, outcome, release, registration`` (the registry's version, or what is pending)."""
        from pretrain_archive.services.closing import close_archive  # noqa: PLC0415 (heavy)
        from pretrain_archive.services.exploring import close_exploration, ends_unsigned, incomplete  # noqa: PLC0415
        from pretrain_archive.services.known_run import knowing_runs  # noqa: PLC0415
        from pretrain_archive.services.wiring import shelf  # noqa: PLC0415

        ledger = knowing_runs(self.ledger)
        unsigned = ends_unsigned(ledger, caller, run_uid)
        close = close_exploration if unsigned else close_archive
        place = replace(shelf(), attach=tuple(Path(name) for name in self.attach or ()))
        done = close(ledger, self.store, caller, run_uid, place)
        if unsigned and (fault := incomplete(ledger, run_uid)):
            raise RefusedError(
                f"{fault}; package {done.folder}", hint="Read it, and trigger a new exploration."
            )
        return {
            "package": str(done.folder),
            "digest": done.package.digest,
            "outcome": done.outcome,
            "release": f"{done.release.name} {done.release.version}" if done.release else None,
            "registration": done.registered,
        }


class TemporaryCleanOperator(ArchiveOperator):
    """Remove the data that was laid out for the run and record that it is gone; meant as a DAG's teardown.

    A job on a cluster that no task follows any more is deleted first, and its attempt gets its end.
    """

    def work(self, caller: Caller, run_uid: str) -> dict[str, Any]:
        """Return ``bytes_released, paths``."""
        from pretrain_archive.services.closing import clean_temporary  # noqa: PLC0415 (heavy)
        from pretrain_archive.services.launch_settle import settle_removed  # noqa: PLC0415
        from pretrain_archive.services.processing import drop_unfinished  # noqa: PLC0415
        from pretrain_archive.services.snapshotting import drop_left_over  # noqa: PLC0415
        from pretrain_archive.services.wiring import runs_folder  # noqa: PLC0415

        settle_removed(
            self.ledger,
            caller,
            run_uid,
            launch_bench(self.store),
            reason="no task of the DAG run follows it any more",
        )
        removed = [
            clean_temporary(self.ledger, caller, run_uid, runs_folder()),
            drop_left_over(self.ledger, self.store, caller, run_uid),
            drop_unfinished(self.ledger, self.store, caller, run_uid),
        ]
        return {
            "bytes_released": sum(part.bytes_released for part in removed if part),
            "paths": sum(len(part.paths) for part in removed if part),
        }
