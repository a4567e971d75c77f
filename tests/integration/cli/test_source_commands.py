"""The commands ``source`` and ``withdraw``, and the rights that ``run show`` and ``snapshot croissant`` tell."""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.cli.conftest import Home

SOURCE = "py-stdlib"
NAME = "Python standard library"
FORM = (
    "--obtained", "by mail", "--authorisation", "contract 7", "--origin-class", "bought", "--owner", "olga",
    "--responsible", "rita", "--usage-scope", "research", "--usage-scope", "internal",
)  # fmt: skip


@pytest.mark.requirement("R037", "R060")
def test_dry_run_lists_and_records_nothing(seeded: Home) -> None:
    """Every key that others rely on is there; the text names runs and people; nothing is written."""
    before = seeded.ask("ledger", "verify", "--json").document["records"]
    answer = seeded.ask("withdraw", SOURCE, "--dry-run", "--json")
    text = seeded.ask("withdraw", NAME, "--dry-run").out

    assert 0 == answer.code
    document = answer.document
    assert {
        "source", "snapshots", "splits", "runs", "checkpoints", "evaluations", "candidates", "releases", "packages",
        "decisions", "people", "withdrawn", "same_address", "truncated", "dry_run",
    } == document.keys()  # fmt: skip
    assert (True, None, SOURCE) == (
        document["dry_run"],
        document["withdrawn"],
        document["source"]["source_id"],
    )
    assert seeded.run_uid in {run["run"] for run in document["runs"]}
    assert document["checkpoints"]
    assert document["packages"]
    assert ["alice"] == document["people"]["owner"]
    assert ["Bob Approver"] == document["people"]["approver"]
    for words in (f"run:{seeded.run_uid}", "people to tell", "owner: alice", "nothing was recorded"):
        assert words in text
    assert before == seeded.ask("ledger", "verify", "--json").document["records"]


@pytest.mark.requirement("R037")
def test_withdrawing_is_recorded_once_and_shown(home: Callable[[], Home]) -> None:
    """The first call records it with the person; the second says so; list, show and the run tell it."""
    here = home()
    first = here.ask("withdraw", SOURCE, "--reason", "the licence ended", "--json")
    second = here.ask("withdraw", SOURCE, "--reason", "another word")

    assert (0, 0) == (first.code, second.code)
    gone = first.document["withdrawn"]
    assert (getpass.getuser(), "the licence ended") == (gone["by"], gone["reason"])
    assert f"already withdrawn at {gone['at']} by {getpass.getuser()}: the licence ended" in second.out
    [listed] = [
        s for s in here.ask("source", "list", "--json").document["sources"] if s["source_id"] == SOURCE
    ]
    assert gone == listed["withdrawn"] == here.ask("source", "show", SOURCE, "--json").document["withdrawn"]
    run = here.ask("run", "show", here.run_uid, "--json").document
    assert gone == run["sources"][0]["withdrawn"]
    [item] = [i for i in run["tracks"]["data"] if i["id"] == "data.rights"]
    assert ("changed", "changed") == (item["verdict"], run["verdict"])
    assert "withdrawn at" in here.ask("run", "show", here.run_uid).out
    listed_runs = here.ask("run", "list", "--json").document["runs"]
    assert {"changed"} == {r["verdict"] for r in listed_runs}
    assert 0 == here.ask("ledger", "verify").code


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param(["withdraw", "nothing", "--dry-run"], "bad_input", id="unknown source"),
        pytest.param(["withdraw", SOURCE], "bad_input", id="no reason"),
        pytest.param(["withdraw", SOURCE, "--reason", "  "], "bad_input", id="blank reason"),
        pytest.param(["withdraw"], "usage", id="no source named"),
        pytest.param(["source", "show", "\x1b[2J"], "bad_input", id="control characters"),
        pytest.param(["source", "grant", SOURCE, "--identity", ""], "bad_input", id="no identity"),
        pytest.param(["source", "grant", SOURCE], "usage", id="identity left out"),
        pytest.param(
            ["source", "revoke", SOURCE, "--identity", "x", "--at", "soon"], "bad_input", id="no moment"
        ),
        pytest.param(
            ["source", "register", "/does/not/exist", "--name", "x", *FORM], "bad_source", id="no folder"
        ),
        pytest.param(["snapshot", "croissant", "nothing"], "bad_input", id="unknown snapshot"),
    ],
)
def test_wrong_use(seeded: Home, arguments: list[str], code: str) -> None:
    """Exit 2, one line on standard error, or one document; never a traceback."""
    text = seeded.ask(*arguments)
    document = seeded.ask(*arguments, "--json")

    assert (2, "") == (text.code, text.out)
    assert 1 == len(text.err.splitlines())
    assert "\x1b" not in text.err
    assert (2, code) == (document.code, document.document["error"]["code"])


def test_without_a_ledger(tmp_path: Path) -> None:
    """Nothing is made where there is none."""
    here = Home(folder=tmp_path, run_uid="", package=tmp_path)

    assert 2 == here.ask("withdraw", SOURCE, "--reason", "x").code
    assert [] == list(tmp_path.rglob("*.db"))


@pytest.mark.requirement("R035", "R037", "R039", "R055", "R056")
def test_register_grant_revoke(home: Callable[[], Home], tmp_path: Path) -> None:
    """A source outside of runs: its licence is canonical, its readers come and go, and show tells all of it."""
    here = home()
    folder = tmp_path / "bought"
    folder.mkdir()
    (folder / "a.txt").write_text("text")
    made = here.ask(
        "source", "register", str(folder), "--name", "bought", "--licence", "cc-by-4.0 or mit", *FORM,
        "--task", "pre-training", "--identity", "svc", "--granted-at", "2026-01-02T03:04:05+01:00", "--json",
    )  # fmt: skip
    source = made.document["source_id"]
    assert "CC-BY-4.0 OR MIT" == made.document["licence"]
    assert 0 == here.ask("source", "revoke", source, "--identity", "svc", "--reason", "left").code
    shown = here.ask("source", "show", "bought", "--json").document

    assert [f"source/{source}"] == shown["registered_in"]
    assert ("2026-01-02T02:04:05.000000Z", ["research", "internal"]) == (
        shown["granted_at"],
        shown["usage_scope"],
    )
    assert ("revoked", "svc", "left") == tuple(
        shown["access"][0][key] for key in ("action", "identity", "reason")
    )
    assert shown["revoked"].startswith("access of svc revoked at")
    assert "access of svc revoked at" in here.ask("source", "list").out
    assert 0 == here.ask("source", "grant", "bought", "--identity", "svc").code
    again = here.ask("source", "show", "bought", "--json").document
    assert (None, 2) == (again["revoked"], len(again["access"]))
    assert "masking: unrecorded" in here.ask("source", "show", "bought").out


@pytest.mark.requirement("R056")
def test_a_right_of_nobody_who_reads_is_told(home: Callable[[], Home], tmp_path: Path) -> None:
    """A misspelt identity takes nobody's right away: the answer says so and names who reads."""
    here = home()
    (tmp_path / "a.txt").write_text("text")
    where = ("source", "register", str(tmp_path / "a.txt"), "--licence", "MIT", *FORM)
    here.ask(*where, "--name", "b", "--identity", "svc")
    wrong = here.ask("source", "revoke", "b", "--identity", "scv")
    right = here.ask("source", "revoke", "b", "--identity", "svc", "--json")

    assert "no registration names scv as reader, so nothing changes; readers: svc" in wrong.out
    assert right.document["reads"]


@pytest.mark.requirement("R056")
def test_why_nobody_has_to_permit_the_reading(home: Callable[[], Home], tmp_path: Path) -> None:
    """What is open to all is recorded with its reason, and is another value than unrecorded."""
    here = home()
    (tmp_path / "a.txt").write_text("text")
    where = ("source", "register", str(tmp_path / "a.txt"), "--licence", "MIT", *FORM)
    here.ask(*where, "--name", "open", "--open-because", "published for everybody")
    here.ask(*where, "--name", "quiet")

    told = "permitted: no permission needed: published for everybody"
    assert told in here.ask("source", "show", "open").out
    assert "permitted: unrecorded" in here.ask("source", "show", "quiet").out


@pytest.mark.requirement("R037")
def test_a_twin_at_the_same_address_is_told(home: Callable[[], Home], tmp_path: Path) -> None:
    """A withdrawal binds one registration: another name of the same data is named, so that nobody overlooks it."""
    here = home()
    (tmp_path / "a.txt").write_text("text")
    where = ("source", "register", str(tmp_path / "a.txt"), "--licence", "MIT", *FORM, "--json")
    twins = [here.ask(*where, "--name", name).document["source_id"] for name in ("one", "two")]

    told = here.ask("withdraw", twins[0], "--reason", "over", "--json").document["same_address"]

    assert [{"source_id": twins[1], "name": "two", "withdrawn": False}] == told
    assert f"{twins[1]} (two) is registered at the same address and is not withdrawn" in (
        here.ask("withdraw", twins[0], "--dry-run").out
    )


@pytest.mark.requirement("R037")
def test_registering_again_tells_what_it_replaces_and_what_was_withdrawn(
    home: Callable[[], Home], tmp_path: Path
) -> None:
    """Other rights under the same name are named, and so is a withdrawal of the same data under another name."""
    here = home()
    (tmp_path / "a.txt").write_text("text")
    where = ("source", "register", str(tmp_path / "a.txt"), *FORM, "--json")
    first = here.ask(*where, "--name", "one", "--licence", "MIT")
    again = here.ask(*where, "--name", "one", "--licence", "ISC")
    here.ask("withdraw", "one", "--reason", "over")
    other = here.ask(*where, "--name", "two", "--licence", "ISC")

    assert (0, {}) == (first.code, first.document["replaces"])
    assert (0, ["MIT", "ISC"]) == (again.code, again.document["replaces"]["licence"])
    assert (1, [first.document["source_id"]]) == (other.code, other.document["withdrawn_at_this_address"])


NO_TEXT = "\udcff"


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        pytest.param(("register", ".", "--name", "b", *FORM, "--licence", NO_TEXT), "licence", id="licence"),
        pytest.param(
            ("register", ".", "--name", NO_TEXT, *FORM, "--licence", "MIT"), "source name", id="name"
        ),
        pytest.param(("revoke", SOURCE, "--identity", NO_TEXT), "--identity", id="identity"),
        pytest.param(("grant", SOURCE, "--identity", "x", "--reason", NO_TEXT), "--reason", id="reason"),
    ],
)
def test_bytes_that_are_no_text_are_named(seeded: Home, arguments: tuple[str, ...], field: str) -> None:
    """A locale that is none, a name in another encoding: the field is named, and nothing is written."""
    answer = seeded.ask("source", *arguments, "--json")

    assert (2, "bad_input") == (answer.code, answer.document["error"]["code"])
    assert answer.document["error"]["message"].startswith(f"{field}: is not Unicode text")


def test_a_scope_of_nothing_is_refused(home: Callable[[], Home], tmp_path: Path) -> None:
    """A blank use would allow runs that state no use at all."""
    (tmp_path / "a.txt").write_text("text")
    form = [word for word in FORM if word not in {"--usage-scope", "research", "internal"}]
    answer = home().ask(
        "source",
        "register",
        str(tmp_path / "a.txt"),
        "--name",
        "b",
        "--licence",
        "MIT",
        *form,
        "--usage-scope",
        " ",
    )

    assert 2 == answer.code
    assert "usage_scope" in answer.err


def test_a_name_of_two_sources_is_refused_with_their_ids(home: Callable[[], Home], tmp_path: Path) -> None:
    """Both candidates are named with their addresses; an id is never ambiguous."""
    here = home()
    ids = []
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "a.txt").write_text(place)
        words = ["--name", "twin", "--licence", "Contract 7", *FORM, "--json"]
        made = here.ask("source", "register", str(tmp_path / place), *words).document
        assert "contract: Contract 7" == made["licence"]
        ids.append(made["source_id"])
    refused = here.ask("withdraw", "twin", "--dry-run")

    assert 2 == refused.code
    assert all(source in refused.err for source in ids)
    assert 0 == here.ask("withdraw", ids[0], "--dry-run").code


def test_croissant_to_terminal_and_file(home: Callable[[], Home], tmp_path: Path) -> None:
    """The description is printed or written; a snapshot that the ledger does not know has no invented rights."""
    here = home()
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text("text")
    assert 0 == here.ask("snapshot", "create", str(folder), "--name", "texts").code
    printed = here.ask("snapshot", "croissant", "texts")
    target = tmp_path / "croissant.json"
    written = here.ask("snapshot", "croissant", "texts@1", "--output", str(target), "--json")

    document = json.loads(printed.out)
    assert (0, 0) == (printed.code, written.code)
    assert document == json.loads(target.read_text(encoding="utf-8"))
    assert str(target) == written.document["output"]
    assert "texts" == document["name"]
    assert not {"license", "creator", "usageInfo", "conditionsOfAccess"} & document.keys()
