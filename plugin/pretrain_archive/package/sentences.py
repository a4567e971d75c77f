"""How a sentence of the decision is put together in two languages, and how its values are written for people."""

from __future__ import annotations

from dataclasses import dataclass, field

from pretrain_archive.domain.records import Record

GATE_ZH = {"prepare": "准备", "review": "复审", "run": "执行", "close": "结项"}
OUTCOME_ZH = {"register": "登记", "continue": "继续实验", "clean_up": "清理"}
OUTCOME_EN = {"register": "enter the registry", "continue": "continue experimenting", "clean_up": "clean up"}
STATE_ZH = {
    "completed": "已完成", "failed": "失败", "stopped": "被停止", "interrupted": "被中断", "lost": "失联",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Sentence:
    """One sentence of the decision; ``gap`` if something in it is unrecorded."""

    key: str
    title_en: str
    title_zh: str
    en: str
    zh: str
    records: tuple[str, ...] = ()
    gap: bool = False

    def to_dict(self) -> dict[str, object]:
        """The sentence as plain JSON."""
        return {
            "key": self.key,
            "en": self.en,
            "zh": self.zh,
            "records": list(self.records),
            "unrecorded": self.gap,
        }


@dataclass(slots=True)
class Words:
    """Collects a sentence in two languages and the records it rests on."""

    key: str
    title_en: str
    title_zh: str
    en: list[str] = field(default_factory=list)
    zh: list[str] = field(default_factory=list)
    records: list[str] = field(default_factory=list)
    gap: bool = False

    def say(self, en: str, zh: str, *records: Record) -> None:
        """Add a text in both languages with the records behind it."""
        self.en.append(en)
        self.zh.append(zh)
        self.records += [record.record_id for record in records]

    def missing(self, en: str, zh: str) -> None:
        """Say of something that it is unrecorded."""
        self.gap = True
        self.say(f"{en}: unrecorded.", f"{zh}：未记录。")

    def done(self) -> Sentence:
        """The sentence."""
        return Sentence(
            key=self.key,
            title_en=self.title_en,
            title_zh=self.title_zh,
            en=" ".join(self.en),
            zh="".join(self.zh),
            records=tuple(self.records),
            gap=self.gap,
        )


def short(digest: str) -> str:
    """A digest for people: the first and last eight hex digits."""
    value = digest.rpartition(":")[2]
    return f"{value[:8]}…{value[-8:]}" if len(value) > 20 else value


def size_text(count: int) -> str:
    """Bytes in decimal units, as people read them."""
    amount, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 1000 or unit == "TB":
            break
        amount /= 1000
    return f"{count} B" if unit == "B" else f"{amount:.3g} {unit}"


def seconds_text(seconds: float | None) -> tuple[str, str]:
    """A duration in both languages."""
    if seconds is None:
        return "unrecorded time", "时长未记录"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min", f"{hours} 小时 {minutes} 分"
    if minutes:
        return f"{minutes} min {rest} s", f"{minutes} 分 {rest} 秒"
    return f"{rest} s", f"{rest} 秒"


def stop(text: str) -> str:
    """Text without its own full stop, so that a sentence can end behind it."""
    return text.strip().rstrip(".。")
