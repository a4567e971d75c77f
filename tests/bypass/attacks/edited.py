"""The DAG, its conf or the program is edited after the approval."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bypass.ground import Ground, Try

from pretrain_archive.domain import kinds

STALE = "stale approval"
CODE = "the training code changed after it was signed"


def _program(ground: Ground) -> Path:
    config = ground.line.view().latest(kinds.ConfigurationDeclared)
    assert config is not None
    return Path(config.command[-1])


def _file(change: Callable[[Path], object], words: str = CODE) -> Callable[[Ground], object]:
    """The program's file is changed; the ground puts it back afterwards."""

    def act(ground: Ground) -> None:
        change(_program(ground))
        ground.refused(words)

    return act


def _append(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(path.read_text() + text)


def _swap(path: Path) -> None:
    copy = path.with_name("copy.py")
    copy.write_text(path.read_text() + "\nprint('other')\n")
    path.unlink()
    path.symlink_to(copy)


def _declare(words: str = STALE, **changes: Any) -> Callable[[Ground], object]:
    """The DAG declares another configuration: conf was overridden, or the file edited, and open_run ran again."""

    def act(ground: Ground) -> None:
        config = ground.line.view().latest(kinds.ConfigurationDeclared)
        assert config is not None
        made: dict[str, Any] = {}
        for name, value in changes.items():
            part, dot, field = name.partition("__")
            if dot:
                base = made.get(part) or getattr(config, part)
                made[part] = base.model_copy(update={field: value})
            else:
                made[part] = value
        ground.add("configuration.declared", config.model_copy(update=made))
        ground.refused(words)

    return act


TRIES = [
    Try("a line more in the program", "signed", _file(_append("\nprint('more')\n"))),
    Try("a blank more in the program", "signed", _file(_append(" "))),
    Try("a comment more in the program", "signed", _file(_append("# nothing\n"))),
    Try("a byte less", "signed", _file(lambda path: path.write_bytes(path.read_bytes()[:-1]))),
    Try("other line ends", "signed",
        _file(lambda path: path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n")))),
    Try("program emptied", "signed", _file(lambda path: path.write_text(""))),
    Try("program gone", "signed", _file(lambda path: path.unlink(), words="")),
    Try("program behind a link", "signed", _file(_swap, words="")),
    Try("a module beside it", "signed",
        _file(lambda path: path.with_name("json.py").write_text("raise SystemExit"))),
    Try("a package beside it", "signed",
        _file(lambda path: (path.parent / "hashlib").mkdir() or (path.parent / "hashlib/__init__.py").write_text(""))),
    Try("budget minutes", "signed", _declare(budget__minutes=500.0)),
    Try("budget a millisecond more", "signed", _declare(budget__minutes=5.00001)),
    Try("accelerators", "signed", _declare(budget__accelerators=8)),
    Try("nodes", "signed", _declare(budget__nodes=2)),
    Try("kind of accelerator", "signed", _declare(budget__accelerator="nvidia.com/gpu")),
    Try("owner of the budget", "signed", _declare(budget__owner="mallory")),
    Try("wall time", "signed", _declare(stop__wall_minutes=9999.0)),
    Try("no progress", "signed", _declare(stop__no_progress_minutes=9999.0)),
    Try("NaN no longer stops", "signed", _declare(stop__stop_on_nan=False)),
    Try("a limit of the loss", "signed", _declare(stop__max_loss=99.0)),
    Try("attempts", "signed", _declare(stop__max_attempts=99)),
    Try("checkpoint place", "signed", _declare(checkpoints__location="/somewhere/else")),
    Try("checkpoint steps", "signed", _declare(checkpoints__every_steps=1000)),
    Try("command", "signed", _declare(command=["sh", "-c", "true"])),
    Try("command with an argument more", "signed", _declare(command=["python", "train.py", "--more"])),
    Try("evaluation command", "signed", _declare(evaluate_command=["true"])),
    Try("evaluation code", "signed", _declare(evaluate_code_digest="sha256:" + "7" * 64)),
    Try("code digest", "signed", _declare(code_digest="sha256:" + "7" * 64)),
    Try("code digest taken away", "signed", _declare(code_digest=None)),
    Try("configuration digest", "signed", _declare(configuration_digest="sha256:" + "7" * 64)),
]  # fmt: skip
