"""What ``snapshot verify`` rests on: the record of the version in this store, or none."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.cli.conftest import Home


@pytest.fixture
def here(tmp_path: Path) -> Home:
    """A home without a run."""
    return Home(folder=tmp_path / "home", run_uid="", package=tmp_path)


def make(here: Home, place: Path, content: str, store: Path) -> None:
    """A snapshot ``x`` of one file, in a store of its own."""
    place.mkdir(parents=True)
    (place / "a.txt").write_text(content)
    assert 0 == here.ask("snapshot", "create", str(place), "--name", "x", "--store", str(store)).code


@pytest.mark.requirement("R052")
def test_each_store_is_held_to_its_own_record(here: Home, tmp_path: Path) -> None:
    """A version of the same name in another store is another version; each still has to be as recorded."""
    stores = [tmp_path / "one", tmp_path / "two"]
    for store in stores:
        make(here, tmp_path / "in" / store.name, store.name, store)

    found = [here.ask("snapshot", "verify", "x", "--store", str(store), "--json") for store in stores]
    assert [(0, True)] * 2 == [(answer.code, answer.document["manifest_recorded"]) for answer in found]

    [mine], [other] = ([*(s / "snapshots" / "x").iterdir()] for s in stores)
    mine.write_bytes(other.read_bytes())
    changed = here.ask("snapshot", "verify", "x", "--store", str(stores[0]), "--json").document
    assert ("changed", [""]) == (changed["verdict"], [item["path"] for item in changed["items"]])


def test_what_no_record_backs_says_so(here: Home, tmp_path: Path) -> None:
    """Without a ledger the manifest is only what the store says: that is told, and no ledger is made."""
    make(here, tmp_path / "in", "words", tmp_path / "store")
    stranger = Home(folder=tmp_path / "stranger", run_uid="", package=tmp_path)

    told = stranger.ask("snapshot", "verify", "x", "--store", str(tmp_path / "store"))

    assert (0, True) == (told.code, "nothing is recorded of it" in told.out)
    assert (
        "nothing is recorded"
        not in here.ask("snapshot", "verify", "x", "--store", str(tmp_path / "store")).out
    )
    assert [] == list(stranger.folder.rglob("*.db"))


@pytest.mark.parametrize("option", [("--seed", "5"), ("--max-changed", "0.5")])
def test_an_option_of_a_sample_without_one_is_refused(
    here: Home, tmp_path: Path, option: tuple[str, str]
) -> None:
    """Nobody is left to believe that a sample was drawn."""
    make(here, tmp_path / "in", "words", tmp_path / "store")

    refused = here.ask("snapshot", "verify", "x", "--store", str(tmp_path / "store"), *option)

    assert 2 == refused.code
    assert "--confidence" in refused.err
