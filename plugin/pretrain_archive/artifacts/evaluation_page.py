"""The report of an evaluation as one page for people: both languages, no script, nothing from outside.

Every text is escaped where it enters the page; the style sheet is allowed by its hash alone. The same report gives the
same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from pretrain_archive.artifacts.evaluation_chart import Row, forest
from pretrain_archive.artifacts.evaluation_words import FLAGS, HOW, NO_WAY, TOLD, WAYS
from pretrain_archive.domain.evaluations import direction_of

LISTED = 200
"""Metrics, comparisons and flags of a kind that the page lists; the rest is in the JSON beside it."""

PICTURES = 12


def render_page(report: Mapping[str, Any], *, language: str = "en") -> bytes:
    """The page of a report in both languages; ``language`` (en, zh-CN) is the one shown first."""
    style = (files(__package__) / "evaluation_page.css").read_text("utf-8")
    allowed = "sha256-" + base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    chinese = language == "zh-CN"
    title = "评估报告" if chinese else "Evaluation report"
    body = [_head(report), "<main>", _flags(report), _rules(report), _metrics(report), _pictures(report)]
    body += [_comparisons(report), _baselines(report), _scope(report), _definition(report), "</main>"]
    page = (
        f'<!doctype html>\n<html lang="{"zh-CN" if chinese else "en"}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '{allowed}'; "
        "base-uri 'none'; form-action 'none'\">"
        f"<title>{plain(report['checkpoint_id'])} · {title}</title><style>{style}</style></head><body>"
        f'<input type="radio" name="language" id="show-en" class="switch"{"" if chinese else " checked"} '
        'aria-label="English">'
        f'<input type="radio" name="language" id="show-zh" class="switch"{" checked" if chinese else ""} '
        f'aria-label="简体中文"><div class="page">{"".join(body)}</div></body></html>\n'
    )
    return page.encode("utf-8", "backslashreplace")


def plain(text: Any) -> str:
    """A text for the page: on one line, escaped; what cannot be seen (or turns the reading direction) is spelt out."""
    return escape("".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in str(text)), quote=True)


def both(en: str, zh: str) -> str:
    """A fixed text in both languages; the style sheet shows one of them."""
    return f'<span class="en" lang="en">{en}</span><span class="zh" lang="zh-CN">{zh}</span>'


def number(value: Any) -> str:
    """A number for people: six significant digits; nothing as a dash."""
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else plain(value)


def _table(head: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already; the first column heads its row."""
    heads = "".join(f'<th scope="col">{both(*one)}</th>' for one in head)
    shown = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>'
        for first, *rest in rows
    )
    return f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{shown}</tbody></table></div>'


def _section(en: str, zh: str, lead: tuple[str, str], content: str) -> str:
    return f'<section><h2>{both(en, zh)}</h2><p class="lead">{both(*lead)}</p>{content}</section>'


def _head(report: Mapping[str, Any]) -> str:
    passed = report["passed"]
    words = ("Passed", "通过") if passed else ("Not passed", "未通过")
    source = report["source"]
    ids = [
        (("Run", "运行"), report["run_uid"]),
        (("Step", "步"), source["step"]),
        (("Data version", "数据版本"), source["snapshot"]),
        (("Measured on", "评估数据"), report["data_set"]),
        (("Program", "程序"), report["program"] or "evaluate_command"),
    ]
    shown = "".join(f"<span>{both(*name)} <b>{plain(value)}</b></span>" for name, value in ids)
    imported = (
        f'<p class="fine">{both("Imported: measured elsewhere, the program is unrecorded; it decides nothing.", "导入：在别处测得，程序未记录，不作为判定依据。")}</p>'  # noqa: E501
        if report["imported"]
        else ""
    )
    return (
        f'<header><div class="row"><p class="kicker">{both("Evaluation report", "评估报告")}</p>'
        '<nav class="languages" aria-label="Language / 语言"><label for="show-en" lang="en">English</label>'
        f'<label for="show-zh" lang="zh-CN">中文</label></nav></div><h1>{plain(report["checkpoint_id"])}</h1>'
        f'<p class="ids">{shown}</p><div class="verdict {"passed" if passed else "failed"}">{both(*words)}</div>'
        f"{imported}</header>"
    )


def _flags(report: Mapping[str, Any]) -> str:
    if not report["flags"]:
        return ""
    items = []
    for flag in report["flags"][:LISTED]:
        code, _, detail = flag.partition(":")
        items.append(f"<li><b>{both(*FLAGS.get(code, (code, code)))}</b> {plain(detail.strip())}</li>")
    lead = ("An evaluation with a flag cannot pass.", "存在标记的评估不能通过。")
    return _section("Flags", "标记", lead, f'<ul class="flags">{"".join(items)}</ul>')


def _rules(report: Mapping[str, Any]) -> str:
    head = [
        ("Rule", "规则"),
        ("Observed", "观测值"),
        ("Limit", "阈值"),
        ("Holds", "满足"),
        ("Reason", "原因"),
    ]
    rows = [
        [
            plain(rule["name"]), number(rule["observed"]), number(rule["limit"]), _yes(rule["passed"]),
            plain(rule["reason"]),
        ]
        for rule in report["rules"]
    ]  # fmt: skip
    lead = (
        "Fixed before the launch. Without rules nothing passes.",
        "规则在启动前已确定；没有规则则不能通过。",
    )
    return _section("Rules", "规则", lead, _table(head, rows) if rows else _nothing())


def _yes(holds: Any) -> str:
    return (
        f'<span class="{"yes" if holds else "no"}">{both(*(("yes", "是") if holds else ("no", "否")))}</span>'
    )


def _nothing() -> str:
    return f'<p class="fine">{both("none", "无")}</p>'


def _metrics(report: Mapping[str, Any]) -> str:
    head = [("Metric", "指标"), ("Value", "数值"), ("95 % interval", "95% 区间"), ("Samples", "样本数"),
            ("Unit, direction", "单位与方向"), ("Definition", "定义")]  # fmt: skip
    rows = [
        [
            plain(m["name"]),
            number(m["value"])
            if m["value"] is not None
            else f'<span class="no">{plain(_not_finite(m))}</span>',
            _interval(m),
            number(m["samples"]),
            f"{plain(m['unit'] or '–')} "
            + WAYS.get(direction_of(report["flags"], m["name"], m["direction"]) or "", both(*NO_WAY)),
            plain(m["defined_by"] or "–"),
        ]
        for m in report["metrics"][:LISTED]
    ]
    lead = ("Where neither counts nor a standard error are recorded there is no interval.",
            "没有样本数或标准误的指标没有区间。")  # fmt: skip
    return _section("Metrics", "指标", lead, _table(head, rows))


def _not_finite(metric: Mapping[str, Any]) -> str:
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(metric["not_finite"], "–")


def _interval(metric: Mapping[str, Any]) -> str:
    if metric["value"] is None:
        return "–"
    if metric["samples"] is not None and metric["low"] is None:
        return f'<span class="maybe">{both("no interval: no standard error", "无区间：无标准误")}</span>'
    if metric["low"] is None or metric["high"] is None:
        return f'<span class="maybe">{both("no interval: no counts", "无区间：无计数")}</span>'
    how = both(*HOW.get(metric["interval"], ("", "")))
    return f"{number(metric['low'])} – {number(metric['high'])} <small>{how}</small>"


def _pictures(report: Mapping[str, Any]) -> str:
    """A picture for each metric that a counted baseline has too: values with their intervals on one scale."""
    drawn = []
    for metric in report["metrics"]:
        rows = [_row(report["checkpoint_id"], metric, ours=True)]
        for baseline in report["baselines"]:
            rows += [
                _row(baseline["name"], one) for one in baseline["metrics"]
                if baseline["counted"] and one["name"] == metric["name"]
            ]  # fmt: skip
        if len(rows) > 1 and (picture := forest(rows, title=metric["name"])):
            drawn.append(f"<p>{plain(metric['name'])}</p>{picture}")
    if not drawn:
        return ""
    lead = (
        "Value and 95 % interval of the candidate and of each baseline.",
        "候选与各基线的数值及 95% 区间。",
    )
    return _section("Side by side", "并列比较", lead, "".join(drawn[:PICTURES]))


def _row(name: str, metric: Mapping[str, Any], *, ours: bool = False) -> Row:
    return Row(label=str(name), value=metric["value"], low=metric["low"], high=metric["high"], ours=ours)


def _comparisons(report: Mapping[str, Any]) -> str:
    head = [
        ("Metric", "指标"),
        ("Baseline", "基线"),
        ("Difference", "差值"),
        ("95 % interval", "95% 区间"),
        ("Outcome", "结论"),
    ]
    rows = []
    for one in report["comparisons"][:LISTED]:
        told = one["told"]
        tone = {"better": "yes", "worse": "no"}.get(told, "maybe")
        ends = "–" if one["low"] is None else f"{number(one['low'])} – {number(one['high'])}"
        reason = f" <small>{plain(one['reason'])}</small>" if one["reason"] else ""
        outcome = f'<span class="{tone}">{both(*TOLD[told])}</span>{reason}'
        rows.append([plain(one["metric"]), plain(one["baseline"]), number(one["difference"]), ends, outcome])
    lead = (
        "Candidate minus baseline, taken as independent. An interval that holds 0 tells nothing apart.",
        "候选减基线，按相互独立计算；区间包含 0 则不能区分。",
    )
    return _section(
        "Difference to the baselines", "与基线的差异", lead, _table(head, rows) if rows else _nothing()
    )


def _baselines(report: Mapping[str, Any]) -> str:
    head = [
        ("Baseline", "基线"),
        ("Kind", "类型"),
        ("Counts", "计入"),
        ("Why not", "不计入的原因"),
        ("Digest", "摘要"),
    ]
    rows = [
        [plain(b["name"]), plain(b["kind"]), _yes(b["counted"]), plain(b["reason"] or "–"),
         f"<code>{plain(b['subject_digest'])}</code>"]
        for b in report["baselines"]
    ]  # fmt: skip
    lead = (
        "Other bytes than the candidate, measured by the same definition.",
        "与候选不同的字节，按相同定义测得。",
    )
    return _section("Baselines", "基线", lead, _table(head, rows) if rows else _nothing())


def _scope(report: Mapping[str, Any]) -> str:
    scope = report["scope"]
    pairs = [
        (("Objective", "目标"), scope["objective"]),
        (("Intended use", "预期用途"), scope["intended_use"]),
        (("Data set", "数据集"), scope["data_set"]),
        (("Samples", "样本数"), scope["samples"]),
        (("Not evaluated", "未评估"), "; ".join(scope["not_evaluated"])),
        (("Known limits", "已知局限"), "; ".join(scope["limits"])),
    ]
    shown = "".join(
        f"<dt>{both(*name)}</dt><dd>{plain(value) if value else both('unrecorded', '未记录')}</dd>"
        for name, value in pairs
    )
    lead = ("How far these numbers reach, and where they do not.", "这些数值的适用范围与局限。")
    return _section("Scope and limits", "范围与局限", lead, f"<dl>{shown}</dl>")


def _definition(report: Mapping[str, Any]) -> str:
    rows = [
        [*(plain(suite[key]) for key in ("name", "version", "objective")), f"<code>{plain(suite['digest'])}</code>"]
        for suite in report["suites"]
    ]  # fmt: skip
    head = [("Suite", "指标集"), ("Version", "版本"), ("Objective", "目标"), ("Digest", "摘要")]
    text = plain(json.dumps(report["definition"], ensure_ascii=False, sort_keys=True))
    ids = [
        (("Checkpoint digest", "检查点摘要"), report["checkpoint_digest"]),
        (("Configuration", "配置"), report["source"]["configuration_digest"]),
        (("Evaluation data", "评估数据"), report["data_set_digest"]),
        (("Program", "程序"), report["evaluator_digest"] or "unrecorded"),
        (("Output", "输出"), f"sha256:{report['output_sha256']}"),
    ]
    shown = "".join(f"<dt>{both(*name)}</dt><dd><code>{plain(value)}</code></dd>" for name, value in ids)
    lead = ("What exactly was measured, and what it leads back to.", "测量的确切内容及其来源。")
    suites = _table(head, rows) if rows else ""
    return _section(
        "Definition and origin",
        "定义与来源",
        lead,
        f'{suites}<p class="fine"><code>{text}</code></p><dl>{shown}</dl>',
    )
