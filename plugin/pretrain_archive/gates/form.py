"""The signature line: subject, at most twelve lines of body and the form's fields for a gate.

Airflow's form is not the place to read evidence; the gate view is. Every line stands in English and 简体中文,
in the order of the project's language. Fields have no section: Airflow would repeat the body under each.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from pretrain_archive.domain.checklists.common import short
from pretrain_archive.domain.gates import Dossier
from pretrain_archive.domain.reviews import choice_words
from pretrain_archive.domain.texts import GATES, ITEMS
from pretrain_archive.domain.texts import OUTCOMES as OUTCOME_WORDS
from pretrain_archive.domain.verdicts import Item, counts

MOST_NAMED = 4


@dataclass(frozen=True, kw_only=True)
class GateForm:
    """What Airflow's form shows. ``fields`` maps a name to keyword arguments of an Airflow ``Param``."""

    subject: str
    body: str
    options: tuple[str, ...]
    fields: dict[str, dict[str, Any]] = field(default_factory=dict)


AUTOLINK = re.compile(r"(?<=https:)(?=//)|(?<=http:)(?=//)|(?<=www)(?=\.)|(?=@)", re.IGNORECASE)
"""Where GitHub-flavoured markdown would see a link in bare text, whatever is escaped."""


def plain(text: str, most: int = 160) -> str:
    """Text from outside as one line of literal markdown: no markup, no links, no line breaks, no controls.

    Bare addresses are broken by an invisible word joiner: markdown links them after it has read all escapes.
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    line = line if len(line) <= most else line[: most - 1] + "…"
    return re.sub(r"([\\`*_{}\[\]()#+\-.!|<>~&])", r"\\\1", AUTOLINK.sub("\N{WORD JOINER}", line))


def both(english: str, chinese: str, language: str) -> str:
    """One line in both languages, the project's own first."""
    first, second = (chinese, english) if language == "zh-CN" else (english, chinese)
    return f"{first} / {second}"


def _titles(items: tuple[Item, ...], language: str) -> str:
    named = [both(*ITEMS.get(item.id, (item.id, item.id)), language) for item in items[:MOST_NAMED]]
    more = len(items) - MOST_NAMED
    return "; ".join(named) + (f" (+{more})" if more > 0 else "")


def _consequences(dossier: Dossier, language: str) -> str:
    numbers = dict(dossier.consequences)
    if dossier.gate == "prepare":
        return both(
            f"**Approve** starts the training: at most {numbers.get('accelerator_hours', '?')} accelerator hours, "
            f"{numbers.get('wall_minutes', '?')} min. **Reject** ends the run.",
            f"**Approve** 启动训练：至多 {numbers.get('accelerator_hours', '?')} 加速卡小时、"
            f"{numbers.get('wall_minutes', '?')} 分钟。**Reject** 结束此运行。",
            language,
        )
    if dossier.gate == "run":
        return both(
            "**Approve** confirms that what happened is explainable. **Reject** ends the run.",
            "**Approve** 确认执行过程可解释。**Reject** 结束此运行。",
            language,
        )
    if dossier.gate == "review":
        return _review_choices(dossier, language)
    return both(
        "**Approve** carries out the outcome you choose and freezes the run. **Reject** ends the run.",
        "**Approve** 执行所选结果并冻结此运行。**Reject** 结束此运行。",
        language,
    )


def _review_choices(dossier: Dossier, language: str) -> str:
    """A line per choice, with its numbers; what cannot be chosen says why."""
    numbers = dict(dossier.consequences)
    lines = []
    for outcome in dossier.outcomes():
        gaps = dossier.gaps(outcome)
        told = (
            both("Not possible", "不可选", language) + f": {_titles(gaps, language)}"
            if gaps
            else both(*choice_words(outcome, numbers), language)
        )
        lines.append(f"**{both(*OUTCOME_WORDS[outcome], language)}**: {told}")
    lines.append(both("**Reject** ends the run as rejected.", "**Reject** 以“已拒绝”结束此运行。", language))
    return "\n\n".join(lines)


def _differences(dossier: Dossier, language: str) -> str:
    if not dossier.compared_with:
        return both("No earlier approved run of this project.", "本项目此前没有已批准的运行。", language)
    if not dossier.differences:
        return both("Nothing differs from the last approved run.", "与上次批准的运行无差异。", language)
    names = ", ".join(plain(d.field) for d in dossier.differences[:MOST_NAMED])
    more = len(dossier.differences) - MOST_NAMED
    return both("Differs from the last approved run", "与上次批准的运行不同", language) + (
        f": {names}" + (f" (+{more})" if more > 0 else "")
    )


def build_body(
    dossier: Dossier, *, digest: str, link: str, since_last: tuple[str, ...] | None, language: str
) -> str:
    """At most twelve lines of markdown; ``since_last`` is what changed since this gate's last answer."""
    tally = counts(dossier.items)
    facts = dict(dossier.facts)
    lines = [
        both(
            f"**{tally['verified']} verified · {tally['changed']} changed · {tally['unrecorded']} unrecorded**",
            f"**{tally['verified']} 项已核验 · {tally['changed']} 项已变更 · {tally['unrecorded']} 项未记录**",
            language,
        )
    ]
    if blocked := dossier.blocked_by():
        lines.append(
            both("**Cannot be approved**", "**不可批准**", language) + ": " + _titles(blocked, language)
        )
    if advisory := dossier.advisory():
        lines.append(both("To acknowledge", "需知悉", language) + ": " + _titles(advisory, language))
    lines.append(f"{plain(facts.get('project', ''))}: {plain(facts.get('objective', ''))}")
    if dossier.gate == "review":
        attempt = facts.get("attempt", "")
        lines.append(
            both("Attempt", "尝试", language) + f" {plain(attempt)}: {plain(facts.get('stopped_by', ''))}"
        )
    else:
        lines.append(_differences(dossier, language))
    if since_last is not None:
        named = "; ".join(plain(part, 60) for part in since_last[:MOST_NAMED]) or both(
            "nothing", "无", language
        )
        lines.append(both("Since the last answer here", "自上次答复以来", language) + f": {named}")
    lines.append(_consequences(dossier, language))
    lines.append(both("Digest of what you sign", "签署内容摘要", language) + f": `{short(digest)}`")
    lines.append(
        f"[{both('Read the whole dossier before you sign', '签署前请阅读完整档案', language)}]({link})"
    )
    return "\n\n".join(lines)


def build_form(
    dossier: Dossier,
    *,
    digest: str,
    link: str,
    since_last: tuple[str, ...] | None,
    language: str,
) -> GateForm:
    """The form of a gate.

    Both options stand even where the dossier is blocked: Airflow keeps the options of the first question when a
    gate is asked again, so a gate that was once asked without "Approve" could never be approved. An approval of
    a blocked dossier is refused when it is judged.
    """
    fields: dict[str, dict[str, Any]] = {
        "dossier_digest": {"default": digest, "const": digest, "type": "string"},
        "reason": {
            "default": None,
            "type": ["null", "string"],
            "title": both("Reason (required)", "理由（必填）", language),
            "description": both(
                "Why you decide so, for a reader in a year.", "为何如此决定，供一年后的读者阅读。", language
            ),
        },
    }
    if advisory := dossier.advisory():
        fields["acknowledge"] = {
            "default": False,
            "type": "boolean",
            "title": both(
                f"I have seen the {len(advisory)} open advisory items",
                f"已知悉 {len(advisory)} 项未核验的提示项",
                language,
            ),
        }
    if choices := dossier.outcomes():
        # A review's choices all stand: Airflow keeps the first question's form when a gate is asked again.
        allowed = [o for o in choices if dossier.gate == "review" or not dossier.gaps(o)]
        fields["outcome"] = {
            "default": None,
            "type": ["null", "string"],
            "enum": [None, *allowed],
            "values_display": {o: both(*OUTCOME_WORDS[o], language) for o in allowed},
            "title": both("Outcome (required to approve)", "结果（批准时必选）", language),
        }
    facts = dict(dossier.facts)
    return GateForm(
        subject=f"{both(*GATES[dossier.gate], language)}: {plain(facts.get('objective', dossier.run_uid), 80)}",
        body=build_body(dossier, digest=digest, link=link, since_last=since_last, language=language),
        options=("Approve", "Reject"),
        fields=fields,
    )
