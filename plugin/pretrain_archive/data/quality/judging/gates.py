"""From rules and answers to gates: what passed, what failed, and what was not checked.

A gate passes only on something that was judged: no row, no column, no number, or a number that is not finite never
passes. Advice that fails does not stop the data, a blocking gate does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pretrain_archive.data.quality.judging.expectations import Answer, strict_number
from pretrain_archive.data.quality.suite import TINY, Rule
from pretrain_archive.domain.kinds import QualityGate

SHARES = ("_rate", "_share", "_overlap")
"""Endings of aggregates that are shares of documents: people read them in per cent."""

NOT_ASKED = {
    "benchmarks": "no_benchmarks",
    "parent": "no_parent",
    "split": "no_split",
    "languages": "no_languages",
    "labels": "no_labels",
    "terms": "no_terms",
    "review": "no_review",
    "rows": "nothing_to_judge",
}
"""What a rule needs → the reason that is told where a check has it not."""

WORDS = {
    "not_measured": "not checked: the measure was not run",
    "no_data": "not checked: no data",
    "nothing_matched": "not checked: no row had a value to judge",
    "not_judged": "not checked: the rule could not be judged",
}


def gate_of(rule: Rule, answer: Answer | None, reason: str = "") -> dict[str, Any]:
    """The gate of a rule as plain JSON; ``reason`` (a key of :data:`WORDS`) says why nothing was judged."""
    gate = _blank(rule)
    if answer is None or answer.error:
        error = answer.error if answer is not None else ""
        reason = reason or ("not_judged" if error else "not_measured")
        return gate | {"reason": reason, "error": error, "detail": error or WORDS[reason]}
    if not answer.results:
        return gate | {"reason": "nothing_matched", "detail": WORDS["nothing_matched"]}
    if rule.rows:
        return gate | _of_rows(rule, answer)
    observed = strict_number(answer.observed)
    if observed is None and answer.results:
        # The library gives no value where a mean is not a number.
        observed = "nan"
    finite = not isinstance(observed, str)
    return gate | {
        "checked": True,
        "observed": observed,
        "passed": answer.success and finite,
        "detail": "" if finite else f"{observed} is not finite",
    }


def payload_gates(gates: Sequence[Mapping[str, Any]]) -> list[QualityGate]:
    """The gates as the ledger records them."""
    names = QualityGate.model_fields
    return [QualityGate(**{name: gate[name] for name in names}) for gate in gates]


def _blank(rule: Rule) -> dict[str, Any]:
    share = rule.limit_is == "share" or rule.column.endswith(SHARES) or rule.column.startswith("share:")
    return {
        "name": rule.id,
        "family": rule.gate,
        "severity": rule.severity,
        "passed": False,
        "checked": False,
        "observed": None,
        "limit": strict_number(rule.limit),
        "limit_is": rule.limit_is,
        "form": "share" if share or rule.rows else "number",
        "rows": None,
        "judged": 0,
        "unexpected": 0,
        "missing": 0,
        "reason": "",
        "error": "",
        "source": rule.source,
        "detail": "",
    }


def _of_rows(rule: Rule, answer: Answer) -> dict[str, Any]:
    """A rule over rows: the share of judged rows that failed, against the share that may."""
    found = {
        "rows": answer.rows,
        "judged": answer.judged,
        "unexpected": answer.unexpected,
        "missing": answer.missing,
    }
    if not answer.judged:
        return {"reason": "nothing_matched", "detail": WORDS["nothing_matched"]}
    mostly = float(rule.arguments().get("mostly", 1.0))
    detail = f"{answer.unexpected} of {answer.judged} rows"
    if answer.missing:
        detail += f", {answer.missing} without a value"
    return found | {
        "checked": True,
        "observed": answer.unexpected / answer.judged,
        "passed": answer.judged - answer.unexpected >= mostly * answer.judged - TINY,
        "detail": detail,
    }
