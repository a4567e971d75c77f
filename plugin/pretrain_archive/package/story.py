"""The decision in six sentences: input, conditions, what happened, why this result, who signed, allowed use.

Each sentence is made from records alone, in English and 简体中文, and names the records behind it. What is not
recorded is said to be unrecorded in its place; nothing is rounded up to a story.
"""

from __future__ import annotations

from collections.abc import Callable

from pretrain_archive.domain import kinds
from pretrain_archive.domain.candidates import chosen_candidate, chosen_evaluation
from pretrain_archive.domain.chains import chain_of
from pretrain_archive.domain.evaluations import last_deciding
from pretrain_archive.domain.exploration import TOLD, is_exploration
from pretrain_archive.domain.governance_service import controlled_told
from pretrain_archive.domain.releases import standing_release
from pretrain_archive.domain.run_view import GATES, RunView
from pretrain_archive.package.concluded import tell_conclusion
from pretrain_archive.package.outcomes import checkpoint_by_id, metric_text
from pretrain_archive.package.reviewed import reviews_told, without_release
from pretrain_archive.package.sentences import (
    GATE_ZH,
    OUTCOME_EN,
    OUTCOME_ZH,
    STATE_ZH,
    Sentence,
    Words,
    seconds_text,
    short,
    size_text,
    stop,
)


def tell(view: RunView) -> list[Sentence]:
    """The six sentences, in order."""
    return [part(view).done() for part in PARTS]


def _input(view: RunView) -> Words:
    words = Words("input", "Input", "输入")
    snapshot, source = view.last(kinds.SnapshotCreated), view.last(kinds.SourceRegistered)
    if snapshot is None:
        words.missing("Data snapshot", "数据快照")
    else:
        s = snapshot[1]
        name, size, digest = f"{s.name}@{s.version}", size_text(s.total_bytes), short(s.manifest_digest)
        words.say(
            f"Snapshot {name} went in: {s.file_count:,} files, {size}, digest {digest}.",
            f"输入为数据快照 {name}：{s.file_count:,} 个文件，{size}，摘要 {digest}。",
            snapshot[0],
        )
        for number, (record, done) in enumerate(chain_of(view), 1):
            name, left = f"{done.rule.name} v{done.rule.version}", sum(d.documents for d in done.dropped)
            kept, read = f"{done.documents_out:,}", f"{done.documents_in:,}"
            words.say(
                f"Step {number}, {done.rule.kind} by rule {name}: {kept} of {read} documents kept, {left:,} left out.",
                f"第 {number} 步按规则 {name}（{done.rule.kind}）：{read} 个文档中保留 {kept} 个，剔除 {left:,} 个。",
                record,
            )
    if source is None:
        words.missing("Its source and licence", "来源与许可证")
    else:
        scope = ", ".join(source[1].usage_scope)
        words.say(
            f"It comes from {source[1].name} under {source[1].licence}; scope of use: {scope or 'unrecorded'}.",
            f"来源：{source[1].name}，许可证 {source[1].licence}；使用范围：{scope or '未记录'}。",
            source[0],
        )
    return words


def _conditions(view: RunView) -> Words:
    words = Words("conditions", "Conditions", "条件")
    if is_exploration(view):
        words.say(*TOLD)
    if (controlled := controlled_told(view)) is not None:
        words.say(*controlled)
    declared, environment = view.last(kinds.ConfigurationDeclared), view.last(kinds.EnvironmentDeclared)
    if declared is None:
        words.missing("Configuration and budget", "配置与预算")
    else:
        c, b = declared[1], declared[1].budget
        hardware = f"{b.accelerators} × {b.accelerator}" if b.accelerators else "CPU only"
        hardware_zh = f"{b.accelerators} × {b.accelerator}" if b.accelerators else "仅 CPU"
        words.say(
            f"Configuration {short(c.configuration_digest)} ran under a ceiling of {b.minutes:g} minutes, {hardware}, "
            f"owned by {b.owner}.",
            f"配置 {short(c.configuration_digest)}，上限 {b.minutes:g} 分钟，{hardware_zh}，预算负责人 {b.owner}。",
            declared[0],
        )
    if environment is None:
        words.missing("Environment", "环境")
    else:
        observed = list(view.all(kinds.EnvironmentObserved))
        drift = sum(len(payload.differences) for _, payload in observed)
        seen = f"{drift} differences were observed" if drift else "workers observed no difference"
        seen_zh = f"观察到 {drift} 处差异" if drift else "工作进程未观察到差异"
        if not observed:
            seen, seen_zh, words.gap = "what workers saw is unrecorded", "工作进程所见未记录", True
        digest = short(environment[1].environment_digest)
        words.say(
            f"The environment was declared as {digest}; {seen}.",
            f"声明的环境为 {digest}；{seen_zh}。",
            environment[0],
        )
    return words


def _happened(view: RunView) -> Words:
    words = Words("happened", "What happened", "经过")
    ends = list(view.all(kinds.AttemptEnded))
    if not view.attempts:
        words.missing("Training", "训练")
        return words
    count = f"{view.attempts} attempts" if view.attempts > 1 else "one attempt"
    words.say(f"The run took {count}.", f"共 {view.attempts} 次尝试。")
    for record, end in ends:
        took, took_zh = seconds_text(end.seconds)
        last = f" at step {end.last_step}" if end.last_step is not None else ""
        last_zh = f"于第 {end.last_step} 步" if end.last_step is not None else ""
        words.say(
            f"Attempt {end.attempt} was {end.state}{last} after {took}: {stop(end.reason)}.",
            f"第 {end.attempt} 次{last_zh}{STATE_ZH[end.state]}，用时 {took_zh}：{stop(end.reason)}。",
            record,
        )
        if end.steps_repeated:
            words.say(f"{end.steps_repeated} steps were repeated.", f"重复了 {end.steps_repeated} 步。")
    if len(ends) < view.attempts:
        words.missing("The end of an attempt", "某次尝试的结束")
    return words


def _why(view: RunView) -> Words:
    words = Words("why", "Why this one", "选择理由")
    named = chosen_candidate(view) or view.last(kinds.CandidateNamed)
    report = chosen_evaluation(view) or last_deciding(view)
    if named is None:
        words.missing("The choice of a checkpoint", "检查点的选择")
    else:
        source = checkpoint_by_id(view, named[1].checkpoint_id)
        step = f"of step {source[1].step}" if source else named[1].checkpoint_id
        step_zh = f"第 {source[1].step} 步的检查点" if source else f"检查点 {named[1].checkpoint_id}"
        kept, kept_zh = ("kept", "保留") if named[1].kept else ("dropped", "放弃")
        words.say(
            f"The checkpoint {step} was {kept}: {stop(named[1].reason)}.",
            f"{step_zh}被{kept_zh}：{stop(named[1].reason)}。",
            named[0],
        )
    if report is None:
        words.missing("Its evaluation", "评估")
    else:
        mine = ", ".join(metric_text(m) for m in report[1].metrics)
        others = ", ".join(
            f"{b.name} {m.value:g}" for b in report[1].baselines for m in b.metrics if m.value is not None
        )
        words.say(
            f"It reached {mine}" + (f"; for comparison: {others}." if others else ", without a baseline."),
            f"评估结果 {mine}" + (f"；对照：{others}。" if others else "，无基线。"),
            report[0],
        )
    tell_conclusion(words, view)
    return words


def _signed(view: RunView) -> Words:
    words = Words("signed", "Who signed", "签署")
    unsigned = is_exploration(view) and view.dossier("close") is None
    if unsigned:
        words.say(
            "Nobody was asked: an exploration ends without a gate.", "未征询任何人：探索训练结束时没有关口。"
        )
    for gate in GATES if not unsigned else ():
        found = view.decision(gate)
        if found is None:
            words.missing(f"The {gate} gate", f"{GATE_ZH[gate]}关口")
            continue
        d = found[1]
        verb, verb_zh = ("approved", "批准") if d.decision == "approve" else ("rejected", "拒绝")
        own, own_zh = (" (self-signed)", "（自签）") if d.self_signed else ("", "")
        words.say(
            f"{d.person_name} {verb} the {gate} gate{own} on {d.responded_at[:10]}.",
            f"{d.person_name} 于 {d.responded_at[:10]} {verb_zh}{GATE_ZH[gate]}关口{own_zh}。",
            found[0],
        )
        if d.outcome:
            words.say(f"Outcome: {OUTCOME_EN[d.outcome]}.", f"结论：{OUTCOME_ZH[d.outcome]}。")
    for told in reviews_told(view):
        words.say(*told)
    return words


def _use(view: RunView) -> Words:
    words = Words("use", "Allowed use", "允许用途")
    release, purpose = standing_release(view), view.opened.purpose if view.opened else None
    if release is None:
        if (closed := without_release(view)) is not None:
            words.say(*closed)
        else:
            words.missing("A release with its scope", "发布及其范围")
        if purpose:
            words.say(
                f"Intended when the run began: {stop(purpose.intended_use)}.",
                f"发起时的预期用途：{stop(purpose.intended_use)}。",
            )
        return words
    r = release[1]
    words.say(
        f"{r.name} {r.version} may be used for: {'; '.join(map(stop, r.applicable)) or 'unrecorded'}. "
        f"Not for: {'; '.join(map(stop, r.not_applicable)) or 'unrecorded'}.",
        f"{r.name} {r.version} 可用于：{'；'.join(map(stop, r.applicable)) or '未记录'}。"
        f"不可用于：{'；'.join(map(stop, r.not_applicable)) or '未记录'}。",
        release[0],
    )
    words.say(
        f"Known limits: {'; '.join(map(stop, r.known_limits)) or 'unrecorded'}.",
        f"已知局限：{'；'.join(map(stop, r.known_limits)) or '未记录'}。",
    )
    return words


PARTS: tuple[Callable[[RunView], Words], ...] = (_input, _conditions, _happened, _why, _signed, _use)
