"""The database is put back to an older copy: from before the sign-off, or with the token of the launch unused."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

from tests.bypass.attacks.replay import derived, used
from tests.bypass.ground import Ground, Try

from pretrain_archive.domain.kinds import AttemptEnded
from pretrain_archive.ledger.anchors import FileAnchor
from pretrain_archive.ledger.factory import open_ledger
from pretrain_archive.services import launch_permission


def _copy(ground: Ground) -> Path:
    """A backup of the database as it stands."""
    ground.line.ledger.close()
    kept = ground.line.folder / "backup.db"
    shutil.copy(ground.line.folder / "ledger.db", kept)
    return kept


def _restore(ground: Ground, kept: Path, *, same_process: bool = False) -> None:
    """Put the backup in place; by default every process starts afresh, as after a restore."""
    ground.line.ledger.close()
    shutil.copy(kept, ground.line.folder / "ledger.db")
    (ground.line.folder / "ledger.db-journal").unlink(missing_ok=True)
    if not same_process:
        ground.line.ledger = ground.line.open_ledger()
    ground.ledger = ground.line.ledger


def _launched(ground: Ground) -> None:
    """The token is used and sealed: a launch took place (its program is not needed to see what a restore does)."""
    used(ground, derived(ground))
    ground.line.ledger.seal()


def _ended(ground: Ground) -> None:
    _launched(ground)
    ground.add("attempt.ended", AttemptEnded(attempt=1, state="failed", exit_code=9, reason="x", seconds=1.0),
               task="gpu_launch", attempt=1)  # fmt: skip
    ground.line.ledger.seal()


def _sign(ground: Ground) -> None:
    ground.line.sign("prepare")


def _reject(ground: Ground) -> None:
    ground.line.answer("prepare", ground.line.ask("prepare", try_number=9), option="Reject")


def _note(ground: Ground) -> None:
    ground.note("project/line")
    ground.line.ledger.seal()


def _back(
    later: Callable[[Ground], object], *, anchors: Callable[[Ground], object] = lambda _: None, words: str = "",
    same_process: bool = False, key: bool = True,
) -> Callable[[Ground], object]:  # fmt: skip
    """Copy, go on, put the copy back, do something to the anchors, and launch."""

    def act(ground: Ground) -> None:
        kept = _copy(ground)
        ground.line.ledger = ground.ledger = ground.line.open_ledger()
        later(ground)
        _restore(ground, kept, same_process=same_process)
        anchors(ground)
        if not key:
            ground.line.ledger = ground.ledger = open_ledger(
                f"sqlite:///{ground.line.folder}/ledger.db", signing_key=None,
                anchors=[FileAnchor(ground.line.folder / "anchors")], public_keys=[ground.line.folder / "ledger.pub"],
            )  # fmt: skip
        ground.refused(words)

    return act


def _file(ground: Ground) -> Path:
    return ground.line.folder / "anchors" / "checkpoints.jsonl"


def _gone(ground: Ground) -> None:
    _file(ground).unlink()


def _folder_gone(ground: Ground) -> None:
    shutil.rmtree(_file(ground).parent)


def _emptied(ground: Ground) -> None:
    _file(ground).write_bytes(b"")


def _a_folder(ground: Ground) -> None:
    _file(ground).unlink()
    _file(ground).mkdir()


def _noise(ground: Ground) -> None:
    _file(ground).write_bytes(b"{}\n" * 50)


def _dangling(ground: Ground) -> None:
    _file(ground).unlink()
    _file(ground).symlink_to(ground.line.folder / "nowhere")


def _two(silent: Callable[[Ground], object]) -> Callable[[Ground], object]:
    """Two anchors, of which one fell silent: the other one still knows better."""

    def act(ground: Ground) -> None:
        second = ground.line.folder / "second"
        second.mkdir(exist_ok=True)
        shutil.copy(_file(ground), second / "checkpoints.jsonl")
        silent(ground)
        ground.line.ledger.close()
        ground.line.ledger = ground.ledger = open_ledger(
            f"sqlite:///{ground.line.folder}/ledger.db", signing_key=ground.line.folder / "ledger.key",
            anchors=[FileAnchor(ground.line.folder / "anchors"), FileAnchor(second)],
        )  # fmt: skip

    return act


def _unsealed(ground: Ground) -> None:
    """The anchors are gone, and the owner of the database deletes its checkpoints: as if nothing was ever sealed."""
    _folder_gone(ground)
    with sqlite3.connect(ground.line.folder / "ledger.db") as connection:
        connection.execute("DROP TRIGGER pretrain_archive_checkpoint_no_delete")
        connection.execute("DELETE FROM pretrain_archive_checkpoint")
    ground.monkeypatch.setattr(launch_permission, "SIGNER_SECONDS", 0.0)


SILENT = "no anchor is in reach and holds a checkpoint"
UNSEALED = "no anchor holds a checkpoint of this ledger yet"
TRIES = [
    Try("before the sign-off", "asked", _back(_sign)),
    Try("before the question", "data", _back(_sign)),
    Try("before a rejection", "signed", _back(_reject)),
    Try("before the launch", "signed", _back(_launched)),
    Try("before the launch, its attempt ended", "signed", _back(_ended)),
    Try("before a note in another stream", "signed", _back(_note)),
    Try("before the launch, in a living process", "signed", _back(_launched, same_process=True)),
    Try("before the rejection, in a living process", "signed", _back(_reject, same_process=True)),
    Try("before the launch, by a worker without the key", "signed", _back(_launched, key=False)),
    Try("before the rejection, by a worker without the key", "signed", _back(_reject, key=False)),
    Try("anchor file gone", "signed", _back(_launched, anchors=_gone, words=SILENT)),
    Try("anchor folder gone", "signed", _back(_launched, anchors=_folder_gone, words=SILENT)),
    Try("anchor emptied", "signed", _back(_launched, anchors=_emptied, words=SILENT)),
    Try("anchor is a folder", "signed", _back(_launched, anchors=_a_folder, words=SILENT)),
    Try("anchor full of noise", "signed", _back(_launched, anchors=_noise)),
    Try("anchor a link to nowhere", "signed", _back(_launched, anchors=_dangling, words=SILENT)),
    Try("rejected, anchor file gone", "signed", _back(_reject, anchors=_gone, words=SILENT)),
    Try("rejected, anchor folder gone", "signed", _back(_reject, anchors=_folder_gone, words=SILENT)),
    Try("anchor folder gone, checkpoints deleted", "signed", _back(_launched, anchors=_unsealed, words=UNSEALED)),
    Try("rejected, anchor folder gone, checkpoints deleted", "signed",
        _back(_reject, anchors=_unsealed, words=UNSEALED)),
    Try("anchor gone, by a worker without the key", "signed",
        _back(_launched, anchors=_gone, words=SILENT, key=False)),
    Try("one of two anchors gone", "signed", _back(_launched, anchors=_two(_gone), words="The database holds")),
    Try("one of two anchors emptied", "signed", _back(_reject, anchors=_two(_emptied), words="The database holds")),
    Try("one of two anchors a folder", "signed", _back(_launched, anchors=_two(_a_folder), words="The database holds")),
]  # fmt: skip
