"""One signature per release: after a crash, from several tasks at once, and never over something else."""

from __future__ import annotations

import hashlib
import io
import threading

import pytest
from tests.support.artifact_run import ACTOR, Run
from tests.support.released import model_key, released_run

from pretrain_archive.artifacts.location import to_path
from pretrain_archive.artifacts.signing import read_public_key, sign_files, signature_fault
from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import InputError, RefusedError
from pretrain_archive.gates.service import load_run
from pretrain_archive.ledger.factory import open_ledger
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.release_reading import find_release, verify_release
from pretrain_archive.services.releasing import Releasing, released_checkpoint, sign_release

pytestmark = pytest.mark.requirement("R105", "R112")


@pytest.fixture
def run(tmp_path) -> Run:
    """A released run."""
    return released_run(tmp_path)


@pytest.fixture
def key(tmp_path):
    """The configured key."""
    return model_key(tmp_path / "model.key")


def sign(run: Run, key) -> kinds.ReleaseSigned | None:
    """A try of its own, with a connection of its own to the ledger."""
    ledger = open_ledger(f"sqlite:///{run.folder.parent / 'ledger.db'}", signing_key=None, anchors=())
    caller = Caller(origin=run.origin(), actor=ACTOR)
    return sign_release(ledger, run.store, caller, run.uid, Releasing(signing_key=key))


def bundle_of(run: Run, signed: kinds.ReleaseSigned) -> bytes:
    """The stored bundle."""
    return run.store.open(place(signed.release_id, signed.key_fingerprint)).read()


def place(release_id: str, fingerprint: str) -> str:
    """Where a bundle lies in the store."""
    return f"releases/{release_id}/{fingerprint.removeprefix('sha256:')[:16]}.sig"


def recorded(run: Run) -> list[kinds.ReleaseSigned]:
    """Every recorded signature."""
    return [fact for _, fact in load_run(run.ledger, run.uid).all(kinds.ReleaseSigned)]


def test_the_record_names_the_bundle_that_is_stored(run, key):
    """Digest, key and tool; the bundle holds over the released files."""
    signed = sign(run, key)
    view = load_run(run.ledger, run.uid)
    made = view.latest(kinds.ReleaseMade)
    bundle = bundle_of(run, signed)

    assert signed.bundle_digest == f"sha256:{hashlib.sha256(bundle).hexdigest()}"
    files = released_checkpoint(view, made).files
    assert "" == signature_fault(bundle, files, name=made.name, public_key=signed.public_key)


def test_without_a_key_nothing_is_signed(run):
    """No record, no bundle."""
    assert sign(run, None) is None
    assert [] == recorded(run)


def test_a_crash_between_bundle_and_record_is_completed(run, key):
    """The bundle of the try that died counts: no second signature is made."""
    view = load_run(run.ledger, run.uid)
    made = view.latest(kinds.ReleaseMade)
    earlier = sign_files(released_checkpoint(view, made).files, name=made.name, key=key)
    run.store.put_if_absent(place(made.release_id, earlier.fingerprint), io.BytesIO(earlier.bundle))

    signed = sign(run, key)

    assert earlier.bundle == bundle_of(run, signed)
    assert signed.bundle_digest == f"sha256:{hashlib.sha256(earlier.bundle).hexdigest()}"


def test_something_else_in_the_bundle_s_place_is_refused(run, key):
    """It is neither recorded nor overwritten."""
    view = load_run(run.ledger, run.uid)
    made = view.latest(kinds.ReleaseMade)
    fingerprint = sign_files(released_checkpoint(view, made).files, name=made.name, key=key).fingerprint
    run.store.put_if_absent(place(made.release_id, fingerprint), io.BytesIO(b"{}"))

    with pytest.raises(RefusedError, match="is no signature over"):
        sign(run, key)
    assert [] == recorded(run)
    assert b"{}" == run.store.open(place(made.release_id, fingerprint)).read()


@pytest.mark.case("A05")
def test_parallel_tries_leave_one_signature(run, key):
    """Whoever is first counts; everybody is told the same."""
    start, found, faults = threading.Barrier(4), [], []

    def work() -> None:
        start.wait()
        try:
            found.append(sign(run, key))
        except Exception as error:  # noqa: BLE001 - every fault of a thread is the test's
            faults.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [] == faults
    assert 1 == len(recorded(run))
    assert {recorded(run)[0].bundle_digest} == {signed.bundle_digest for signed in found}


def test_a_key_that_cannot_sign_stops_the_hand_over(run, tmp_path):
    """What was to be signed is not handed over unsigned."""
    with pytest.raises(InputError, match="model_signing_key"):
        sign(run, tmp_path / "nothing.key")


def test_a_closed_run_stays_as_it_was_closed(run, key):
    """A key that is configured later signs nothing that was closed unsigned."""
    run.close()

    assert sign(run, key) is None
    assert [] == recorded(run)


def bury(run: Run, *parts: str) -> None:
    """Record that the released checkpoint, or parts of it, were deleted."""
    fact = load_run(run.ledger, run.uid).latest(kinds.CheckpointRegistered)
    run.append(
        kinds.TombstoneWritten(
            ref=f"checkpoint:{fact.checkpoint_id}", digest=fact.digest, size=1, artifact_class="release",
            reason="a person asked for it", policy_digest=None, approved_by="bob", bytes_released=1,
            verified_absent=True, parts=list(parts),
        )
    )  # fmt: skip


def verdicts(run: Run, key) -> tuple[str, dict[str, str]]:
    """The release's verdict, and that of each item by the last part of its name."""
    public = read_public_key(key.with_suffix(".pub"))
    told = verify_release(run.store, find_release(run.ledger, run.uid), public_key=public)
    return told.verdict, {item.id.rpartition("#")[2]: item.verdict.value for item in told.items}


@pytest.mark.requirement("R149")
def test_bytes_that_were_deleted_are_unrecorded_with_their_tombstone(run, key):
    """Nothing is verified that is not there, and nothing is called changed that was deleted by decision."""
    sign(run, key)
    assert "verified" == verdicts(run, key)[0]
    bury(run)

    verdict, items = verdicts(run, key)
    assert ("intact", "unrecorded") == (verdict, items["release.files"])


@pytest.mark.requirement("R149")
def test_a_release_without_its_optimizer_still_verifies(run, key):
    """The part that was deleted by decision must be absent; every other byte is read."""
    sign(run, key)
    folder = to_path(load_run(run.ledger, run.uid).latest(kinds.CheckpointRegistered).location)
    (folder / "optimizer.safetensors").unlink()
    assert "changed" == verdicts(run, key)[0]

    bury(run, "optimizer")
    verdict, items = verdicts(run, key)
    assert "changed" not in items.values()
    assert "verified" == items["model.safetensors"]
    assert verdict in {"verified", "intact"}
