"""The page says in Chinese what items say in English: every check, hint and result; data stay as they are."""

from __future__ import annotations

import ast
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.support.packages import memory_ledger
from tests.support.seeded_run import seed_run
from tests.unit.package.test_items import altered, without

from pretrain_archive import package
from pretrain_archive.domain.kinds import KINDS
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item
from pretrain_archive.gates.sources import with_sources
from pretrain_archive.package.html import render_index
from pretrain_archive.package.items import evidence_items
from pretrain_archive.package.words import EVENTS
from pretrain_archive.package.words_items import SENTENCES, chinese
from pretrain_archive.package.words_kinds import KIND_WORDS
from pretrain_archive.storage.files import FileStore

FOLDER = Path(package.__path__[0])
HAN = re.compile(r"[\u4e00-\u9fff]")
MODULES = sorted(path for path in FOLDER.glob("items*.py"))
SAID = {"hint", "check", "text", "access"}
DATA = {"run.summary", "data.source", "data.snapshot", "compute.configuration", "artifact.candidate"}
DATA |= {"artifact.evaluation", "artifact.retention", "data.access"}
"""Items whose verified result is data of the run alone."""


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> RunView:
    """A complete run."""
    folder = tmp_path_factory.mktemp("run")
    ledger = memory_ledger()
    run_uid = seed_run(ledger, FileStore(folder / "store"), folder)
    return with_sources(ledger, RunView.of(run_uid, ledger.records(streams=[run_uid])))


def sentences(path: Path) -> list[str]:
    """English sentences that a module's code gives as hint, check, text or access, with blanks filled by 7."""
    found: list[ast.expr] = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.keyword) and node.arg in SAID:
            found.append(node.value)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value] * len(names)
                pairs = zip(names, values, strict=False)
                found += [value for name, value in pairs if isinstance(name, ast.Name) and name.id in SAID]
    texts = [text for value in found for text in texts_in(value)]
    return [text for text in texts if re.search(r"[A-Za-z]{3,} [A-Za-z(]", text)]


def texts_in(value: ast.expr) -> list[str]:
    """The texts that an expression may give; what is inside of a joined text is not one of its own."""
    if isinstance(value, ast.JoinedStr):
        return ["".join(str(part.value) if isinstance(part, ast.Constant) else "7" for part in value.values)]
    if isinstance(value, ast.Constant):
        return [value.value] if isinstance(value.value, str) else []
    return [
        text for part in ast.iter_child_nodes(value) if isinstance(part, ast.expr) for text in texts_in(part)
    ]


@pytest.mark.parametrize("path", [*MODULES, FOLDER / "evidence.py"], ids=lambda path: path.stem)
def test_every_sentence_in_the_code_has_a_chinese_one(path: Path) -> None:
    """A hint or check that is added without Chinese words is found here."""
    missing = [text for text in sentences(path) if not any(HAN.search(chinese(i, text)) for i in SENTENCES)]

    assert [] == missing


def test_the_code_is_read(full: RunView) -> None:
    """The search above sees the hints and checks of every item."""
    seen = {text for path in MODULES for text in sentences(path)}

    assert 30 < len(seen)
    items = evidence_items(RunView.of("run_x", []))
    assert {item.hint for item in items if not item.id.startswith(("gate.", "run.people"))} <= seen
    assert {item.check for item in evidence_items(full) if item.track != "data"} - seen <= {
        item.check for item in evidence_items(full) if item.id.startswith("track.")
    }


def views(full: RunView) -> list[RunView]:
    """Runs whose items come out in every way."""
    kinds = sorted({record.kind for record in full.records})
    wrong = {"checkpoint_digest": "sha256:" + "0" * 64}
    changes = [
        ("candidate.named", wrong),
        ("evaluation.reported", wrong),
        ("evaluation.reported", {"baselines": []}),
        ("evaluation.reported", {"passed": False}),
        ("environment.observed", {"differences": [{"field": "torch"}]}),
        ("gate.decision", {"decision": "reject"}),
        ("gate.decision", {"dossier_record": "rec_none"}),
        ("gate.decision", {"self_signed": True}),
        ("gate.dossier", {"gate": "review"}),
        ("quality.reported", {"snapshot": "other@1"}),
    ]
    found = [RunView.of("run_x", []), full, *(without(full, kind) for kind in kinds)]
    found += [altered(full, kind, lambda payload, new=new: payload.update(new)) for kind, new in changes]
    return found


def test_every_item_speaks_chinese(full: RunView) -> None:
    """Check and hint always, the result unless it is data, for each way in which an item comes out."""

    def silent(item: Item) -> list[str]:
        texts = [item.check, item.hint]
        texts += [item.found] if item.verdict == "verified" and item.id not in DATA else []
        return [text for text in texts if text and not HAN.search(chinese(item.id, text))]

    items = [item for view in views(full) for item in evidence_items(view)]

    assert [] == [(item.id, text) for item in items for text in silent(item)]
    assert {item.id for item in items} == SENTENCES.keys() - {"reference"}


@pytest.mark.parametrize(
    ("item", "english", "expected"),
    [
        ("gate.run", "Answer the run gate.", "请在执行关口作出决定。"),
        ("gate.close", "approved by Bob (self-signed)", "Bob 批准（自签）"),
        ("gate.close", "Rejected by Bob: Not good (yet)\nsee log", "Bob 已拒绝：Not good (yet)\nsee log"),
        ("run.people", "Name in the policy: data_owner, submitter.", "请在策略中写明：数据负责人, 提交人。"),
        ("run.people", "data_owner: bob, acceptance: eve", "数据负责人: bob, 验收人: eve"),
        ("compute.events", "2 attempts", "2 次尝试"),
        ("run.summary", "Answer the run gate.", "Answer the run gate."),
        ("artifact.limits", "{0} {x} (evaluated on d@1)", "{0} {x}（在 d@1 上评估）"),
        ("unknown", "anything", "anything"),
    ],
)
def test_sentence(item: str, english: str, expected: str) -> None:
    """Values stay, words change; a sentence of another item is data."""
    assert expected == chinese(item, english)


class Rows(HTMLParser):
    """The Chinese words in the table of evidence."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.texts, self.open = False, [], 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note where a Chinese span begins."""
        self.inside = self.inside or (tag, dict(attrs).get("class")) == ("table", "items")
        self.open += self.inside and dict(attrs).get("class") == "zh"

    def handle_endtag(self, tag: str) -> None:
        """Note where it ends."""
        self.inside = self.inside and tag != "table"
        self.open = 0 if tag == "span" else self.open

    def handle_data(self, data: str) -> None:
        """Keep Chinese words."""
        if self.open:
            self.texts.append(data)


def test_page_shows_them() -> None:
    """The page of a run without records tells each gap in Chinese, with the words of the table."""
    view = RunView.of("run_x", [])
    items = evidence_items(view)
    rows = Rows()
    rows.feed(render_index(one_note(), items, ()).decode())

    assert [] == [i.id for i in items if i.id[:6] != "track." and chinese(i.id, i.hint) not in rows.texts]


def one_note() -> RunView:
    """A run with one record, which is all that a page needs."""
    from tests.support.packages import ACTOR, ORIGIN

    from pretrain_archive.domain.kinds import NoteAdded
    from pretrain_archive.domain.records import Draft

    ledger = memory_ledger()
    note = NoteAdded(topic="note", text="b")
    ledger.append(
        [Draft(stream="run_x", kind="note.added", payload=note.to_json(), actor=ACTOR, origin=ORIGIN)]
    )
    return RunView.of("run_x", ledger.records(streams=["run_x"]))


def test_every_kind_is_told_in_both_languages_on_the_timeline() -> None:
    """No event of a known kind stands there as its code."""
    told = {kind: KIND_WORDS.get(kind) for kind in KINDS if kind not in EVENTS}

    assert [] == [kind for kind, pair in told.items() if pair is None or not HAN.search(pair[1])]
