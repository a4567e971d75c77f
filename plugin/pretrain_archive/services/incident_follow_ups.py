"""What was made of an incident: a drill, a test, a policy or a section of the runbook, each looked up (R232)."""

from __future__ import annotations

import ast
import hashlib
import posixpath
from collections.abc import Callable, Mapping
from typing import Any

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.governance_drill import FAULTS, drill_gaps
from pretrain_archive.domain.governance_observed import value_at
from pretrain_archive.domain.governance_runbook import since
from pretrain_archive.gates.service import load_run
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.incident_view import Grounds, IncidentView


def follow_up(ledger: Ledger, grounds: Grounds, incident: IncidentView, text: str) -> kinds.FollowUp:
    """What ``text`` (``KIND:NAME``) names, with how it was found; ``InputError`` saying why it is no follow-up."""
    kind, _, ref = text.partition(":")
    finders: Mapping[str, Callable[[], kinds.FollowUp | str]] = {
        "drill": lambda: _drill(ledger, incident, ref),
        "test": lambda: _test(grounds, ref),
        "policy": lambda: _policy(ledger, grounds, incident, ref),
        "runbook": lambda: _section(grounds, incident, ref),
    }
    found = finders[kind]() if kind in finders and ref else f"is none of {', '.join(finders)} with a name"
    if isinstance(found, str):
        raise InputError("follow-up", text, found, hint="Make it first, then close the incident.")
    return found


def _drill(ledger: Ledger, incident: IncidentView, fault: str) -> kinds.FollowUp | str:
    """A fault that a drill injects, and that a drill did inject since."""
    if fault not in FAULTS:
        return f"is no fault that a drill injects ({', '.join(FAULTS)})"
    begin = incident.records[0].position
    for record in ledger.records(kinds=["drill.filed"], after=begin):
        drill = kinds.read_payload(record, kinds.DrillFiled)
        if drill.injected == fault and drill.attempt:  # without an attempt nothing was injected
            passed = "found a gap" if drill_gaps(drill) else "passed"
            found = f"drilled since in run {record.stream} ({record.record_id}), which {passed}"
            return kinds.FollowUp(kind="drill", ref=fault, found=found)
    return "was not drilled since the incident was opened"


def _test(grounds: Grounds, ref: str) -> kinds.FollowUp | str:
    """A test that stands in a file of Python: ``PATH::test_x`` or ``PATH::TestX::test_x``."""
    path, _, name = ref.partition("::")
    source = grounds.read(path)
    if source is None:
        return f"there is no file {path} below {grounds.root}"
    if not _defines(source, name.split("::")):
        return f"no test {name!r} stands in {path}"
    digest = "sha256:" + hashlib.sha256(source.encode()).hexdigest()
    return kinds.FollowUp(kind="test", ref=ref, found=f"defined in {path}", digest=digest)


def _defines(source: str, names: list[str]) -> bool:
    """Whether a test is defined there, and not only written about; what is no Python defines none."""
    *outer, name = names
    try:
        body: list[ast.stmt] = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    for wanted in outer:
        found = [node for node in body if isinstance(node, ast.ClassDef) and node.name == wanted]
        body = found[-1].body if found else []
    functions = [node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return name.startswith("test") and any(node.name == name for node in functions)


def _policy(ledger: Ledger, grounds: Grounds, incident: IncidentView, ref: str) -> kinds.FollowUp | str:
    """A value of a policy that is not the one under which the linked runs of the project ran.

    Where none of its runs is linked, the project's newest run from before the incident tells what it was.
    """
    project, _, path = ref.partition(".")
    loaded = grounds.policies(project)
    value = value_at(loaded.policy.model_dump(mode="json"), path) if path else None
    if value is None:
        return f"the policy of {project} sets no {path or 'field'}"
    before = _policies_before(ledger, incident, project)
    for uid, policy in before.items():
        if value == value_at(policy, path):
            return f"is {value}, as it was when run {uid} was opened"
    if not before:
        return f"is {value}, and no run of {project} tells what it was before the incident"
    return kinds.FollowUp(kind="policy", ref=ref, found=f"{path} is {value}", digest=loaded.digest)


def _policies_before(ledger: Ledger, incident: IncidentView, project: str) -> dict[str, Mapping[str, Any]]:
    """The policies that the project had before the incident, by the run that recorded them."""
    views = [(uid, load_run(ledger, uid).opened) for uid in incident.opened.runs]
    linked: dict[str, Mapping[str, Any]] = {
        uid: opened.policy for uid, opened in views if opened and opened.project == project
    }
    if linked:
        return linked
    newest: dict[str, Mapping[str, Any]] = {}
    for record in ledger.records(kinds=["run.opened"]):
        if record.position > incident.records[0].position:
            break
        if record.payload.get("project") == project:
            newest = {record.stream: kinds.read_payload(record, kinds.RunOpened).policy}
    return newest


def _section(grounds: Grounds, incident: IncidentView, heading: str) -> kinds.FollowUp | str:
    """A section of the runbook that is new or was changed since the incident was opened."""
    now = grounds.sections()
    if now is None:
        return f"there is no runbook at {grounds.root / grounds.runbook}"
    kept = incident.opened.runbook
    if kept is not None and posixpath.normpath(kept) != posixpath.normpath(grounds.runbook):
        return f"the incident was opened beside {kept}, and what {grounds.runbook} said then is not on record"
    before = incident.opened.sections
    how = since(before, now, heading)
    if how in {"missing", "as before"}:
        return (
            f"is {how} in {grounds.runbook}" if how == "missing" else f"stands as before in {grounds.runbook}"
        )
    return kinds.FollowUp(
        kind="runbook", ref=heading, found=f"the section is {how} in {grounds.runbook}", digest=now[heading]
    )
