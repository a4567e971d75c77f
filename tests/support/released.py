"""A released run in memory, through the real services, and a key that signs models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.fakes.memory_ledger import MemoryLedger
from tests.support.artifact_run import ACTOR, Run
from tests.unit.gates.asked_run import UID, AskedRun

from pretrain_archive.artifacts.candidates import name_candidate
from pretrain_archive.artifacts.releases import Terms, make_release
from pretrain_archive.domain import kinds
from pretrain_archive.domain.candidates import chosen_candidate
from pretrain_archive.domain.identity import new_id
from pretrain_archive.domain.records import Actor
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.sources import with_sources
from pretrain_archive.ledger.factory import open_ledger
from pretrain_archive.storage.files import FileStore

TERMS: dict[str, Any] = {
    "name": "stdlib-bytes", "version": "1.2", "applicable": ["research"], "not_applicable": ["judging code"],
    "known_limits": ["short context"], "rollback": "use 1.1", "take_down": "delete the folder",
    "usage_scope": ["research"],
}  # fmt: skip


def released_view(folder: Path, *, packages: dict[str, str] | None = None, **terms: Any) -> RunView:
    """A run with its release, as its records tell it; ``packages`` is what a worker observed."""
    run = AskedRun(
        ledger=MemoryLedger(), store=FileStore(folder / "store"), folder=folder, uid=UID.format(1), seed=17,
        dag_run_id="manual__1",
    ).until("close")  # fmt: skip
    if packages is not None:
        seen = {
            "python": {"version": "3.11.7"},
            "packages": packages,
            "git": {"commit": "abc", "dirty": True},
        }
        run.add(
            "gpu_launch",
            kinds.EnvironmentObserved(
                moment="end", environment=seen, environment_digest="sha256:" + "1" * 64
            ),
        )
    view = run.view()
    chosen, decision = chosen_candidate(view), view.decision("close")
    assert chosen is not None
    assert decision is not None
    make_release(
        run.ledger, run_uid=run.uid, decision=decision[0], candidate=chosen[1], terms=Terms(**{**TERMS, **terms}),
        actor=Actor(type="task", name="archive_close"), origin=run.origin("archive_close"),
    )  # fmt: skip
    return with_sources(run.ledger, run.view())


def released_run(folder: Path) -> Run:
    """A run with one released checkpoint on a ledger on disk (``ledger.db``); the model has a name of its own."""
    url = f"sqlite:///{folder / 'ledger.db'}"
    ledger = open_ledger(url, signing_key=None, anchors=(), create=True)
    made = Run(ledger, FileStore(folder / "store"), folder / "checkpoints").open()
    fact = made.checkpoint(200)
    made.evaluate(fact, 1.5)
    candidate = name_candidate(
        ledger, run_uid=made.uid, checkpoint_id=fact.checkpoint_id, kept=True, reason="the best", actor=ACTOR,
        origin=made.origin(),
    )  # fmt: skip
    make_release(
        ledger, run_uid=made.uid, decision=made.decide(), candidate=candidate,
        terms=Terms(**{**TERMS, "name": new_id("model")}), actor=ACTOR, origin=made.origin(),
    )  # fmt: skip
    return made


def model_key(file: Path) -> Path:
    """A new private key on a NIST curve in ``file``, its public half beside it with the suffix .pub."""
    key = ec.generate_private_key(ec.SECP256R1())
    pem = serialization.Encoding.PEM
    none = serialization.NoEncryption()
    file.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, none))
    public = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    file.with_suffix(".pub").write_bytes(public)
    return file
