"""One target under a coverage-guided fuzzer: ``python -m tests.fuzz.run NAME [--seconds N] [--found FOLDER]``.

Exits with 0 when nothing was found. Otherwise the input is written to ``FOLDER`` and its traceback printed; running
with ``--again FILE`` gives it to the parser once more.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import re
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

import atheris

MEMORY_MB = 1500
"""Resident memory of the whole process; the parser's own share is far below."""

SLOWEST = 10
"""Seconds that one input may take."""


def main() -> None:
    """Fuzz one target for the given time, or repeat one input."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--found", type=Path, default=Path("fuzz-found"))
    parser.add_argument("--seed", type=int, default=0, help="0: another one each time")
    parser.add_argument("--again", type=Path)
    wanted = parser.parse_args()
    with atheris.instrument_imports(include=["pretrain_archive"], enable_loader_override=False):
        from tests.fuzz.targets import ALL
    from tests.fuzz.target import Watch, attempt

    target = ALL[wanted.name]
    slug = re.sub("[^a-z.]+", "-", target.name)
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory if memory.is_dir() else None) as made:
        root = Path(made)
        scratch, corpus = root / "scratch", root / "corpus"
        for folder in (scratch, corpus):
            folder.mkdir()
        seeds = list(target.seeds())
        for number, seed in enumerate(seeds):
            (corpus / f"seed-{number}").write_bytes(seed)
        watch = Watch(scratch)

        def one(raw: bytes) -> None:
            if target.scratch:
                shutil.rmtree(scratch)
                scratch.mkdir()
            try:
                attempt(target, raw, scratch, watch)
            except BaseException:
                watch.armed = False
                wanted.found.mkdir(parents=True, exist_ok=True)
                kept = wanted.found / f"{slug}-{hashlib.sha256(raw).hexdigest()[:12]}"
                kept.write_bytes(raw)
                sys.stdout.write(f"FOUND {kept} ({len(raw)} bytes): {raw[:200]!r}\n")
                sys.stdout.flush()
                traceback.print_exc()
                raise

        if wanted.again:
            one(wanted.again.read_bytes())
            return
        for seed in seeds:  # so that what is imported late is imported before anybody watches
            with contextlib.suppress(Exception):  # the fuzzer begins with the same inputs and tells
                target.call(*((seed, scratch) if target.scratch else (seed,)))
        wanted.found.mkdir(parents=True, exist_ok=True)
        options = [
            sys.argv[0], str(corpus), f"-max_total_time={wanted.seconds}", f"-max_len={target.longest}",
            f"-rss_limit_mb={MEMORY_MB}", f"-timeout={SLOWEST}", f"-seed={wanted.seed}", "-print_final_stats=1",
            "-verbosity=1",
            f"-artifact_prefix={wanted.found}/{slug}-",  # what ends the process itself: time, memory, a crash
        ]  # fmt: skip
        atheris.Setup(options, one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
