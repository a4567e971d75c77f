"""Whether an answer counts: the rules, in their order, without writing anything.

1. a person answered, in a shape that can be read; 2. the person is entitled, by name and id; 3. the answer is
about exactly the dossier that stands now; 4. a reason is given; 5. approval needs every blocking item verified,
every advisory gap acknowledged and, at the close gate and a review, an outcome that the evidence allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pretrain_archive.domain.gates import recorded_policy
from pretrain_archive.domain.identity import format_time, parse_time
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.service import GateView

Cause = Literal["not_entitled", "stale", "submitter", "unsigned", "invalid", "timed_out"]
Fault = tuple[Cause, str]

MOST_REASON = 4000
CLOCKS_DIFFER = timedelta(minutes=5)
"""How far the clocks of the API server and a worker may be apart before an answer is not believed."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back. ``values`` are the form's fields as Airflow passed them; nothing in it is trusted.

    ``responded_at`` is None where no moment came with the answer. ``anonymous`` says that Airflow lets everybody
    in as an administrator, so that the name proves nothing.
    """

    person_id: str | None
    person_name: str | None
    option: str
    values: Mapping[str, Any]
    responded_at: str | None
    authentication: str
    anonymous: bool = False


def read_answer(event: Mapping[str, Any], *, authentication: str, anonymous: bool) -> Answer:
    """Read the event with which Airflow resumes a gate; whatever has another shape counts as not given."""
    person = event.get("responded_by_user")
    person = person if isinstance(person, Mapping) else {}
    options = event.get("chosen_options")
    moment = event.get("responded_at")
    values = event.get("params_input")
    return Answer(
        person_id=_text(person.get("id")),
        person_name=_text(person.get("name")),
        option=str(options[0]) if isinstance(options, list | tuple) and options else "",
        values=values if isinstance(values, Mapping) else {},
        responded_at=format_time(moment) if isinstance(moment, datetime) and moment.tzinfo else None,
        authentication=authentication,
        anonymous=anonymous,
    )


def _text(value: object) -> str | None:
    return str(value) if isinstance(value, str | int) and str(value) else None


def reason_of(answer: Answer) -> str | None:
    """The reason, or None if it is none: text with something to read in it, that can be stored."""
    reason = answer.values.get("reason")
    if not isinstance(reason, str) or not any(c.isprintable() and not c.isspace() for c in reason):
        return None
    try:
        reason.encode("utf-8")
    except UnicodeEncodeError:
        return None
    return reason.strip() if len(reason) <= MOST_REASON and "\0" not in reason else None


def fault_of(view: GateView, run: RunView, answer: Answer, now: datetime | None = None) -> Fault | None:
    """Why ``answer`` does not count, or None."""
    return (
        unsigned(answer, now or datetime.now(UTC))
        or _not_entitled(view, run, answer)
        or _content(view, answer)
    )


def unsigned(answer: Answer, now: datetime) -> Fault | None:
    """Why nobody stands behind ``answer``, or None: any question to persons asks this first."""
    if answer.anonymous:
        return "unsigned", f"nobody is authenticated here ({answer.authentication})"
    if not answer.person_name or not answer.person_id:
        return "unsigned", "no authenticated person answered"
    if answer.responded_at is None:
        return "unsigned", "the answer carries no moment"
    if parse_time(answer.responded_at) > now + CLOCKS_DIFFER:
        return "unsigned", f"the answer is from the future ({answer.responded_at})"
    return None


def _not_entitled(view: GateView, run: RunView, answer: Answer) -> Fault | None:
    allowed = ", ".join(view.eligible) or "nobody"
    if answer.person_name not in view.eligible:
        cause: Cause = "submitter" if answer.person_name == view.submitter else "not_entitled"
        return cause, f"{answer.person_name} may not answer; {allowed} may"
    known = recorded_policy(run).gates.user_ids.get(answer.person_name)
    if known is not None and known != answer.person_id:
        return "not_entitled", f"{answer.person_name} has id {answer.person_id!r}, the policy says {known!r}"
    return None


def _content(view: GateView, answer: Answer) -> Fault | None:
    shown = answer.values.get("dossier_digest")
    if shown != view.digest:
        what = "the question was for other evidence" if shown else "the answer names no dossier that was read"
        return "stale", f"{what}; answer again from the gate view"
    if reason_of(answer) is None:
        return "invalid", f"a reason of readable text is required (at most {MOST_REASON} characters)"
    if answer.option not in {"Approve", "Reject"}:
        return "invalid", f"the answer must be Approve or Reject, got {answer.option!r}"
    return _approval(view, answer) if answer.option == "Approve" else None


def _approval(view: GateView, answer: Answer) -> Fault | None:
    dossier = view.dossier
    if blocked := dossier.blocked_by():
        return "invalid", f"blocking items are not verified: {', '.join(item.id for item in blocked)}"
    if dossier.advisory() and answer.values.get("acknowledge") is not True:
        return "invalid", f"not acknowledged: {', '.join(item.id for item in dossier.advisory())}"
    if choices := dossier.outcomes():
        outcome = answer.values.get("outcome")
        if not isinstance(outcome, str) or outcome not in choices:
            return "invalid", f"an outcome is required ({', '.join(choices)}), got {outcome!r}"
        if gaps := dossier.gaps(outcome):
            return "invalid", f"{outcome} needs {', '.join(item.id for item in gaps)}"
    return None
