# ruff: noqa: E501 (a sentence stands on one line in each language)
"""Words of a run's course, its cost and its diagnosis: English, 简体中文."""

from __future__ import annotations

COMPUTE: dict[str, tuple[str, str]] = {
    # -- timeline
    "course.title": ("Timeline", "时间线"),
    "course.about": (
        "Entries in one order of time: {n}. Moments of workers are led to the ledger's clock.",
        "共 {n} 项，按同一时间顺序排列；工作节点的时刻已换算到账本的时钟。",
    ),
    "course.thinned": (
        "Entries that lie close together are drawn as one with their number.",
        "相距很近的条目合并为一个，并标出数量。",
    ),
    "course.break": ("{hours} without an entry, drawn shorter.", "{hours} 没有条目，已缩短显示。"),
    "course.list": ("The same as a list ({n})", "以列表显示（{n}）"),
    "course.none": ("Nothing happened yet.", "尚未发生任何事情。"),
    "course.count": ("{n} entries", "{n} 项"),
    "course.lane": ("Lane", "分类"),
    "course.when": ("When", "时间"),
    "course.what": ("What", "内容"),
    "course.attempt": ("Attempt", "尝试"),
    "lane.gates": ("Gates", "关口"),
    "lane.operator": ("Persons", "人员操作"),
    "lane.attempts": ("Attempts", "尝试"),
    "lane.waits": ("Waits", "等待"),
    "lane.members": ("Members", "成员"),
    "lane.nodes": ("Nodes", "节点"),
    "lane.network": ("Network", "网络"),
    "lane.environment": ("Environment", "环境"),
    "lane.storage": ("Storage", "存储"),
    "lane.checkpoints": ("Checkpoints", "检查点"),
    "lane.stops": ("Stops", "停止"),
    "clock.worker": ("worker's clock", "工作节点时钟"),
    "clock.cluster": ("cluster's clock", "集群时钟"),
    "clock.ledger": ("ledger's clock", "账本时钟"),
    # -- cost
    "cost.title": ("Where device time went", "设备时间的去向"),
    "cost.none": ("No device was held yet.", "尚未占用任何设备。"),
    "cost.accelerator": ("Accelerators held {time} in all", "加速器共占用 {time}"),
    "cost.machine": ("The machine was held {time} in all (no accelerator)", "机器共占用 {time}（无加速器）"),
    "cost.exploration": (
        "This run is an exploration: all of it counts as one bin. What happened inside:",
        "这是一次探索性训练：全部计入同一类。内部情况如下：",
    ),
    "cost.bin": ("Bin", "类别"),
    "cost.seconds": ("Device time", "设备时间"),
    "cost.share": ("Share", "占比"),
    "cost.unevidenced": ("of which {time} because nothing was recorded", "其中 {time} 是因为没有任何记录"),
    "cost.queue": ("Queued without devices", "未占用设备的排队时间"),
    "cost.causes": ("What brought it about", "由什么引起"),
    "cost.cause": ("{bin}: {time} in attempt {attempt}", "{bin}：第 {attempt} 次尝试中 {time}"),
    "cost.stored": ("Stored", "存储"),
    "cost.gigabyte_days": ("{amount} gigabyte-days", "{amount} GB·天"),
    "cost.sent": ("Sent, as the program says", "网络发送（程序自报）"),
    "cost.node_sent": ("Sent by its nodes meanwhile", "期间所在节点的网络发送"),
    "cost.node_received": ("Received by its nodes meanwhile", "期间所在节点的网络接收"),
    "cost.money": ("Known cost", "已知费用"),
    "cost.no_money": (
        "The policy names no price, so no amount is told.",
        "策略没有给出价格，因此不显示金额。",
    ),
    "cost.who": ("Charged to", "归属"),
    "cost.team": ("Team", "团队"),
    "cost.budget": ("Budget", "预算"),
    "cost.budget_owner": ("Budget owner", "预算负责人"),
    "cost.person": ("Person", "人员"),
    "cost.priority": ("Priority", "优先级"),
    "bin.waiting": ("waiting for members", "等待成员"),
    "bin.start_up": ("start-up", "启动"),
    "bin.productive": ("productive", "有效训练"),
    "bin.evaluation": ("evaluation", "评测"),
    "bin.checkpoint_io": ("saving checkpoints", "保存检查点"),
    "bin.lost": ("lost", "丢失"),
    "bin.recomputed": ("done again", "重复计算"),
    "bin.idle_hold": ("held without progress", "占用但无进展"),
    "bin.exploration": ("exploration", "探索"),
    # -- diagnosis and advice
    "diagnosis.title": ("Where to look first", "先看哪里"),
    "diagnosis.alive": ("Does the task live?", "任务是否存活？"),
    "diagnosis.resources": ("Are its resources used?", "资源是否被使用？"),
    "diagnosis.metrics": ("Do its metrics move?", "指标是否变化？"),
    "diagnosis.yes": ("yes", "是"),
    "diagnosis.no": ("no", "否"),
    "diagnosis.none": ("Nothing that was recorded stands out.", "记录中没有异常之处。"),
    "diagnosis.evidence": ("Evidence", "证据"),
    "advice.title": ("Checkpoint interval", "检查点间隔"),
    "advice.missing": (
        "No advice: the times of saves, steps and attempts are not all recorded.",
        "无法给出建议：保存、步骤和尝试的时间没有全部记录。",
    ),
    "advice.bound": (
        (
            "No failure was seen that checkpoints help against, so the best interval is not known. More often than every {steps} steps ({seconds} s) cannot "
            "be justified; now it is every {now} steps."
        ),
        "没有出现过检查点可以弥补的故障，因此不知道最佳间隔。比每 {steps} 步（{seconds} 秒）更频繁没有依据；目前为每 {now} 步。",
    ),
    "advice.best": (
        (
            "Every {steps} step(s) ({seconds} s) by Daly 2006, between {low} s and {high} by the 95 % limits of {failures} "
            "failure(s); now it is every {now} step(s). Expected saving: {saving} of the bare work."
        ),
        (
            "按 Daly 2006 为每 {steps} 步（{seconds} 秒）；按 {failures} 次故障的 95% 界限在 {low} 秒与 {high} 之间；"
            "目前为每 {now} 步。预计节省纯工作量的 {saving}。"
        ),
    ),
    "advice.unlimited": ("no upper limit", "无上限"),
}
