"""What the items of a package say, in 简体中文: by item, the English sentence with blanks and the Chinese one.

Items carry English sentences, which are also what ``evidence/items.json`` holds; the page shows both languages.
A sentence that is not here is data of the run (a name, a digest, an objective) and reads the same in both. A
test compares the hints and checks in the code with this list.
"""

from __future__ import annotations

import re
from functools import cache

from pretrain_archive.package.sentences import GATE_ZH
from pretrain_archive.package.words import CHECKS_ZH, ROLES_ZH

Sentences = tuple[tuple[str, str], ...]

_GATE: Sentences = (
    ("Answer the {gate} gate.", "请在{gate}关口作出决定。"),
    ("Signed for older evidence: answer the new question.", "签署所依据的证据已过时：请就新的卷宗作出决定。"),
    ("Rejected by {person}: {reason}", "{person} 已拒绝：{reason}"),
    ("approved by {person} (self-signed)", "{person} 批准（自签）"),
    ("approved by {person}", "{person} 批准"),
    ("no such dossier in the run", "该运行中没有此卷宗"),
)
_TRACK: Sentences = (
    ("{good} of {all} items of this track are verified", "本轨道 {all} 项中 {good} 项已核验"),
    ("every item verified", "每一项均已核验"),
    ("See the items of this track.", "请查看本轨道的各项。"),
)
_UNREGISTERED = ("no registered checkpoint", "没有已登记的检查点")

SENTENCES: dict[str, Sentences] = {
    "track.data": _TRACK,
    "track.compute": _TRACK,
    "track.artifact": _TRACK,
    "gate.prepare": _GATE,
    "gate.review": _GATE,
    "gate.run": _GATE,
    "gate.close": _GATE,
    "run.summary": (("Trigger the run with its purpose.", "请写明目的后触发该运行。"),),
    "run.people": (
        ("Name in the policy: {roles}.", "请在策略中写明：{roles}。"),
        ("{roles}", "{roles}"),
    ),
    "data.source": (("Register the source with its licence.", "请登记来源及其许可证。"),),
    "data.rights": (
        ("Look up what the ledger says of each source.", "请查询账本对每个来源的记录。"),
        ("every source may be used", "每个来源均可使用"),
        ("{sources} may be used", "{sources} 可以使用"),
    ),
    "data.access": (
        (
            "Record who reads and since when: pretrain-archive source grant.",
            "请记录由谁读取、自何时起：pretrain-archive source grant。",
        ),
        ("{source}: read by {reader}, since {moment}", "{source}：由 {reader} 读取，自 {moment} 起"),
        (
            "{source}: read by {reader}, no permission needed: {reason}",
            "{source}：由 {reader} 读取，无需授权：{reason}",
        ),
        ("{source}: read by {reader}, {permitted}", "{source}：由 {reader} 读取，{permitted}"),
    ),
    "data.snapshot": (("Make a snapshot of the source.", "请为来源创建快照。"),),
    "data.processing": (
        ("Process and split the snapshot.", "请处理并切分快照。"),
        ("{steps} documents for training, {held} held out", "{steps} 个文档用于训练，{held} 个用于验证"),
    ),
    "data.rebuilding": (
        ("Give the policy a section [data.recipe].", "请在策略中添加 [data.recipe] 一节。"),
        ("a copy is kept", "保留了副本"),
        ("digests are kept, the content lies in {place}", "保留摘要，内容位于 {place}"),
        (
            "a recipe is kept for {days} days, it may be rebuilt, approved by {person}",
            "配方保留 {days} 天，可以重建，由 {person} 批准",
        ),
        (
            "a recipe is kept for {days} days, it must not be rebuilt, decided by {person}",
            "配方保留 {days} 天，不得重建，由 {person} 决定",
        ),
    ),
    "data.quality": (
        ("Check the quality of the snapshot.", "请对快照执行质量检查。"),
        (
            "{passed} of {all} quality gates passed on {count} documents",
            "{all} 项质量检查中 {passed} 项通过，共 {count} 个文档",
        ),
    ),
    "compute.configuration": (
        ("Declare configuration and environment.", "请声明配置和环境。"),
        ("No worker reported its environment.", "没有工作进程报告其环境。"),
        ("the declared environment", "所声明的环境"),
        ("other: {fields}", "不同之处：{fields}"),
    ),
    "compute.events": (
        ("No attempt was started.", "尚未开始任何尝试。"),
        ("Attempt {numbers} has no recorded end.", "第 {numbers} 次尝试没有结束记录。"),
        ("{count} attempts", "{count} 次尝试"),
    ),
    "artifact.checkpoints": (
        ("Register a checkpoint.", "请登记一个检查点。"),
        ("{kept} kept, {deleted} deleted with a tombstone", "保留 {kept} 个，删除 {deleted} 个并留有墓碑"),
    ),
    "artifact.candidate": (
        ("Name the checkpoint that may become the model.", "请指明可成为模型的检查点。"),
        _UNREGISTERED,
    ),
    "artifact.evaluation": (
        ("Evaluate the candidate.", "请评估候选模型。"),
        ("No finite value for {names}.", "{names} 没有有限值。"),
        ("Without a baseline no effect can be claimed.", "没有基线对照，不能声称任何效果。"),
        ("not passed: {metrics}", "未通过：{metrics}"),
        ("unrecorded", "未记录"),
        _UNREGISTERED,
    ),
    "artifact.limits": (
        ("State known limits at the close gate.", "请在结项关口说明已知局限。"),
        ("{limits} (evaluated on {data})", "{limits}（在 {data} 上评估）"),
    ),
    "artifact.retention": (("Give the retention rule in the policy.", "请在策略中写明保留规则。"),),
    "reference": (
        ("readers of the object store; ask the data owner", "对象存储的读者；请询问数据负责人"),
        ("readers of the object store; ask {person}", "对象存储的读者；请询问 {person}"),
        ("readers of the object store", "对象存储的读者"),
        ("operators of the platform; may hold paths and host names", "平台运维人员；可能含有路径和主机名"),
        ("{kind} class; ask {person}", "{kind} 类产物；请询问 {person}"),
    ),
}
"""Item id (``reference`` for what is not copied) → sentences; the first that fits is taken."""


def chinese(item_id: str, text: str) -> str:
    """What an item says, in Chinese; data of the run as they are."""
    if text in CHECKS_ZH:
        return CHECKS_ZH[text]
    for english, translated in SENTENCES.get(item_id, ()):
        found = _shape(english).fullmatch(text)
        if found:
            return translated.format(
                **{name: _word(name, value) for name, value in found.groupdict().items()}
            )
    return text


@cache
def _shape(english: str) -> re.Pattern[str]:
    """The sentence as a pattern: each blank holds anything."""
    parts = re.split(r"\{(\w+)\}", english)
    whole = "".join(f"(?P<{part}>.*)" if at % 2 else re.escape(part) for at, part in enumerate(parts))
    return re.compile(whole, re.DOTALL)


def _word(name: str, value: str) -> str:
    """What fills a blank: gates and roles have words of their own."""
    if name == "gate":
        return GATE_ZH.get(value, value)
    if name == "roles":
        return re.sub(r"\w+(?=:|,|$)", lambda role: ROLES_ZH.get(role[0], role[0]), value)
    return value
