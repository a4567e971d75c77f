"""What the pages say of evaluation by persons and of a model's life after its release."""

from __future__ import annotations

from pretrain_archive.domain.human_texts import FLAGS

HUMAN: dict[str, tuple[str, str]] = {
    "cause.contradictory": ("contradicts itself", "答复自相矛盾"),
    "about.human.sampled": ("{n} items", "{n} 项"),
    "about.human.passed": ("{n} items scored, nothing speaks against it", "{n} 项已评分，无异议"),
    "about.human.flagged": ("{n} items scored: {flag}", "{n} 项已评分：{flag}"),
    **{f"human.flag.{code}": words for code, words in FLAGS.items()},
}
