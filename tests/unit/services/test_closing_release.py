"""A close that fails between the release and the package: the last word of the gate counts."""

from __future__ import annotations

import io
import sys

import pytest
from tests.support.released import model_key

from pretrain_archive.artifacts.signing import fingerprint, public_key_of
from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import ArchiveError, InputError, RefusedError
from pretrain_archive.domain.releases import standing_release
from pretrain_archive.package.bom import bom_document
from pretrain_archive.package.model_card import sections
from pretrain_archive.services.closing import Shelf, close_archive
from pretrain_archive.services.model_life import all_lives
from pretrain_archive.services.release_reading import find_release, release_document
from pretrain_archive.services.releasing import Releasing

pytestmark = [pytest.mark.requirement("R104", "R113", "R139"), pytest.mark.case("A05")]


def close(run, house, key=None, *, try_number=1):
    """Close with a key that signs models, or none."""
    shelf = Shelf(
        packages_folder=house.folder / "packages", verifier_key=house.public.read_text().strip(),
        policies=lambda _: run.policy, releasing=Releasing(signing_key=key),
    )  # fmt: skip
    return close_archive(
        run.ledger, run.store, run.caller("archive_close", try_number=try_number), run.uid, shelf
    )


def made(run) -> list[kinds.ReleaseMade]:
    """What the run released."""
    return [fact for _, fact in run.view().all(kinds.ReleaseMade)]


def half_closed(run, house):
    """A close that recorded the release and could not sign it: something else lies in the signature's place."""
    run.until("close")
    key = model_key(house.folder / "model.key")
    place = fingerprint(public_key_of(key)).removeprefix("sha256:")[:16]
    put = run.store.put_if_absent

    def taken(name: str, data):
        return put(name, io.BytesIO(b"{}")) and False if name.endswith(f"{place}.sig") else put(name, data)

    run.store.put_if_absent = taken
    with pytest.raises(RefusedError, match="is no signature over"):
        close(run, house, key)
    assert 1 == len(made(run))
    return key


def test_a_key_that_cannot_sign_releases_nothing(run, house):
    """It is found before the release is recorded, not after."""
    run.until("close")

    with pytest.raises(InputError, match="model_signing_key"):
        close(run, house, house.folder / "nothing.key")
    assert [] == made(run)


def test_a_library_that_is_not_there_releases_nothing(run, house, monkeypatch):
    """Without the extra a configured key cannot sign: one line names the extra."""
    for name in ("model_signing", "model_signing.hashing", "model_signing.signing"):
        monkeypatch.setitem(sys.modules, name, None)
    run.until("close")

    with pytest.raises(ArchiveError, match=r"pretrain-archive\[sign\]"):
        close(run, house, model_key(house.folder / "model.key"))
    assert [] == made(run)


def test_a_release_whose_close_failed_goes_when_the_gate_says_continue(run, house):
    """No card, no bill, no signature, no allowed use: the package tells the outcome that was signed last."""
    half_closed(run, house)
    assert 1 == len(all_lives(run.ledger))
    run.pass_gate("close", outcome="continue", reason="A fault was found since.")
    assert [] == all_lives(run.ledger)

    done = close(run, house, try_number=2)

    view = run.view()
    assert ("continue", None, None) == (done.outcome, done.release, standing_release(view))
    assert not (done.folder / "release").exists()
    assert ([], None) == (sections(view), bom_document(view))
    assert [] == list(view.all(kinds.ReleaseSigned))
    assert not release_document(find_release(run.ledger, run.uid))["stands"]


def test_the_same_approval_completes_it(run, house):
    """Tried again without the obstacle it is the release that was recorded."""
    half_closed(run, house)

    done = close(run, house, try_number=2)

    assert made(run) == [done.release]
    assert standing_release(run.view())[1] == done.release
    assert (done.folder / "release" / "bom.cdx.json").exists()


def test_a_closed_run_gets_no_release_later(run, house):
    """Closed as continue: a close that is retried makes none, whatever stands beside it."""
    run.until("run")
    run.pass_gate("close", outcome="continue")
    close(run, house)

    assert close(run, house, try_number=2).release is None
    assert [] == made(run)
