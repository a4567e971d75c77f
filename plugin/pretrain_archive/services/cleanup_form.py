"""The signature line of a clean-up: counts, bytes, cost, what can no longer be verified, what is blocked and why.

Every line stands in English and 简体中文, at most twelve of them; the whole plan is on the command line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from pretrain_archive.domain.kinds import RetentionPlanned
from pretrain_archive.gates.form import GateForm, both, plain
from pretrain_archive.retention.plan import GOING

MOST_LISTED = 4
MOST_BLOCKED = 2

KINDS: Mapping[str, tuple[str, str]] = {
    "checkpoint": ("checkpoints", "个检查点"),
    "snapshot": ("snapshots", "个快照"),
    "temporary": ("pieces of temporary data", "份临时数据"),
    "cache": ("caches", "份缓存"),
    "leftover": ("leftovers of failed runs", "份失败运行的遗留"),
    "log": ("logs", "份日志"),
}
DECISIONS: Mapping[str, tuple[str, str]] = {
    "run": ("runs", "次运行"),
    "decision": ("gate decisions", "项关卡决定"),
    "evaluation": ("evaluations", "次评估"),
    "candidate": ("candidates", "个候选模型"),
    "release": ("releases", "个发布"),
}
REASONS: Mapping[str, tuple[str, str]] = {
    "last": ("among the last", "属于最近的几个"),
    "every": ("at a kept step", "位于保留的步数"),
    "best": ("among the best", "属于最好的几个"),
    "young": ("too young", "时间太短"),
    "used": ("used lately", "近期使用过"),
    "live": ("needed by something", "仍被使用"),
    "hold": ("under legal hold", "法律保留"),
    "state": ("run not closed", "运行未关闭"),
    "replaced": ("replaced in place", "原位置已被替换"),
    "order": ("order unclear", "先后不明"),
    "name": ("no plain step in the name", "名称中没有明确步数"),
    "no_rule": ("no rule", "没有规则"),
    "rule": ("kept by a rule", "规则保留"),
    "unmeasured": ("best unknown", "最佳未知"),
    "parts": ("parts are gone", "部分已删除"),
    "evidence": ("evidence is missing", "缺少证据"),
    "policy": ("no policy", "没有策略"),
}


def approval_form(planned: RetentionPlanned, language: str) -> GateForm:
    """The form by which a person allows or rejects exactly this plan."""
    digest = planned.plan_digest
    fields: dict[str, dict[str, Any]] = {
        "plan_digest": {"default": digest, "const": digest, "type": "string"},
        "reason": {
            "default": None,
            "type": ["null", "string"],
            "title": both("Reason (required)", "理由（必填）", language),
        },
    }
    return GateForm(
        subject=both("Clean-up approval", "清理审批", language), body="\n\n".join(_body(planned, language)),
        options=("Approve", "Reject"), fields=fields,
    )  # fmt: skip


def _body(planned: RetentionPlanned, language: str) -> list[str]:
    projects = list((planned.summary or {}).get("projects", {}).values())
    english, chinese = _counted(_going_kinds(planned, projects), KINDS)
    size = planned.total_bytes
    lines = [
        both(
            f"**{english}, {size:,} bytes are to be deleted.**",
            f"**将删除 {chinese}，共 {size:,} 字节。**", language,
        )
    ]  # fmt: skip
    listed, more = _largest(planned)
    lines.append("\n".join(listed) + (f"\n- (+{more})" if more > 0 else ""))
    if projects:
        lines += [_cost(projects, language), _falls(projects, language), _stays(projects, language)]
        lines += _blocked(projects, language)
    lines.append(
        both("**Approve** deletes them; tombstones stay.", "**Approve** 予以删除，墓碑记录保留。", language)
    )
    return lines


def _largest(planned: RetentionPlanned) -> tuple[list[str], int]:
    """The largest deletions, one line each, and how many more there are."""
    if planned.items_digest is not None and planned.summary is not None:
        largest = list(planned.summary.get("largest", []))
        total = sum(
            int(said["actions"].get(action, 0))
            for said in planned.summary["projects"].values()
            for action in GOING
        )
    else:
        going = [item for item in planned.items if item["action"] in GOING]
        largest, total = sorted(going, key=lambda item: -int(item["bytes"])), len(going)
    shown = largest[:MOST_LISTED]
    lines = [f"- {plain(str(i['id']))}: {int(i['bytes']):,} B, {plain(str(i['reason']))}" for i in shown]
    return lines, total - len(shown)


def _going_kinds(planned: RetentionPlanned, projects: Iterable[Mapping[str, Any]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for said in projects:
        for kind, actions in said["kinds"].items():
            found[kind] += sum(int(actions.get(action, 0)) for action in GOING)
    if not found:
        found.update(str(i.get("kind", "checkpoint")) for i in planned.items if i["action"] in GOING)
    return +found


def _counted(counts: Mapping[str, int], words: Mapping[str, tuple[str, str]]) -> tuple[str, str]:
    known = [(count, *words.get(name, (name, name))) for name, count in counts.items()]
    if not known:
        return "nothing", "无"
    return (
        ", ".join(f"{count} {english}" for count, english, _ in known),
        "、".join(f"{count} {chinese}" for count, _, chinese in known),
    )


def _summed(projects: Iterable[Mapping[str, Any]], *path: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for said in projects:
        inner: Any = said
        for name in path:
            inner = inner.get(name, {})
        found.update({str(name): int(count) for name, count in inner.items()})
    return found


def _cost(projects: Iterable[Mapping[str, Any]], language: str) -> str:
    sums: dict[str, float] = {}
    unknown = False
    for said in projects:
        if said["cost_per_month"] is None:
            unknown = unknown or bool(said["bytes"])
        elif said["bytes"]:
            sums[str(said["currency"])] = sums.get(str(said["currency"]), 0.0) + float(said["cost_per_month"])
    texts = [f"{plain(currency)} {amount:,.2f}" for currency, amount in sorted(sums.items())]
    english = " + ".join([*texts, *(["unrecorded"] if unknown or not texts else [])])
    chinese = " + ".join([*texts, *(["未记录"] if unknown or not texts else [])])
    return both(f"Storage saved per month: {english}.", f"每月节省存储：{chinese}。", language)


def _falls(projects: Iterable[Mapping[str, Any]], language: str) -> str:
    english, chinese = _counted(_summed(projects, "falls"), DECISIONS)
    return both(
        f"No longer verifiable from bytes afterwards (verified → unrecorded): {english}.",
        f"此后无法再用原始数据核验（已核验 → 未记录）：{chinese}。", language,
    )  # fmt: skip


def _stays(projects: Iterable[Mapping[str, Any]], language: str) -> str:
    english, chinese = _counted(_summed(projects, "reasons", "keep"), REASONS)
    return both(f"Kept: {english}.", f"保留：{chinese}。", language)


def _blocked(projects: Iterable[Mapping[str, Any]], language: str) -> list[str]:
    count = sum(int(said["actions"].get("blocked", 0)) for said in projects)
    if not count:
        return []
    named = [entry for said in projects for entry in said["blocked"]][:MOST_BLOCKED]
    texts = "; ".join(f"{plain(str(e['id']), 60)}: {plain(str(e['reason']), 100)}" for e in named)
    return [both(f"Blocked: {count} ({texts})", f"受阻：{count}（{texts}）", language)]
