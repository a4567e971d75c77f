"""Rules of processing carried out on snapshots in real stores."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.data_track import ACTOR, origin, write_tree
from tests.support.processing import apply, blob, content, corpus, dropped, entries, line, reasons, step

from pretrain_archive.data.processing import rules
from pretrain_archive.data.processing.applying import Applied
from pretrain_archive.data.processing.rules import declare, rule_of
from pretrain_archive.data.snapshots import create_snapshot, versions
from pretrain_archive.data.splits import create_split, part_of, read_split
from pretrain_archive.domain.errors import InputError, RefusedError, SourceChangedError, StorageError
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.kinds import RuleDeclared
from pretrain_archive.storage.files import FileStore
from pretrain_archive.storage.port import ObjectInfo

ROOT = Path(__file__).parents[3]
WORDS = [f"word{number} and more of it" for number in range(40)]
LISTS = {
    "a/l.jsonl": [line(text, domain="x") for text in WORDS[:20]],
    "b/m.jsonl.gz": [line(text, domain="y") for text in WORDS[10:30]],
    "b/n.jsonl.zst": [line(text) for text in WORDS[25:]],
}
PLAIN = {"a/1.txt": WORDS[0].encode(), "b/2.txt": b"alone\n" * 9, "3.txt": WORDS[0].encode()}


def small(store, folder, **changes):
    """A snapshot of the small corpus, not recorded."""
    root = folder / "src"
    if not root.exists():
        corpus(root, LISTS, PLAIN)
    fields = {
        "name": "corpus",
        "mode": "copy",
        "actor": ACTOR,
        "origin": origin(),
        "source_root": os.fsencode(root),
    }
    return create_snapshot(store, None, **fields | changes)


def lines_of(raw: dict[str, bytes]) -> Counter[bytes]:
    """Every line of the lists."""
    return Counter(
        row for path, text in raw.items() if "jsonl" in path for row in text.splitlines(keepends=True)
    )


@pytest.mark.requirement("R043")
def test_one_of_each(store, tmp_path):
    """The first of equal texts stays, whatever file and format it is in; kept lines are unchanged byte for byte."""
    snapshot = small(store, tmp_path)
    (made,) = apply(store, snapshot, step("deduplicate"))
    after = content(store, made.snapshot)

    assert (58, 41) == (made.account.documents_in, made.account.documents_out)
    assert {"same content": 17} == reasons(made)
    assert 40 + 1 == len(lines_of(after)) + len([path for path in after if path.endswith(".txt")])
    # "3.txt" comes first in the order of paths, so the same text in "a/1.txt" and in the list is a repeat.
    assert {"3.txt", "b/2.txt"} == {path for path in after if path.endswith(".txt")}
    assert not lines_of(after) - lines_of(content(store, snapshot))
    assert ["a/1.txt", "a/l.jsonl"] == sorted(
        {row["path"] for row in dropped(store, made)} - {"b/m.jsonl.gz", "b/n.jsonl.zst"}
    )


def test_plain_files_share_their_blobs(files, tmp_path):
    """Of plain files only the entry is written: the store holds no new bytes of them."""
    snapshot = small(files, tmp_path, include=["*.txt"])
    before = {info.key for info in files.list("blobs/")}
    (made,) = apply(files, snapshot, step("filter", min_bytes=30))

    assert {"b/2.txt"} == set(entries(files, made.snapshot))
    assert before == {info.key for info in files.list("blobs/")}


@pytest.mark.requirement("R042", "R050")
def test_second_application_is_the_same_version(files, ledger, tmp_path):
    """The same rule on the same input gives the version that exists, and the rule is declared once."""
    snapshot = small(files, tmp_path)
    first, again = (apply(files, snapshot, step("filter", min_bytes=21), ledger=ledger)[0] for _ in range(2))

    assert (1, False, 1, True) == (
        first.snapshot.version, first.snapshot.unchanged, again.snapshot.version, again.snapshot.unchanged,
    )  # fmt: skip
    (declared,) = ledger.records(kinds=["rule.declared"])
    assert declared.recorded_at == first.account.first_applied_at == again.account.first_applied_at
    assert 2 == len(list(ledger.records(kinds=["processing.applied"])))


def test_new_version_of_a_rule(files, ledger, tmp_path):
    """A higher version of a rule is another rule: a new snapshot, even where it keeps the same documents."""
    snapshot = small(files, tmp_path)
    made = [
        apply(files, snapshot, step("filter", version=version, min_bytes=21), ledger=ledger)[0].snapshot
        for version in (1, 2)
    ]

    assert [1, 2] == [found.version for found in made]
    assert made[0].manifest_digest == made[1].manifest_digest
    assert made[0].rule != made[1].rule


def test_rule_keeps_its_words(files, ledger, tmp_path):
    """Other words under a version that was applied are refused; another project may use the name."""
    snapshot = small(files, tmp_path)
    apply(files, snapshot, step("filter", min_bytes=21), ledger=ledger)

    with pytest.raises(RefusedError, match=r"version 1 was applied .* other words \(min_bytes\)") as raised:
        apply(files, snapshot, step("filter", min_bytes=26), ledger=ledger)
    assert "higher version" in raised.value.hint
    apply(files, snapshot, step("filter", min_bytes=26), ledger=ledger, project="other")


def test_rule_of_two_projects(files, ledger, tmp_path):
    """A rule that another project declared in the same words is still this project's own, and keeps its words."""
    snapshot = small(files, tmp_path)
    for project in ("one", "two"):
        apply(files, snapshot, step("filter", min_bytes=21), ledger=ledger, project=project)

    assert ["one", "two"] == [r.payload["project"] for r in ledger.records(kinds=["rule.declared"])]
    with pytest.raises(RefusedError, match="with other words"):
        apply(files, snapshot, step("filter", min_bytes=26), ledger=ledger, project="two")


def test_rule_of_two_words_at_once(ledger, monkeypatch):
    """Of two runs that declare other words in the same moment, each seeing no rule yet, one is refused."""
    first, second = (rule_of(step("filter", min_bytes=size), project="p") for size in (1, 2))
    declare(ledger, first, actor=ACTOR, origin=origin())
    known, asked = rules._known, []

    def blind_once(*words):
        asked.append(1)
        return None if len(asked) == 1 else known(*words)

    monkeypatch.setattr(rules, "_known", blind_once)
    with pytest.raises(RefusedError, match="with other words"):
        declare(ledger, second, actor=ACTOR, origin=origin(task_id="other"))


def test_rule_not_in_force(files, tmp_path):
    """A rule of the future is refused before anything is read or written, also behind another step."""
    snapshot = small(files, tmp_path)
    later = step("sample", seed=1, share=0.5, effective_from="2999-01-01T00:00:00Z")

    with pytest.raises(RefusedError, match="takes effect at 2999"):
        apply(files, snapshot, step("filter", min_bytes=21), later)
    assert [] == versions(files, "corpus.filtered")


@pytest.mark.requirement("R043")
def test_edges_name_input_and_rule(files, ledger, tmp_path):
    """What a step made rests on its input and on its rule, and so backward to the pool."""
    snapshot = small(files, tmp_path)
    made = apply(files, snapshot, step("filter", min_bytes=21), step("deduplicate"), ledger=ledger)
    last = Ref(type="snapshot", id="corpus.deduplicated", version="1")
    found = {str(node) for node in ledger.trace(last, direction="backward").nodes}

    assert {"snapshot:corpus@1", "snapshot:corpus.filtered@1", *(one.snapshot.rule for one in made)} <= found
    assert ["snapshot:corpus@1", "snapshot:corpus.filtered@1"] == [one.snapshot.derived_from for one in made]


FILTERS = [
    pytest.param({"min_bytes": 100}, b"x" * 99, "min_bytes", id="short"),
    pytest.param({"max_bytes": 150}, b"x" * 151, "max_bytes", id="long"),
    pytest.param({"extensions": ["md"]}, b"words", "extension", id="ending"),
    pytest.param({"include": ["b/**"]}, b"words", "include", id="not included"),
    pytest.param({"exclude": ["a"]}, b"words", "exclude", id="in an excluded folder"),
    pytest.param(
        {"licence_header": ["SPDX-License-Identifier: MIT"]}, b"# no licence", "licence_header", id="header"
    ),
    pytest.param({"max_line_bytes": 50}, b"x" * 51, "max_line_bytes", id="a long line"),
    pytest.param({"min_alphabetic_ratio": 0.5}, b"1234567890", "min_alphabetic_ratio", id="digits"),
    pytest.param({"max_repetition_ratio": 0.5}, b"same\n" * 9, "max_repetition_ratio", id="repeats"),
    pytest.param({"max_control_characters": 0}, b"bell \x07", "max_control_characters", id="controls"),
    pytest.param({}, b"caf\xe9", "not text: encoding", id="not UTF-8"),
    pytest.param({}, b"\0\1\2", "not text: binary", id="binary"),
    pytest.param({}, b" \n", "empty", id="blank"),
]


@pytest.mark.parametrize(("fields", "raw", "reason"), FILTERS)
def test_each_filter_has_its_reason(files, tmp_path, fields, raw, reason):
    """A document that fails one test is dropped with the name of it; one that passes is kept."""
    good = b"SPDX-LICENSE-identifier: mit\nsome words of their own, one after another,\n"
    good += b"as people write them down in a text\n"
    root = write_tree(tmp_path / "src", {b"a/doc.txt": raw, b"b/good.md": good})
    (made,) = apply(files, small(files, tmp_path, source_root=os.fsencode(root)), step("filter", **fields))

    assert {reason: 1} == reasons(made)
    assert {"b/good.md"} == set(entries(files, made.snapshot))
    (listed,) = dropped(files, made)
    assert ("a/doc.txt", 0, reason) == (listed["path"], listed["line"], listed["reason"])


def test_language_where_known(files, tmp_path):
    """A list's declared language is compared; a document that declares none is kept."""
    lists = {"l.jsonl": [line("one", language="en"), line("deux", language="fr"), line("three")]}
    root = corpus(tmp_path / "src", lists)
    (made,) = apply(
        files, small(files, tmp_path, source_root=os.fsencode(root)), step("filter", languages=["en"])
    )

    assert {"language": 1} == reasons(made)
    assert lists["l.jsonl"][0] + lists["l.jsonl"][2] == content(files, made.snapshot)["l.jsonl"]


@pytest.mark.case("Q01")
def test_broken_records_are_dropped_by_name(store, tmp_path):
    """Broken and blank lines are counted, located and not carried on, and no byte is unaccounted for."""
    good = [line("first"), line("second")]
    raw = [good[0], b"{ cut\n", b"\n", good[1], b'{"text": 3}\n']
    root = corpus(tmp_path / "src", {"l.jsonl.gz": raw})
    (made,) = apply(store, small(store, tmp_path, source_root=os.fsencode(root)), step("filter"))

    assert {"broken: damaged": 2, "bytes of broken records": 0} == reasons(made)
    assert [2, 5] == [row["line"] for row in dropped(store, made)]
    assert b"".join(good) == content(store, made.snapshot)["l.jsonl.gz"]
    assert (4, 2, len(b"".join(raw))) == (
        made.account.documents_in, made.account.documents_out, made.account.bytes_in,
    )  # fmt: skip


@pytest.mark.case("Q03")
def test_cut_gzip(files, tmp_path):
    """Of a list whose packing is cut the records before the cut go on, and the cut is a dropped document."""
    root = corpus(
        tmp_path / "src",
        {"l.jsonl.gz": [line(f"{number} {random.Random(number).random()}") for number in range(500)]},
    )
    path = root / "l.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-200])
    (made,) = apply(files, small(files, tmp_path, source_root=os.fsencode(root)), step("filter"))

    assert 1 == reasons(made)["broken: truncated gzip"]
    assert 200 < made.account.documents_out < 500


def test_nothing_left(files, ledger, tmp_path):
    """A step that leaves nothing is refused with its name and the reasons; no version and no account exist."""
    snapshot = small(files, tmp_path)

    with pytest.raises(InputError, match=r"leaves no document of 58 .*58 min_bytes.*filter-it") as raised:
        apply(files, snapshot, step("filter", min_bytes=1000), ledger=ledger)
    assert "no version was made" in raised.value.hint
    assert [] == versions(files, "corpus.filtered")
    assert [] == list(ledger.records(kinds=["processing.applied", "snapshot.created"]))


def test_rows_are_refused(files, tmp_path):
    """A step does not pretend to cut rows out of CSV; left out by its name it is no obstacle."""
    root = write_tree(tmp_path / "src", {b"t.csv": b"text\na\n", b"a.txt": b"words"})
    snapshot = small(files, tmp_path, source_root=os.fsencode(root))

    with pytest.raises(InputError, match=r"rows of CSV or packed Parquet.*t\.csv"):
        apply(files, snapshot, step("deduplicate"))
    (made,) = apply(files, snapshot, step("filter", exclude=["*.csv"]))
    assert {"exclude": 1} == reasons(made)


@pytest.mark.requirement("R043")
def test_mixture_reaches_its_shares(files, tmp_path):
    """Each domain has its share of bytes, to the size of one document, and the scarcest is used up."""
    chance = random.Random(5)
    texts = {
        name: ["w" * chance.randint(1, 60) + str(n) for n in range(count)]
        for name, count in zip("xyz", (300, 200, 90), strict=True)
    }
    lists = {f"{name}.jsonl": [line(text, domain=name) for text in found] for name, found in texts.items()}
    root = corpus(tmp_path / "src", lists)
    rule = step("mix", seed=3, weights={"x": 5, "y": 3, "*": 2})
    (made,) = apply(files, small(files, tmp_path, source_root=os.fsencode(root)), rule)
    sizes = {path[0]: len(raw) for path, raw in content(files, made.snapshot).items()}
    longest = max(len(row) for rows in lists.values() for row in rows)

    used_up = {name for name in "xyz" if sizes[name] == sum(map(len, lists[f"{name}.jsonl"]))}
    total = made.account.bytes_out
    assert 1 == len(used_up)
    for name, share in (("x", 0.5), ("y", 0.3), ("z", 0.2)):
        assert abs(sizes[name] - share * total) < 3 * longest


def test_targets_and_unnamed_domains(files, tmp_path):
    """Targets bound each domain in bytes; a domain without a name is left out with a reason of its own."""
    (made,) = apply(files, small(files, tmp_path), step("mix", seed=1, targets={"x": 400, "b": 10**9}))
    after = content(files, made.snapshot)

    assert 300 < len(after["a/l.jsonl"]) <= 400
    assert {"b/n.jsonl.zst", "b/2.txt", "a/l.jsonl"} == set(after)
    assert 20 + 1 + 1 == reasons(made)["domain not in the mixture"]


def test_absent_domain(files, tmp_path):
    """A domain that has no document is an error that names the domains there are."""
    with pytest.raises(InputError, match="no document of this domain") as raised:
        apply(files, small(files, tmp_path), step("mix", seed=1, weights={"x": 1, "law": 1}))
    assert "x" in raised.value.hint


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        pytest.param("sample", {"seed": 7, "share": 0.4}, id="share"),
        pytest.param("sample", {"seed": 7, "documents": 13}, id="documents"),
        pytest.param("sample", {"seed": 7, "bytes": 700}, id="bytes"),
        pytest.param("mix", {"seed": 7, "weights": {"d": 1, "e": 2}}, id="mix"),
    ],
)
def test_order_has_no_say(files, tmp_path, kind, fields):
    """The same documents in another order and other files give the same chosen documents."""
    rows = [line(text, domain="de"[number % 2]) for number, text in enumerate(WORDS)]
    chosen = []
    for number in range(2):
        random.Random(number).shuffle(rows)
        root = corpus(
            tmp_path / f"s{number}", {"1.jsonl": rows[: 9 + 9 * number], "2.jsonl": rows[9 + 9 * number :]}
        )
        (made,) = apply(files, small(files, tmp_path, source_root=os.fsencode(root)), step(kind, **fields))
        chosen.append(lines_of(content(files, made.snapshot)))

    assert chosen[0] == chosen[1]
    assert 0 < chosen[0].total() < len(rows)


def test_sample_has_its_size(files, tmp_path):
    """A size in documents is met exactly; another seed is another sample."""
    snapshot = small(files, tmp_path, include=["*n.jsonl.zst"])
    one, two = (
        apply(files, snapshot, step("sample", name=f"s{seed}", seed=seed, documents=7))[0] for seed in (1, 2)
    )

    assert 7 == one.account.documents_out == two.account.documents_out
    assert lines_of(content(files, one.snapshot)) != lines_of(content(files, two.snapshot))
    assert [1, 2] == [one.snapshot.version, two.snapshot.version]


def test_cleaning_rewrites_only_the_text(files, tmp_path):
    """Changed documents are counted; of a changed line only the text differs, an unchanged one is untouched."""
    rows = [line("a\r\nb"), line("fine"), line("cafe\u0301 \u0007!")]
    root = corpus(tmp_path / "src", {"l.jsonl.gz": rows}, {"p.txt": b"x\r\ny\n", "q.txt": b"same\n"})
    rule = step("clean", line_ends=True, unicode_nfc=True, strip_controls=True)
    (made,) = apply(files, small(files, tmp_path, source_root=os.fsencode(root)), rule)
    after = content(files, made.snapshot)

    expected = rows[0].replace(b"\\r\\n", b"\\n") + rows[1] + line("caf\u00e9 !")
    assert {"l.jsonl.gz": expected, "p.txt": b"x\ny\n", "q.txt": b"same\n"} == after
    assert (3, 5, {}) == (made.account.changed_documents, made.account.documents_out, reasons(made))
    assert made.account.bytes_out == made.account.bytes_in + made.account.bytes_rewritten


def test_near_duplicates_go(files, tmp_path):
    """Texts that differ in a word are left out but the first; a different text stays."""
    words = [f"w{number}" for number in range(120)]
    near = " ".join(["other", *words[1:]])
    rows = [line(" ".join(words)), line(near), line(" ".join(reversed(words)))]
    root = corpus(tmp_path / "src", {"l.jsonl": rows})
    rule = step("deduplicate", by="near", threshold=0.8)
    (made,) = apply(files, small(files, tmp_path, source_root=os.fsencode(root)), rule)

    assert rows[0] + rows[2] == content(files, made.snapshot)["l.jsonl"]
    assert (1, 1) == (made.account.observed["near_pairs"], len(dropped(files, made)))


def test_normalised_duplicates(files, tmp_path):
    """Case, white space and the form of accents make no difference where the rule says so."""
    rows = [line("Caf\u00e9  au lait"), line("cafe\u0301 AU\nlait "), line("tea")]
    root = corpus(tmp_path / "src", {"l.jsonl": rows})
    snapshot = small(files, tmp_path, source_root=os.fsencode(root))
    exact, normal = (
        apply(files, snapshot, step("deduplicate", by=by, output=by))[0] for by in ("content", "normalised")
    )

    assert (3, 2) == (exact.account.documents_out, normal.account.documents_out)


def test_reference_becomes_a_copy(files, tmp_path):
    """What a step keeps of a snapshot by reference is put into the store; a file that changed since is refused."""
    snapshot = small(files, tmp_path, mode="reference", include=["*.txt"])
    (made,) = apply(files, snapshot, step("filter", min_bytes=30))
    assert ("copy", {"b/2.txt": PLAIN["b/2.txt"]}) == (made.snapshot.mode, content(files, made.snapshot))

    (tmp_path / "src/a/1.txt").write_bytes(b"other words of the same kind")
    with pytest.raises(SourceChangedError, match=r"a/1\.txt: changed since"):
        apply(files, snapshot, step("sample", seed=1, share=1.0))
    assert [] == versions(files, "corpus.sampled")


@pytest.mark.parametrize("now", [b"short\n", b"alone\n" * 20, b"other\n" * 9, b"\xff\xfe"])
def test_changed_file_of_a_reference_is_no_input(files, tmp_path, now):
    """A file that changed since its snapshot is neither kept nor dropped for what it says now."""
    snapshot = small(files, tmp_path, mode="reference")
    (tmp_path / "src/b/2.txt").write_bytes(now)

    with pytest.raises(StorageError, match=r"b/2\.txt: its bytes are not those"):
        apply(files, snapshot, step("filter", min_bytes=20, max_bytes=100))


def test_links_are_told(files, tmp_path):
    """Links are no documents and go no further; the account says how many there were."""
    root = corpus(tmp_path / "src", LISTS, PLAIN)
    (root / "also.txt").symlink_to("3.txt")
    (made,) = apply(files, small(files, tmp_path), step("sample", seed=1, share=1))

    assert {"links_left_out": 1} == made.account.observed
    assert "also.txt" not in entries(files, made.snapshot)


def test_damaged_object_is_no_input(files, tmp_path):
    """A step does not rest on stored bytes that are not those of the manifest."""
    snapshot = small(files, tmp_path)
    digest = entries(files, snapshot)["a/l.jsonl"].sha256.removeprefix("sha256:")
    path = files.folder / "blobs/sha256" / digest[:2] / digest
    path.write_bytes(path.read_bytes().replace(b"word3", b"words"))

    with pytest.raises(StorageError, match=r"a/l\.jsonl: its bytes are not those of the snapshot"):
        apply(files, snapshot, step("filter"))
    assert [] == versions(files, "corpus.filtered")


DOCS = st.lists(
    st.tuples(st.sampled_from(["a.jsonl", "b.jsonl.gz"]), st.sampled_from([*WORDS[:6], "", "\u00e9" * 30])),
    max_size=25,
)
RULES = st.sampled_from([
    step("filter", min_bytes=20), step("deduplicate"), step("deduplicate", by="normalised"),
    step("sample", seed=3, share=0.5), step("sample", seed=3, bytes=200), step("clean", unicode_nfc=True),
    step("mix", seed=1, targets={".": 300}),
])  # fmt: skip


@pytest.mark.requirement("R043", "R050")
@given(docs=DOCS, broken=st.integers(0, 3), rule=RULES)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nothing_is_lost_and_nothing_won(tmp_path, docs, broken, rule):
    """In = out + dropped for documents and bytes, against a count of the test's own, and every drop is listed."""
    folder = tmp_path / os.urandom(6).hex()
    lists: dict[str, list[bytes]] = {"a.jsonl": [line("always here")]}
    for name, text in docs:
        lists.setdefault(name, []).append(line(text))
    lists["a.jsonl"] += [b"{ broken\n"] * broken
    store = FileStore(folder / "store")
    snapshot = small(store, folder, source_root=os.fsencode(corpus(folder / "src", lists)))
    try:
        (made,) = apply(store, snapshot, rule)
    except InputError:  # nothing was left, which the rule may do
        return
    after = content(store, made.snapshot)
    account = made.account

    assert sum(map(len, lists.values())) == account.documents_in
    assert sum(len(b"".join(rows)) for rows in lists.values()) == account.bytes_in
    assert lines_of(after).total() == account.documents_out
    assert sum(map(len, after.values())) == account.bytes_out
    assert not lines_of(after) - lines_of({name: b"".join(rows) for name, rows in lists.items()})
    assert account.documents_in - account.documents_out == len(dropped(store, made))


KILLED = """
import os, signal, sys
from tests.integration.data.test_processing import apply, small, step
from pathlib import Path
from pretrain_archive.storage.files import FileStore

class Dying(FileStore):
    count = 0
    def put_if_absent(self, key, data):
        done = super().put_if_absent(key, data)
        Dying.count += key.startswith(sys.argv[2])
        if Dying.count == int(sys.argv[3]):
            os.kill(os.getpid(), signal.SIGKILL)
        return done

folder = Path(sys.argv[1])
store = Dying(folder / "store")
apply(store, small(FileStore(folder / "store"), folder), step("filter", min_bytes=21))
"""


@pytest.mark.parametrize(
    ("prefix", "number"),
    [
        pytest.param("processing/", 2, id="between two lists"),
        pytest.param("blobs/", 1, id="after the first list's bytes"),
        pytest.param("dropped/", 1, id="before the manifest"),
        pytest.param("manifests/", 1, id="before the version"),
    ],
)
def test_killed_in_the_middle(tmp_path, prefix, number):
    """Kill -9 leaves no version; the next try makes the same one and leaves no work file."""
    snapshot = small(FileStore(tmp_path / "store"), tmp_path)
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), prefix, str(number)],
        cwd=ROOT, check=False, timeout=60,
    )  # fmt: skip
    assert -signal.SIGKILL == ended.returncode
    store = FileStore(tmp_path / "store")
    assert [] == versions(store, "corpus.filtered")
    finished = len(list(store.list("processing/")))
    assert prefix == "blobs/" or finished >= 2

    (made,) = apply(store, snapshot, step("filter", min_bytes=21))
    fresh = FileStore(tmp_path / "fresh")
    (expected,) = apply(fresh, small(fresh, tmp_path), step("filter", min_bytes=21))
    assert expected.snapshot.manifest_digest == made.snapshot.manifest_digest
    assert expected.account.dropped == made.account.dropped
    assert expected.account.dropped_digest == made.account.dropped_digest
    assert [] == list(store.list("processing/"))


def test_finished_lists_are_not_read_through(files, tmp_path, monkeypatch):
    """What an earlier try has finished is taken by its digest: no line of it is parsed again."""
    from pretrain_archive.data.processing import engine, rewriting

    snapshot, rule = small(files, tmp_path), step("filter", min_bytes=21)
    monkeypatch.setattr(engine, "_refuse_empty", _give_up)
    with pytest.raises(KeyboardInterrupt):
        apply(files, snapshot, rule)
    monkeypatch.undo()
    parsed: list[str] = []
    read = rewriting.documents
    monkeypatch.setattr(
        rewriting,
        "documents",
        lambda entry, *words, **more: parsed.append(entry.path) or read(entry, *words, **more),
    )
    apply(files, snapshot, rule)

    assert {"a/1.txt", "b/2.txt", "3.txt"} == set(parsed)


def _give_up(*_):
    raise KeyboardInterrupt


def test_another_run_ends_while_this_one_looks(files, tmp_path, monkeypatch):
    """What is remembered of a list may go between two looks: the run that ended first removes it, this one reads on."""
    snapshot = small(files, tmp_path)
    (first,) = apply(files, snapshot, step("filter", min_bytes=21))
    stat = type(files).stat

    def there_before(store, key):
        there_before.keys += [key] if key.startswith("processing/") else []
        known = there_before.keys.count(key) == 1 and key.startswith("processing/")
        return ObjectInfo(key=key, size=1) if known else stat(store, key)

    there_before.keys = []
    monkeypatch.setattr(type(files), "stat", there_before)
    (again,) = apply(files, snapshot, step("filter", min_bytes=21))

    assert 3 == len(set(there_before.keys))
    assert (first.account, True) == (again.account, again.snapshot.unchanged)


@pytest.mark.requirement("R044")
def test_split_of_lists_is_by_document(store, tmp_path):
    """Equal texts are on one side, whatever list they are in; lines are unchanged; the parts are the whole."""
    snapshot = small(store, tmp_path)
    made = create_split(
        store, None, snapshot=snapshot, seed=5, validation_fraction=0.3, actor=ACTOR, origin=origin()
    )
    sides: dict[str, set[str]] = {}
    rows: Counter[bytes] = Counter()
    for entry in read_split(store, made):
        from tests.support.processing import unpack

        raw = unpack(entry.path, blob(store, entry.sha256))
        if entry.documents is None:
            sides.setdefault(hashlib.sha256(raw).hexdigest(), set()).add(entry.split)
            continue
        assert f".{entry.split}.jsonl" in entry.path
        assert entry.documents == raw.count(b"\n")
        for row in raw.splitlines(keepends=True):
            rows[row] += 1
            text = json.loads(row)["text"].encode()
            sides.setdefault(hashlib.sha256(text).hexdigest(), set()).add(entry.split)
            assert entry.split == part_of("sha256:" + hashlib.sha256(text).hexdigest(), seed=5, fraction=0.3)

    assert rows == Counter(row for found in LISTS.values() for row in found)
    assert all(len(side) == 1 for side in sides.values())
    assert 58 == made.train_documents + made.validation_documents
    assert 0 < made.validation_documents < made.train_documents


def test_rule_payload_is_complete(files, ledger, tmp_path):
    """The account holds the rule itself, so that a package tells it without the stream of rules."""
    (made,) = apply(files, small(files, tmp_path), step("sample", seed=9, share=0.5), ledger=ledger)
    (record,) = ledger.records(kinds=["processing.applied"])
    rule = RuleDeclared(**record.payload["rule"])

    assert isinstance(made, Applied)
    assert ("sample-it", 1, {"bytes": None, "documents": None, "seed": 9, "share": 0.5, "text_field": "text"}) == (
        rule.name, rule.version, dict(rule.parameters),
    )  # fmt: skip
    assert rule.interpreter == "pretrain-archive sample 1"
