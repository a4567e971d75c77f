"""What an account had to take from elsewhere, or could not know: in English and 简体中文."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NOTES: dict[str, tuple[str, str]] = {
    "behind": ("{n} moments went back: nothing was counted for them", "有 {n} 个时刻倒退：未计入任何时间"),
    "coarse": (
        "the program gave no moments: those of the ledger's batches stand for them",
        "程序没有给出时刻：以账本批次的时刻代替",
    ),
    "thinned": (
        "of so many moments of steps every {n}th was read: a stall shorter than that is not seen",
        "步的时刻过多，每 {n} 个读取一个：短于此的停顿无法看出",
    ),
    "open": ("no end is recorded: counted up to the newest sign", "没有结束记录：计到最新的迹象为止"),
    "fewer": (
        "{asked} accelerators were asked for, {there} were there",
        "申请了 {asked} 个加速器，实际有 {there} 个",
    ),
    "members": ("members unrecorded", "成员未记录"),
    "fell_back": (
        "attempt {attempt} went on from step {base} although step {saved} had been saved",
        "第 {attempt} 次尝试从第 {base} 步继续，尽管第 {saved} 步已保存",
    ),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class CostNote:
    """One remark on an account; ``values`` fill the text of ``code``."""

    code: str
    values: tuple[tuple[str, int], ...] = ()

    def text(self, language: Literal["en", "zh"] = "en") -> str:
        """The remark in words."""
        return NOTES[self.code][0 if language == "en" else 1].format_map(dict(self.values))


def note(code: str, **values: int) -> CostNote:
    """A remark with its numbers."""
    return CostNote(code=code, values=tuple(values.items()))
