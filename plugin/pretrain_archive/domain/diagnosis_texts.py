# ruff: noqa: E501 (a sentence stands on one line in each language)
"""What hints say, in English and 简体中文: each claims no more than its evidence shows."""

from __future__ import annotations

HINTS: dict[str, tuple[str, str]] = {
    "slow_reads": (
        (
            "Devices were busy {busy} of the time, and {read} of the step time went into reading data. Reading is a "
            "likely brake; that it is the only one is not shown."
        ),
        "设备忙碌时间占 {busy}，步骤时间的 {read} 用于读取数据。读取很可能是瓶颈，但尚不能证明是唯一原因。",
    ),
    "low_use": (
        (
            "Devices were busy {busy} of the time. Reading took {read} of the step time, so the reason lies "
            "elsewhere or is unrecorded."
        ),
        "设备忙碌时间占 {busy}。读取占步骤时间的 {read}，原因在别处，或未被记录。",
    ),
    "low_use_unread": (
        "Devices were busy {busy} of the time. How long reading took is unrecorded, and so is the reason.",
        "设备忙碌时间占 {busy}。读取所用的时间未记录，原因也未记录。",
    ),
    "out_of_memory": (
        (
            "Attempt {attempt} ended out of memory. The configuration says {settings}. Both drive the need for memory; "
            "which of them was too large is not shown."
        ),
        "第 {attempt} 次尝试因内存不足结束。配置为 {settings}。它们都影响内存需求，尚不能判断是哪一项过大。",
    ),
    "across_nodes": (
        (
            "A step took {slow} s on {many} nodes and {fast} s on {few}. Communication between nodes is a possible reason; "
            "other differences between the attempts are not excluded."
        ),
        "{many} 个节点上每步 {slow} 秒，{few} 个节点上每步 {fast} 秒。可能是节点间通信所致；其他差异尚未排除。",
    ),
    "network_events": (
        (
            "The members of attempt {attempt} were on {many} nodes, and {count} events named the network. Read them before "
            "the program is blamed."
        ),
        "第 {attempt} 次尝试的成员分布在 {many} 个节点上，有 {count} 个事件提到网络。请先查看这些事件，再判断程序。",
    ),
    "save_stall": (
        (
            "The longest save took {longest} s, the middle one {median} s. The storage stood still at least once; why is "
            "not recorded."
        ),
        "最长的一次保存用了 {longest} 秒，中位数为 {median} 秒。存储至少停顿过一次，原因未被记录。",
    ),
    "saves_dear": (
        (
            "Saves took {share} of the devices' time. A longer interval or a faster store would give time back; see the "
            "advice on the interval."
        ),
        "保存占用了设备时间的 {share}。加长间隔或使用更快的存储可以节省时间；请参见关于间隔的建议。",
    ),
    "one_node": (
        (
            "{count} of {all} broken-off attempts or members were on node {node}. That the node is the cause is not shown: "
            "try another one."
        ),
        "{all} 次中断的尝试或成员中有 {count} 次在节点 {node} 上。尚不能证明是该节点的问题，请换一个节点试试。",
    ),
    "waited": (
        "Attempts waited {seconds} s, most of it ({most} s) for: {reason}.",
        "尝试共等待 {seconds} 秒，其中最多的（{most} 秒）是因为：{reason}。",
    ),
    "stood_still": (
        "Devices were held for {share} of the time without a step. Look at the log from the last step on.",
        "有 {share} 的时间占用着设备却没有前进。请从最后一步开始查看日志。",
    ),
    "without_evidence": (
        (
            "For {share} of the held time nobody recorded what happened. Let the program report its steps with their "
            "moments."
        ),
        "有 {share} 的占用时间没有任何记录。请让程序按时刻报告步骤。",
    ),
}

REASONS: dict[str, tuple[str, str]] = {
    "quota": ("the quota", "配额"),
    "queue": ("others in the queue", "队列中的其他任务"),
    "resources": ("free resources", "空闲资源"),
    "fragmentation": ("enough resources on one node", "单个节点上足够的资源"),
    "topology": ("nodes that fit the topology", "符合拓扑的节点"),
    "image": ("the image", "镜像"),
    "data": ("the data", "数据"),
    "environment": ("the environment", "环境"),
    "policy": ("what the policy allows", "策略许可"),
    "start": ("members to get ready", "成员就绪"),
}

WORDS: dict[str, tuple[str, str]] = {
    "no_settings": ("nothing about batch or sequence length", "没有批大小或序列长度"),
    "no_attempt": ("no attempt was launched", "尚未启动任何尝试"),
    "attempt": ("attempt {attempt}: {state}", "第 {attempt} 次尝试：{state}"),
    "busy_accelerators": ("{share} of the accelerators", "加速器的 {share}"),
    "busy_cpu": ("{share} of one CPU", "一个 CPU 的 {share}"),
    "not_finite": ("the loss was not finite at some step", "某一步的损失不是有限数"),
    "loss": ("loss {first} to {last}", "损失从 {first} 到 {last}"),
    "open": ("running", "进行中"),
    "completed": ("completed", "已完成"),
    "failed": ("failed", "失败"),
    "stopped": ("stopped", "已停止"),
    "interrupted": ("interrupted", "已中断"),
    "lost": ("lost", "失联"),
}
