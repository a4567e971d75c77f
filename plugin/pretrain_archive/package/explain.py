"""The decision, told from a package alone: verified first, then the six sentences with their records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pretrain_archive.package.reading import ReadPackage, read_package
from pretrain_archive.package.story import tell

VERDICT_ZH = {"verified": "已核验", "intact": "完整（未提供密钥）", "changed": "已变更"}


def explain(folder: Path, *, key: Path | None = None) -> dict[str, Any]:
    """The decision as plain JSON.

    Keys: ``run_uid``, ``verdict`` (of the verifier), ``changed`` (ids of items that are not what was
    signed), ``left_out`` (records that were not used because they were changed) and ``sentences`` (key, en,
    zh, records, unrecorded). Raises ``PackageError`` where ``folder`` is no package.
    """
    return _explained(read_package(folder, key=key))


def _explained(package: ReadPackage) -> dict[str, Any]:
    changed = [item["id"] for item in package.report["items"] if item["verdict"] == "changed"]
    return {
        "run_uid": package.view.run_uid,
        "verdict": package.report["verdict"],
        "changed": changed,
        "left_out": list(package.left_out),
        "sentences": [
            {"title": {"en": s.title_en, "zh": s.title_zh}, **s.to_dict()} for s in tell(package.view)
        ],
    }


def explain_text(explained: dict[str, Any], *, language: str = "en") -> str:
    """What :func:`explain` returned, for a terminal, in ``en`` or ``zh``."""
    chinese = language.startswith("zh")
    verdict = explained["verdict"]
    lines = [f"{explained['run_uid']}  {VERDICT_ZH[verdict] if chinese else verdict}"]
    if explained["changed"]:
        intro = (
            "以下项目与签署内容不符，下文不可全信：" if chinese else "Not what was signed; do not rely on it:"
        )
        lines += ["", intro, *(f"  △ {name}" for name in explained["changed"])]
    for sentence in explained["sentences"]:
        language_key = "zh" if chinese else "en"
        lines += ["", sentence["title"][language_key], f"  {sentence[language_key]}"]
    return "\n".join(lines) + "\n"
