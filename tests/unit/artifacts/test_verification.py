"""Verification: every file is read again, and what is not as recorded is named."""

from __future__ import annotations

import pytest
from tests.support.artifact_files import write_checkpoint
from tests.unit.artifacts.conftest import RUN

from pretrain_archive.artifacts.registration import Claim, register_checkpoint
from pretrain_archive.artifacts.verification import (
    ELSEWHERE,
    newest_verified,
    search_verified,
    verify_checkpoint,
)
from pretrain_archive.domain.errors import StorageError
from pretrain_archive.domain.records import Draft
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Verdict, counts


@pytest.fixture
def register(ledger, actor, origin, tmp_path):
    """Write and register the checkpoint of a step."""

    def write(step: int, attempt: int = 1):
        folder = write_checkpoint(tmp_path / str(attempt), step, content=bytes([attempt]) * 16)
        claim = Claim(
            run_uid=RUN,
            attempt=attempt,
            step=step,
            tokens=None,
            snapshot="stdlib@1",
            configuration_digest="sha256:" + "c" * 64,
            responsible="alice",
        )
        return folder, register_checkpoint(ledger, folder, claim, actor=actor, origin=origin)

    return write


@pytest.mark.requirement("R101")
def test_an_untouched_checkpoint_is_verified(register):
    """One item per file, each with its check and its time."""
    _, fact = register(100)

    items = verify_checkpoint(fact)

    assert {"changed": 0, "unrecorded": 0, "verified": 4} == counts(items)
    assert all(item.check and item.checked_at for item in items)


@pytest.mark.parametrize(
    ("spoil", "path", "found"),
    [
        pytest.param(lambda d: _flip(d / "model.safetensors"), "model.safetensors", "sha256:", id="one bit"),
        pytest.param(lambda d: (d / "state.json").unlink(), "state.json", "missing", id="missing"),
        pytest.param(lambda d: (d / "extra").write_text("x"), "extra", "1 bytes", id="added"),
        pytest.param(
            lambda d: (d / "state.json").unlink() or (d / "state.json").symlink_to("model.safetensors"),
            "state.json",
            "cannot be read",
            id="a link in its place",
        ),
        pytest.param(
            lambda d: (d / "state.json").unlink() or (d / "state.json").mkdir(),
            "state.json",
            "Is a directory",
            id="a folder",
        ),
    ],
)
def test_each_change_is_on_its_file(register, spoil, path, found):
    """The others stay verified."""
    folder, fact = register(100)
    spoil(folder)

    changed = [item for item in verify_checkpoint(fact) if item.verdict is not Verdict.VERIFIED]

    assert [f"checkpoint:{fact.checkpoint_id}#{path}"] == [item.id for item in changed]
    assert found in changed[0].found


def test_an_address_of_another_kind_is_not_checked(register):
    """Not checked is unrecorded, never verified."""
    _, fact = register(100)

    items = verify_checkpoint(fact.model_copy(update={"location": "gs://bucket/step_100"}))

    assert [Verdict.UNRECORDED] == [item.verdict for item in items]


def test_a_bucket_that_does_not_answer_is_not_checked(register):
    """What cannot be reached says nothing of the bytes."""
    _, fact = register(100)

    def opened(location: str):
        raise StorageError(f"{location}: the service does not answer.")

    items = verify_checkpoint(fact, opened=opened)

    assert [(Verdict.UNRECORDED, "out of reach")] == [(item.verdict, item.found[:12]) for item in items]


def test_a_checkpoint_in_a_bucket_is_not_for_a_program_here(register, ledger):
    """Whoever starts a program needs a folder: the next older one in a folder is taken, and why is said."""
    folder, fact = register(100)
    elsewhere = fact.model_copy(
        update={"checkpoint_id": "ckpt_far", "step": 200, "location": "s3://bucket/step_200"}
    )
    first = ledger.log[0]
    draft = Draft(
        stream=RUN,
        kind=first.kind,
        payload=elsewhere.to_json(),
        actor=first.actor,
        origin=first.origin,
        ordinal=1,
    )
    ledger.append([draft])

    looked = search_verified(RunView.of(RUN, ledger.records()))

    assert (fact, folder) == looked.found
    assert ((ELSEWHERE,),) == tuple(unfit.problems for unfit in looked.unfit)


def test_the_newest_is_of_the_last_attempt(register, ledger):
    """A rewound attempt's step counts before the higher one that it left behind."""
    register(100)
    register(200)
    folder, fact = register(150, attempt=2)

    assert (fact, folder) == newest_verified(RunView.of(RUN, ledger.records()))


def test_when_none_holds_there_is_none(register, ledger):
    """Nothing is offered that was not verified now."""
    folder, _ = register(100)
    _flip(folder / "optimizer.safetensors")

    assert newest_verified(RunView.of(RUN, ledger.records())) is None


def _flip(path) -> None:
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
