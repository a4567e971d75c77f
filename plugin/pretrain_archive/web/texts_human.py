"""What the pages say of evaluation by persons and of a model's life after its release."""

from __future__ import annotations

from pretrain_archive.domain.human_texts import FLAGS

HUMAN: dict[str, tuple[str, str]] = {
    "kind.human_evaluation.sampled": ("Outputs sampled for reviewers", "人工评估样本已抽取"),
    "kind.human_evaluation.answered": ("Page of outputs scored", "一页输出已评分"),
    "kind.human_evaluation.refused": ("Answer on outputs refused", "人工评估答复不计入"),
    "kind.human_evaluation.reported": ("Human evaluation summed up", "人工评估已汇总"),
    "kind.model.feedback": ("Feedback received", "收到反馈"),
    "kind.model.adjusted": ("Adjustment made", "已调整"),
    "kind.model.retraining": ("Retraining begun", "已开始重新训练"),
    "kind.model.delivered": ("Model delivered", "模型已交付"),
    "kind.model.taken_down": ("Model taken down", "模型已下线"),
    "kind.model.retired": ("Model retired", "模型已退役"),
    "cause.contradictory": ("contradicts itself", "答复自相矛盾"),
    "about.human.sampled": ("{n} items", "{n} 项"),
    "about.human.passed": ("{n} items scored, nothing speaks against it", "{n} 项已评分，无异议"),
    "about.human.flagged": ("{n} items scored: {flag}", "{n} 项已评分：{flag}"),
    **{f"human.flag.{code}": words for code, words in FLAGS.items()},
}
