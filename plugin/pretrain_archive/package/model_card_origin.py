"""A model card's sections about where the model comes from: data, training, dependencies, bytes, people."""

from __future__ import annotations

from pretrain_archive.domain import kinds
from pretrain_archive.domain.run_view import GATES, RunView
from pretrain_archive.domain.source_rights import standings
from pretrain_archive.package.model_card_parts import Row, Said, Section, Table, Words, listed, row

MOST_LISTED = 200
"""Files that a card lists; the bill of materials beside it has all."""

NOTHING = ("nothing of it is on record", "没有任何记录")
OLD = ("released before releases carried an account", "该发布早于发布说明的引入")
GATE = {
    "prepare": ("Prepare gate", "准备关口"),
    "run": ("Run gate", "执行关口"),
    "close": ("Close gate", "收尾关口"),
}


def data(view: RunView) -> Section:
    """Sources with their licences, the snapshots and how documents were parted."""
    sources = standings(view)
    head = (
        ("Source", "来源"),
        ("Licence", "许可证"),
        ("Kind", "类别"),
        ("May be used for", "可用于"),
        ("Masking", "脱敏"),
    )
    rows: list[tuple[Said | None, ...]] = []
    for source in sources:
        fact = source.registered
        if fact is None:
            rows.append((source.name, None, None, None, None))
            continue
        licence = fact.licence_spdx or fact.licence
        rows.append((source.name, licence, fact.origin_class, listed(fact.usage_scope), fact.masking))
    snapshots = [
        (f"{s.name}@{s.version}", s.manifest_digest, f"{s.file_count:,}", f"{s.total_bytes:,}")
        for _, s in view.all(kinds.SnapshotCreated)
    ]
    table = (("Snapshot", "快照"), ("Digest", "摘要"), ("Files", "文件数"), ("Bytes", "字节数"))
    split, quality = view.latest(kinds.SplitCreated), view.latest(kinds.QualityReported)
    passed: Said | None = None
    if quality is not None:
        passed = ("passed", "通过") if quality.passed else ("not passed", "未通过")
    used = f"{split.train_documents:,} / {split.validation_documents:,}" if split else None
    tables = (Table(head=head, rows=tuple(rows)), Table(head=table, rows=tuple(snapshots)))
    return Section(
        title=("Data", "数据"),
        rows=(
            row("Sources", "来源", listed(source.name for source in sources), NOTHING),
            row("Documents for training / validation", "训练 / 验证文档数", used, NOTHING),
            row("Quality check", "质量检查", passed, NOTHING),
        ),
        tables=tuple(t for t in tables if t.rows),
    )  # fmt: skip


def training(view: RunView) -> Section:
    """Configuration, budget, attempts."""
    declared = view.latest(kinds.ConfigurationDeclared)
    ends = [end for _, end in view.all(kinds.AttemptEnded)]
    budget = declared.budget if declared else None
    what = None
    if budget is not None:
        devices = f"{budget.accelerators} × {budget.accelerator}" if budget.accelerators else "CPU"
        what = f"{devices}, {budget.minutes:g} min"
    hours = [end.accelerator_seconds for end in ends if end.accelerator_seconds is not None]
    return Section(
        title=("Training", "训练"),
        rows=(
            row("Configuration", "配置", declared.configuration_digest if declared else None, NOTHING, code=True),
            row("Program's code", "训练程序代码", declared.code_digest if declared else None, NOTHING, code=True),
            row("Budget", "预算", what, NOTHING),
            row("Attempts", "尝试", listed(f"{end.attempt}: {end.state}" for end in ends), NOTHING),
            row(
                "Accelerator hours", "加速卡小时", f"{sum(hours) / 3600:.2f}" if any(hours) else None,
                ("no accelerator was counted", "未统计到加速卡"),
            ),
        ),
    )  # fmt: skip


def dependencies(made: kinds.ReleaseMade) -> Section:
    """What it was made with, as observed."""
    title = ("Dependencies, as observed", "依赖（实际观测）")
    account = made.account
    if account is None:
        return Section(title=title, rows=(row("Dependencies", "依赖", None, OLD),))
    known = account.dependencies
    told = account.unrecorded
    packages = len(known.packages or {})
    note: Words = ("Each of them is listed in bom.cdx.json.", "逐项清单见 bom.cdx.json。")
    return Section(
        title=title,
        rows=(
            row("Python", "Python 版本", known.python, _why(told, "python", "工作进程未报告解释器")),
            row(
                "Packages", "软件包", str(packages) if packages else None,
                _why(told, "packages", "工作进程未报告软件包"),
            ),
            row("Image", "镜像", known.image, _why(told, "image", "工作进程未指明镜像"), code=True),
            row(
                "Code version", "代码版本", known.code_version,
                _why(told, "code_version", "未能读到版本控制信息"), code=True,
            ),
        ),
        notes=(note,) if packages else (),
    )  # fmt: skip


def _why(told: dict[str, str], name: str, zh: str) -> tuple[str, str]:
    return told.get(f"dependencies.{name}", "nobody recorded it"), zh


def integrity(view: RunView, made: kinds.ReleaseMade) -> Section:
    """Every file's digest, and the signature."""
    account = made.account
    files = account.files if account else []
    signed = next((s for _, s in view.all(kinds.ReleaseSigned) if s.release_id == made.release_id), None)
    rows: tuple[Row, ...] = (
        row("Checkpoint", "检查点", made.checkpoint_digest, NOTHING, code=True),
        row("Files", "文件", f"{len(files)}, {sum(f.size for f in files):,} B" if files else None, OLD),
        row(
            "Signature (OpenSSF model-signing)", "签名（OpenSSF model-signing）",
            signed.bundle_digest if signed else None,
            ("unsigned: no signing key was configured when the run was closed", "未签名：关闭训练时未配置签名密钥"),
            code=True,
        ),
        row(
            "Key of the signature", "签名密钥", signed.key_fingerprint if signed else None,
            ("there is no signature", "没有签名"), code=True,
        ),
    )  # fmt: skip
    head = (("File", "文件"), ("Bytes", "字节数"), ("SHA-256", "SHA-256"))
    listing = tuple((f.path, f"{f.size:,}", f.sha256) for f in files[:MOST_LISTED])
    more = len(files) - MOST_LISTED
    return Section(
        title=("Integrity", "完整性"),
        rows=rows,
        tables=(Table(head=head, rows=listing),) if listing else (),
        notes=((f"And {more} more: see bom.cdx.json.", f"另有 {more} 个：见 bom.cdx.json。"),)
        if more > 0
        else (),
    )


def people(view: RunView) -> Section:
    """Who signed each gate."""
    rows = []
    for gate in GATES:
        found = view.decision(gate)
        value: Said | None = None
        if found is not None:
            fact = found[1]
            en, zh = ("approved by", "批准") if fact.decision == "approve" else ("rejected by", "拒绝")
            own = (" (self-signed)", "（自签）") if fact.self_signed else ("", "")
            day = fact.responded_at[:10]
            value = (f"{en} {fact.person_name}{own[0]}, {day}", f"{fact.person_name} {zh}{own[1]}，{day}")
        rows.append(Row(label=GATE[gate], value=value, gap=("not signed", "未签署")))
    return Section(title=("Who signed", "签署"), rows=tuple(rows))
