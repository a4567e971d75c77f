"""Whatever a command imports late can be imported first: no order of imports is needed."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
COMMANDS = ROOT / "plugin/pretrain_archive/commands"
ALONE = """
import os, sys
import pydantic, typer, rich.table, cryptography.hazmat.primitives.asymmetric.ed25519, sqlalchemy, numpy
for name in sys.argv[1:]:
    child = os.fork()
    if not child:
        try:
            __import__(name)
        except BaseException as error:
            print(f"{name}: {error!r}", flush=True)
            os._exit(1)
        os._exit(0)
    os.waitpid(child, 0)
"""


def late_imports() -> list[str]:
    """The package's modules that the command line imports inside functions, and the commands themselves."""
    found = {
        f"pretrain_archive.commands.{path.stem}" for path in COMMANDS.glob("*.py") if path.stem != "__init__"
    }
    for path in COMMANDS.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("pretrain_archive."):
                found.add(str(node.module))
    return sorted(found)


def test_each_module_is_imported_alone() -> None:
    """One process per module, forked from one that knows the libraries alone."""
    names = late_imports()
    assert len(names) > 50
    done = subprocess.run(
        [sys.executable, "-c", ALONE, *names], capture_output=True, text=True, check=False, timeout=300
    )
    assert ("", 0) == (done.stdout, done.returncode), done.stderr[-2000:]
