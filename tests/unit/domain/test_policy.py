"""The policy file: what is wrong with it is named, with the name that was meant."""

from __future__ import annotations

import hashlib

import pytest
from tests.unit.gates.asked_run import POLICY_FILE

from pretrain_archive.domain.errors import PolicyError
from pretrain_archive.domain.policy import Policy, load_policy, parse_policy

TEXT = POLICY_FILE.read_text()


def fault(text: str | bytes) -> str:
    """What the file's fault is called."""
    with pytest.raises(PolicyError) as raised:
        parse_policy(text.encode() if isinstance(text, str) else text, name="demo.toml")
    assert raised.value.message.startswith("policy demo.toml: ")
    assert "trigger again" in raised.value.hint
    return raised.value.message


def test_reads():
    """The demo's file is read, with the digest of its bytes."""
    loaded = parse_policy(TEXT.encode(), name="demo.toml")

    assert "sha256:" + hashlib.sha256(TEXT.encode()).hexdigest() == loaded.digest
    assert ["bob"] == loaded.policy.approvers_of("retention")
    assert loaded.policy == Policy.model_validate(loaded.policy.model_dump(mode="json"))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        pytest.param("deadline_hours", "deadline_hour",
                     "gates.deadline_hour: unknown name, did you mean 'deadline_hours'?", id="gates"),
        pytest.param("recovery_keep_last", "recovery_keeplast", "did you mean 'recovery_keep_last'?",
                     id="optional part"),
        pytest.param("[approvers]", "[aprovers]", "aprovers: unknown name, did you mean 'approvers'?",
                     id="section"),
        pytest.param("data_owner", "data_ownr", "people.data_ownr: unknown name, did you mean 'data_owner'?",
                     id="role"),
        pytest.param("drift", "zzz", "environment.zzz: unknown name", id="nothing near"),
    ],
)  # fmt: skip
def test_typo(old, new, words):
    """A misspelt name is named with the one that was meant."""
    message = fault(TEXT.replace(old, new))

    assert words in message
    assert ("did you mean" in words) == ("did you mean" in message)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        pytest.param("deadline_hours = 72", "deadline_hours = 0", "gates.deadline_hours: ", id="zero deadline"),
        pytest.param("deadline_hours = 72", "deadline_hours = nan", "gates.deadline_hours: ", id="no number"),
        pytest.param('prepare = ["bob"]', "prepare = []", "approvers.prepare: ", id="no approver"),
        pytest.param('prepare = ["bob"]', 'prepare = "bob"', "approvers.prepare: ", id="a name, not a list"),
        pytest.param('"required"', '"optional"', "gates.separation_of_duties: ", id="unknown duty"),
        pytest.param("validation_fraction = 0.05", "validation_fraction = 1", "data.validation_fraction: ",
                     id="fraction"),
        pytest.param("max_accelerators = 0", "max_accelerators = -1", "quotas.max_accelerators: ", id="negative quota"),
        pytest.param('data_owner = "alice"\n', "", "people.data_owner: ", id="missing role"),
        pytest.param('data_owner = "alice"', 'data_owner = ""', "people.data_owner: ", id="empty role"),
        pytest.param('language = "en"', 'language = "fr"', "language: ", id="language"),
        pytest.param("recovery_max_age_days = 0", "recovery_max_age_days = -1", "retention.recovery_max_age_days: ",
                     id="age"),
        pytest.param('drift = "warn"', 'drift = "ignore"', "environment.drift: ", id="drift"),
    ],
)  # fmt: skip
def test_bad_value(old, new, words):
    """A value out of range is named with its place."""
    assert old in TEXT

    assert words in fault(TEXT.replace(old, new))


def test_every_fault_is_named():
    """Two faults are named at once."""
    message = fault(TEXT.replace("deadline_hours", "deadline_hour").replace('"warn"', '"x"'))

    assert "gates.deadline_hour:" in message
    assert "environment.drift:" in message


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"project = ", id="cut off"),
        pytest.param(b"{}", id="JSON"),
        pytest.param(b"\xff\xfe\x00", id="not UTF-8"),
        pytest.param('title = "标题'.encode("gb18030"), id="another encoding"),
        pytest.param(b'project = "a"\nproject = "b"', id="a name twice"),
    ],
)
def test_not_toml(raw):
    """What is not a TOML file in UTF-8 says so."""
    assert "not a TOML file" in fault(raw)


def test_empty_file():
    """An empty file names what it lacks."""
    message = fault("")

    for part in ("project", "people", "approvers", "gates", "data", "quotas"):
        assert f"{part}: " in message


def test_retention_is_optional_and_never_defaulted():
    """Without its section there is no retention policy."""
    text = TEXT.partition("[retention]")[0] + "[data]" + TEXT.partition("[data]")[2]

    assert parse_policy(text.encode(), name="demo.toml").policy.retention is None


def test_load(tmp_path):
    """The project's file is found by its name."""
    (tmp_path / "demo.toml").write_text(TEXT)

    assert load_policy(tmp_path, "demo").policy.project == "demo"


@pytest.mark.parametrize("project", ["other", "", "../demo", "demo.toml", "*", "Demo"])
def test_unknown_project(tmp_path, project):
    """An unknown project lists the known ones."""
    for name in ("demo", "second"):
        (tmp_path / f"{name}.toml").write_text(TEXT)

    with pytest.raises(PolicyError) as raised:
        load_policy(tmp_path, project)

    assert f"no policy for {project!r} in {tmp_path} (known: demo, second)" in raised.value.message


@pytest.mark.parametrize("folder", ["", "absent"])
def test_no_policies(tmp_path, folder):
    """An empty or missing folder knows nobody."""
    with pytest.raises(PolicyError, match=r"\(known: none\)"):
        load_policy(tmp_path / folder, "demo")


def test_wrong_project(tmp_path):
    """A file under another project's name is refused with both names."""
    (tmp_path / "other.toml").write_text(TEXT)

    with pytest.raises(PolicyError, match="project is 'demo', expected 'other'"):
        load_policy(tmp_path, "other")


@pytest.mark.requirement("R048")
@pytest.mark.parametrize(
    ("reviewers", "message"),
    [
        pytest.param('["bob"]', "data.labels.review wants 2 reviewers", id="one too few"),
        pytest.param('["bob", "bob"]', "data.labels.review wants 2 reviewers", id="one person twice"),
    ],
)
def test_label_reviewers(reviewers, message):
    """A review that nobody could complete is refused when the policy is read, without repeating the policy."""
    text = TEXT.replace("retention = [", f"label_reviewers = {reviewers}\nretention = [", 1)
    asking = f"{text}\n[data.labels.review]\nreviewers = 2\n"

    with pytest.raises(PolicyError, match=message) as raised:
        parse_policy(asking.encode(), name="demo.toml")

    assert len(raised.value.message) < 200
    assert parse_policy(asking.replace(reviewers, '["bob", "carol"]').encode(), name="demo.toml")
