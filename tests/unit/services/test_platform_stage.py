"""The stage of the platform: every precondition is asked of the ledger, and a label that does not hold is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.governed import Grounds, by

from pretrain_archive.commands.governed import governed_lines
from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import InputError, RefusedError
from pretrain_archive.domain.governance_runbook import EMPTY, RUNBOOK, SYMPTOMS, WALKED, sections
from pretrain_archive.domain.governance_texts import HINTS, LABELS, STAGE, TEAMS
from pretrain_archive.domain.governance_texts import SYMPTOMS as WORDS
from pretrain_archive.gates.facts import facts_of
from pretrain_archive.package.story import tell
from pretrain_archive.services import incidents
from pretrain_archive.services.platform_boundaries import boundaries, confirm
from pretrain_archive.services.platform_stage import label, stage_document, stage_items, standing, walk

ROOT = Path(__file__).parents[3]
TEXT = "".join(f"## {name}\nwords of {name}\n" for name in WALKED)
PLATFORM = """
[platform]
experts = []
runbook_authors = ["ann"]
drill_projects = ["drill"]
drill_valid_days = 90

[platform.teams]
training = "tina"
platform = "pat"
storage = "sam"
network = "ned"
"""


@dataclass
class Ready:
    """A project of which every precondition holds."""

    grounds: Grounds
    drill: str = ""

    @property
    def files(self) -> incidents.Grounds:
        """The project's files."""
        return incidents.Grounds(root=self.grounds.folder, policies=self.grounds.lookup)

    @property
    def missing(self) -> list[str]:
        """What does not hold, by id and verdict."""
        items = stage_items(self.grounds.ledger, self.grounds.lookup("p").policy, self.files)
        return [f"{item.id} {item.verdict.value}" for item in items if item.verdict.value != "verified"]

    def label(self, person: str = "bob") -> Any:
        """Call it a shared service."""
        return label(self.grounds.ledger, self.grounds.lookup("p"), self.files, by(person))

    def drill_again(self, **changes: Any) -> None:
        """A further drill, which passes but for the changes."""
        self.grounds.drill(self.grounds.open("drill"), **changes)

    def walked(self, **changes: Any) -> None:
        """Somebody on call walked through the runbook."""
        person = changes.pop("person", "olga")
        walk(self.grounds.ledger, self.grounds.lookup("p").policy, self.files, by(person),
             drill_run=self.drill, **changes)  # fmt: skip


@pytest.fixture
def ready(tmp_path: Path) -> Ready:
    """Everything holds."""
    grounds = Grounds(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / RUNBOOK).write_text(TEXT)
    grounds.policy("p", PLATFORM)
    made = Ready(grounds, drill=grounds.open("drill"))
    grounds.attempt(made.drill, {"node": "n1"}, number=2)
    grounds.drill(made.drill)
    made.walked()
    for team, person in (("training", "tina"), ("platform", "pat"), ("storage", "sam"), ("network", "ned")):
        confirm(
            grounds.ledger, grounds.lookup, by(person), project="p", team=team, answers_for=f"all of {team}"
        )
    grounds.ledger.seal()
    return made


@pytest.mark.requirement("R238", "R248")
def test_everything_holds(ready: Ready) -> None:
    """Then, and by the platform owner, the project is called a shared service, with all the evidence."""
    assert [] == ready.missing
    with pytest.raises(RefusedError, match="eve is not the platform owner"):
        ready.label("eve")
    record = ready.label()

    policy = ready.grounds.lookup("p")
    assert 8 == len(record.payload["checks"])
    assert "shared_service" == standing(ready.grounds.ledger, policy.policy, policy.digest)["label"]
    document = stage_document(ready.grounds.ledger, policy, ready.files)
    assert (True, False) == (document["ready"], document["lapsed"])


def _gap_drill(ready: Ready) -> None:
    ready.grounds.drill(ready.grounds.open("p"), passed=False)


def _gap_changed(ready: Ready) -> None:
    ready.grounds.add("change/c", kinds.PlatformWidened(
        change_id="c", stage=1, share=0.5, person="pat", authentication="x", at="2026-11-30T00:00:00Z"
    ))  # fmt: skip


def _gap_taken_back(ready: Ready) -> None:
    _gap_changed(ready)
    ready.drill_again()
    ready.grounds.add("change/c", kinds.PlatformRolledBack(
        change_id="c", reason="slow", way="as before", person="pat", authentication="x", at="2026-11-30T00:00:00Z"
    ))  # fmt: skip


def _gap_target(ready: Ready) -> None:
    ready.drill_again(target="kubernetes")


def _gap_empty_drill(ready: Ready) -> None:
    ready.drill_again(checks=[])


def _gap_empty_section(ready: Ready) -> None:
    (ready.grounds.folder / RUNBOOK).write_text(TEXT.replace("words of Who to ask", ""))
    ready.walked()


def _gap_inner_section(ready: Ready) -> None:
    inner = "words of Recovery, step by step\n### After that\nelse"
    (ready.grounds.folder / RUNBOOK).write_text(TEXT.replace("words of Recovery, step by step", inner))


def _gap_runbook(ready: Ready) -> None:
    (ready.grounds.folder / RUNBOOK).write_text(TEXT.replace("## Who to ask", "## Whom to ask"))


def _gap_rewritten(ready: Ready) -> None:
    (ready.grounds.folder / RUNBOOK).write_text(TEXT.replace("words of Recovery", "other words of Recovery"))


def _gap_incident(ready: Ready) -> None:
    told = incidents.Report(severity="major", title="x", impact="y")
    incidents.open_incident(ready.grounds.ledger, ready.files, told, by("olga"))


def _policy(**changes: str) -> Callable[[Ready], None]:
    def act(ready: Ready) -> None:
        text = PLATFORM
        lines = {k: v for k, v in changes.items() if f"\n{k} = " in PLATFORM}
        for key, value in lines.items():
            old = next(line for line in PLATFORM.splitlines() if line.startswith(f"{key} = "))
            text = text.replace(old, f"{key} = {value}" if value else "")
        ready.grounds.policy("p", text, **{k: v for k, v in changes.items() if k not in lines})

    return act


@pytest.mark.requirement("R238", "R248")
@pytest.mark.parametrize(
    ("act", "missing"),
    [
        pytest.param(_gap_drill, ["stage.drill changed"], id="the newest drill found a gap"),
        pytest.param(_gap_changed, ["stage.drill changed"], id="the platform changed since"),
        pytest.param(_gap_taken_back, ["stage.drill changed"], id="a stage was taken back since"),
        pytest.param(_gap_target, ["stage.drill changed"], id="a drill on another target"),
        pytest.param(_gap_empty_drill, ["stage.drill changed"], id="a drill that only says that it passed"),
        pytest.param(_gap_empty_section, ["stage.runbook changed"], id="a section that says nothing"),
        pytest.param(_gap_inner_section, ["stage.runbook_drilled changed"], id="a part of a section is new"),
        pytest.param(_policy(drill_valid_days=""), ["stage.drill unrecorded"], id="nobody says how long"),
        pytest.param(_policy(drill_valid_days="0.00000001"), ["stage.drill changed"], id="too long ago"),
        pytest.param(
            _policy(drill_projects=""),
            ["stage.drill unrecorded", "stage.runbook_drilled unrecorded"],
            id="a drill of others",
        ),
        pytest.param(
            _gap_runbook,
            ["stage.runbook changed", "stage.runbook_drilled changed"],
            id="a section is missing",
        ),
        pytest.param(_gap_rewritten, ["stage.runbook_drilled changed"], id="rewritten since the walk"),
        pytest.param(
            _policy(runbook_authors='["olga"]'), ["stage.runbook_drilled changed"], id="the author walked"
        ),
        pytest.param(_policy(runbook_authors=""), ["stage.runbook unrecorded"], id="nobody wrote it"),
        pytest.param(_policy(storage='"other"'), ["stage.boundaries changed"], id="another person"),
        pytest.param(_policy(network=""), ["stage.boundaries unrecorded"], id="a team without a person"),
        pytest.param(_policy(max_accelerators="4"), ["stage.boundaries changed"], id="another topology"),
        pytest.param(_policy(separation_of_duties='"off"'), ["stage.permissions changed"], id="own approval"),
        pytest.param(_policy(experts=""), ["stage.experts unrecorded"], id="nobody says who"),
        pytest.param(_policy(experts='["eva"]'), ["stage.experts changed"], id="depends on an expert"),
        pytest.param(_gap_incident, ["stage.incidents changed"], id="a major incident is open"),
    ],
)
def test_each_gap_is_named(ready: Ready, act: Callable[[Ready], None], missing: list[str]) -> None:
    """What does not hold is named, nothing else, and the label is refused with it."""
    act(ready)

    assert missing == ready.missing
    with pytest.raises(RefusedError, match="is no shared service") as raised:
        ready.label()
    assert missing == [" ".join(reason.split(":")[0].split(" is ")) for reason in raised.value.reasons]
    assert [] == list(ready.grounds.ledger.records(kinds=["service.labelled"]))


@pytest.mark.requirement("R238")
def test_history_that_is_not_anchored(ready: Ready) -> None:
    """A ledger whose anchor is gone is not governed."""
    for path in (ready.grounds.folder / "anchors").iterdir():
        path.unlink()

    assert ["stage.history changed"] == ready.missing


@pytest.mark.requirement("R238", "R249")
def test_who_may_walk(ready: Ready) -> None:
    """An author cannot prove the runbook, nor can a walk without a drill; where somebody was stuck is kept."""
    with pytest.raises(RefusedError, match="ann wrote it"):
        ready.walked(person="ann")
    with pytest.raises(InputError, match="is no section"):
        ready.walked(sections=("No such",))
    ready.walked(stuck=("where the log lies",), completed=False)
    assert ["stage.runbook_drilled changed"] == ready.missing
    [*_, record] = ready.grounds.ledger.records(kinds=["runbook.drilled"])
    assert ["where the log lies"] == record.payload["stuck"]
    ready.drill = ready.grounds.open("p")
    with pytest.raises(RefusedError, match="no drill was filed"):
        ready.walked()
    ready.drill = ready.grounds.open("q")
    ready.grounds.drill(ready.drill)
    with pytest.raises(RefusedError, match="a drill of project q does not stand for p"):
        ready.walked()


@pytest.mark.requirement("R248")
def test_a_controlled_project(ready: Ready) -> None:
    """It is called so on its runs, in the dossier and in the package, whatever label there was."""
    ready.label()
    _policy(experts='["eva"]')(ready)
    view = ready.grounds.view(ready.grounds.open("p"))
    policy = ready.grounds.lookup("p")

    told = standing(ready.grounds.ledger, policy.policy, policy.digest)
    assert ("controlled_project", "depends on eva") == (told["label"], told["because"])
    assert ("service", "controlled project (eva)") in facts_of("prepare", view)
    [conditions] = [sentence for sentence in tell(view) if sentence.key == "conditions"]
    assert "training depends on eva" in conditions.en
    assert "受控项目" in conditions.zh


@pytest.mark.requirement("R248")
def test_a_label_is_of_one_policy(ready: Ready) -> None:
    """With another policy it has to be given anew; and one whose preconditions lapsed is told."""
    ready.label()
    policy = ready.grounds.lookup("p")
    assert [] == standing(ready.grounds.ledger, policy.policy, policy.digest)["lapsed"]
    _gap_incident(ready)
    assert stage_document(ready.grounds.ledger, policy, ready.files)["lapsed"]
    told = standing(ready.grounds.ledger, policy.policy, policy.digest)
    assert ["stage.incidents"] == told["lapsed"]
    assert governed_lines({"service": told, "conclusion": None})[0].endswith("lapsed: stage.incidents")
    _policy(max_minutes="9")(ready)
    policy = ready.grounds.lookup("p")

    assert "unrecorded" == standing(ready.grounds.ledger, policy.policy, policy.digest)["label"]


@pytest.mark.requirement("R237")
def test_boundaries(ready: Ready) -> None:
    """Each team's own person confirms; another topology makes it stale; nobody is unrecorded."""
    grounds = ready.grounds
    with pytest.raises(RefusedError, match="names sam"):
        confirm(grounds.ledger, grounds.lookup, by("eve"), project="p", team="storage", answers_for="x")
    with pytest.raises(InputError, match="is none of"):
        confirm(grounds.ledger, grounds.lookup, by("eve"), project="p", team="weather", answers_for="x")
    _policy(max_accelerators="4")(ready)
    confirm(grounds.ledger, grounds.lookup, by("sam"), project="p", team="storage", answers_for="the volume")
    items = {item.id: item for item in boundaries(grounds.ledger, grounds.lookup("p").policy)}

    assert "verified" == items["boundary.storage"].verdict
    assert "sam: the volume" == items["boundary.storage"].found
    assert "changed" == items["boundary.network"].verdict
    assert "for another topology: max_accelerators" in items["boundary.network"].found
    assert {"unrecorded"} == {
        i.verdict.value for i in boundaries(grounds.ledger, grounds.lookup("demo").policy)
    }


@pytest.mark.parametrize(
    "table", [STAGE, HINTS, LABELS, TEAMS, WORDS], ids=["stage", "hints", "labels", "teams", "words"]
)
def test_both_languages(table: dict[str, tuple[str, str]]) -> None:
    """Every text stands in English and in Chinese."""
    for en, zh in table.values():
        assert en.isascii()
        assert not zh.isascii()


@pytest.mark.requirement("R231", "R249")
def test_the_runbook_has_what_is_pointed_to() -> None:
    """Every symptom leads to a section that says something, and the way up is written out: who, then who, then who."""
    text = (ROOT / RUNBOOK).read_text("utf-8")
    runbook = sections(text)

    assert set() == {*SYMPTOMS.values(), *WALKED} - {n for n, digest in runbook.items() if digest != EMPTY}
    assert set(SYMPTOMS) == set(WORDS)
    [way] = re.findall(r"^\*\*Escalation\.\*\* (.+)$", text, re.MULTILINE)
    assert way.startswith("On call → owner named beside the gap")
    assert "→ approvers of the next gate" in way
