"""Story, exam and page: what a person who took no part learns from a package."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.support.packages import Built, build, memory_ledger
from tests.support.seeded_run import seed_run

from pretrain_archive.domain.errors import InputError, PackageError
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.package.exam import matches, questions, score
from pretrain_archive.package.explain import explain, explain_text
from pretrain_archive.package.html import render_index
from pretrain_archive.package.items import evidence_items
from pretrain_archive.package.sentences import short, size_text
from pretrain_archive.package.story import tell
from pretrain_archive.storage.files import FileStore

ANSWERS = {
    "snapshot": "Python-Stdlib@1",
    "licence": "psf-2.0",
    "budget_owner": "bob",
    "attempts": "2 attempts",
    "resume_2": "step 40",
    "end_1": "killed by signal 9",
    "checkpoint": "the one of step 100",
    "reason": "see record 000029-candidate.named.json",
    "result": "3.12 bit/byte",
    "baseline": "Byte 3-gram",
    "signed_prepare": "bob",
    "signed_run": "Bob Approver",
    "signed_close": "bob",
    "allowed": "research on archive procedures",
    "not_allowed": "production",
    "limits": "context of 256 bytes",
    "rollback": "Delete the release folder; the tombstone stays",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A package of a complete run."""
    return build(tmp_path_factory.mktemp("run"))


def view(folder: Path, **seed: object) -> RunView:
    """A seeded run."""
    ledger = memory_ledger()
    run_uid = seed_run(ledger, FileStore(folder / "store"), folder, **seed)  # type: ignore[arg-type]
    return RunView.of(run_uid, ledger.records(streams=[run_uid]))


@pytest.mark.requirement("R001", "R002", "R003")
def test_six_questions_are_answered_from_the_package_alone(built: Built, tmp_path: Path) -> None:
    """Input, conditions, events, reason, signers and use: each with the facts and the records behind it."""
    shutil.copytree(built.folder, tmp_path / "alone")
    told = explain(tmp_path / "alone", key=built.key)

    assert "verified" == told["verdict"]
    texts = {s["key"]: s["en"] for s in told["sentences"]}
    assert ["input", "conditions", "happened", "why", "signed", "use"] == list(texts)
    for key, words in {
        "input": ["python-stdlib@1", "60 files", "PSF-2.0"],
        "conditions": ["10 minutes", "CPU only", "bob"],
        "happened": ["2 attempts", "interrupted at step 52", "12 steps were repeated"],
        "why": ["step 100", "3.12", "8.02", "3.58"],
        "signed": ["prepare", "run", "close", "Bob Approver", "enter the registry"],
        "use": ["Research on archive procedures", "Production", "256 bytes"],
    }.items():
        assert [] == [word for word in words if word not in texts[key]], texts[key]
    assert all(s["records"] for s in told["sentences"])
    assert ["why"] == [s["key"] for s in told["sentences"] if s["unrecorded"]]  # nobody concluded yet
    assert texts["why"].endswith("A conclusion: unrecorded.")
    for language in ("en", "zh"):
        assert 20 > len(explain_text(told, language=language).splitlines()) > 12


@pytest.mark.requirement("R145")
def test_exam_is_passed_from_the_package_alone(built: Built) -> None:
    """The questions carry no answers; answers read off the package score fully."""
    asked = questions(built.folder)
    told = json.dumps(asked)
    configuration = json.loads((built.folder / "records/000005-configuration.declared.json").read_bytes())
    answers = ANSWERS | {"configuration": configuration["payload"]["configuration_digest"][7:19]}

    result = score(built.folder, answers)

    assert {q["id"] for q in asked} == answers.keys()
    assert (len(asked), len(asked), []) == (result["score"], result["asked"], result["gaps"])
    assert not any(word in told for word in ("PSF-2.0", "Bob", "3.12", "256"))


def test_wrong_and_missing_answers_point_to_the_record(built: Built) -> None:
    """A gap names where the answer stands."""
    result = score(built.folder, {"attempts": "12", "licence": "GPL"})

    gaps = {gap["id"]: (gap["reason"], gap["files"]) for gap in result["gaps"]}
    assert 0 == result["score"]
    assert ("wrong", ["records/000019-attempt.started.json"]) == gaps["attempts"]
    assert ("unanswered", ["records/000002-snapshot.created.json"]) == gaps["snapshot"]
    with pytest.raises(InputError, match="no such question"):
        score(built.folder, {"nonsense": "x"})


@pytest.mark.parametrize(
    ("given", "answer", "right"),
    [
        ("2", "2", True), ("12", "2", False), ("2.5", "2", False), ("v2", "2", False), ("step 2.", "2", True),
        ("sha256:" + "ab" * 8, "sha256:" + "ab" * 32, True), ("abab", "sha256:" + "ab" * 32, False),
        ("  BOB ", "bob", True), ("bobby", "bob", False), ("仅供研究。", "仅供研究", True),
    ],
)  # fmt: skip
def test_answers_match_as_whole_words(given: str, answer: str, right: bool) -> None:
    """Near misses do not count."""
    assert right is matches(given, (answer,))


def test_what_was_changed_is_left_out_of_the_explanation(built: Built, tmp_path: Path) -> None:
    """A forged decision is not told as a fact."""
    folder = tmp_path / "package"
    shutil.copytree(built.folder, folder)
    path = folder / "records/000033-gate.decision.json"
    path.write_bytes(path.read_bytes().replace(b"Bob Approver", b"Eve Approver"))

    told = explain(folder)

    assert "changed" == told["verdict"]
    assert ["records/000033-gate.decision.json"] == told["left_out"]
    assert "Eve" not in json.dumps(told["sentences"])
    assert "The close gate: unrecorded." in told["sentences"][4]["en"]
    assert "do not rely" in explain_text(told)


def test_folder_that_is_no_package_is_an_error(tmp_path: Path) -> None:
    """Explain and exam say what is wrong."""
    with pytest.raises(PackageError, match="not a package"):
        explain(tmp_path)
    with pytest.raises(PackageError, match="not a package"):
        questions(tmp_path / "none")


@pytest.mark.parametrize("until", ["open", "data", "prepare", "training", "evaluation", "run"])
def test_story_of_an_unfinished_run_says_unrecorded(tmp_path: Path, until: str) -> None:
    """Each stage can be told; what is not there is named in both languages."""
    told = tell(view(tmp_path, until=until))

    assert 6 == len(told)
    assert told[-1].gap
    assert "unrecorded" in told[-1].en
    assert "未记录" in told[-1].zh


def test_numbers_for_people() -> None:
    """Sizes and digests as the page prints them."""
    assert ["0 B", "999 B", "1 kB", "8.28 kB", "1.5 GB"] == [
        size_text(n) for n in (0, 999, 1000, 8281, 1_500_000_000)
    ]
    assert "01234567…89abcdef" == short("sha256:" + "0123456789abcdef" * 4)


class Tags(HTMLParser):
    """Collects tags, attributes and visible text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep tag and attributes."""
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        """Keep the text."""
        self.text += data


HOSTILE = '<script>alert(1)</script><img src=x onerror=alert(2)> "quoted" {{ 7*7 }} </title></svg>\u202e'


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    """An objective with markup is shown, never run; the template does not evaluate it."""
    run = view(tmp_path, objective=HOSTILE)
    page = render_index(run, evidence_items(run), ()).decode()
    seen = Tags(page)

    assert "<script>alert(1)</script>" in seen.text
    assert "{{ 7*7 }}" in seen.text
    assert not {"script", "img", "iframe", "object", "link", "form"} & {tag for tag, _ in seen.tags}
    assert not [a for _, attributes in seen.tags for a in attributes if a.startswith("on")]


def test_page_has_no_outside_resource(built: Built) -> None:
    """Every address is relative, inside the package, and exists."""
    page = (built.folder / "index.html").read_text()
    seen = Tags(page)
    links = [a[name] or "" for _, a in seen.tags for name in ("href", "src") if name in a]

    assert "url(" not in page
    assert "@import" not in page
    assert links
    assert [] == [link for link in links if not (built.folder / link).is_file()]


def test_both_languages_say_as_much(built: Built) -> None:
    """Each English text of the page has its Chinese twin, and Chinese ones hold Chinese."""
    page = (built.folder / "index.html").read_text()
    pairs = re.findall(
        r'<span class="en" lang="en">(.*?)</span><span class="zh" lang="zh-CN">(.*?)</span>', page
    )

    assert page.count('class="en"') == page.count('class="zh"') == len(pairs)
    assert 80 < len(pairs)
    assert [] == [pair for pair in pairs if not re.search(r"[\u4e00-\u9fff]", pair[1])]
