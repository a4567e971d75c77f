"""What the scheduler's message says. Only what stands in it: it knows nodes, not why they are as they are.

Format (kube-scheduler, ``framework.FitError.Error``): ``0/8 nodes are available: 3 Insufficient nvidia.com/gpu, 5
node(s) had untolerated taint {…}. preemption: …``. A node may be counted under several reasons.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pretrain_archive.compute.kubernetes.waiting_base import Wait, name_of
from pretrain_archive.domain.kinds.cluster import WaitReason

_HEAD = re.compile(r"\b(\d+)/(\d+) nodes are (?:un)?available: ")
_PREEMPTION = re.compile(r"\.? preemption: |\. Preemption:|\. no new claims to deallocate", re.IGNORECASE)
_ENTRY = re.compile(r"(?:^|[,.] )(\d+) (.+?)(?=[,.] \d+ |\.?$)", re.DOTALL)
_INSUFFICIENT = re.compile(r"Insufficient (\S+)")
_CLAIM_GONE = re.compile(r'persistentvolumeclaim "[^"]*" (not found|is being deleted|bound to non-existent)')
_CLAIM = re.compile(r"persistentvolumeclaim|PersistentVolumeClaim|volume", re.IGNORECASE)
_TOPOLOGY = re.compile(
    r"node affinity|selector|taint|topology spread|anti-affinity|affinity rules|pod affinity|didn't match|"
    r"nodename|host ports|free ports",
    re.IGNORECASE,
)


def schedule_wait(pod: Mapping[str, Any], condition: Mapping[str, Any]) -> Wait:
    """Why the scheduler does not place a pod, from its condition ``PodScheduled``."""
    told, where = str(condition.get("message") or ""), f"pod/{name_of(pod)}"
    if condition.get("reason") == "SchedulingGated":
        gates = [str(gate.get("name")) for gate in (pod.get("spec") or {}).get("schedulingGates") or []]
        kind: WaitReason = "topology" if any("topology" in gate for gate in gates) else "policy"
        text = f"scheduling is blocked by {', '.join(gates) or 'a gate'} until somebody lifts it"
        return Wait(reason=kind, message=text, object=where, details={"gates": gates})
    nodes, room = parse(told), (pod.get("status") or {}).get("nominatedNodeName")
    words = _words(told, nodes) + (f"; others are ended for it on node {room}" if room else "")
    return Wait(
        reason=_reason(told, nodes),
        message=words,
        object=where,
        hopeless=bool(_CLAIM_GONE.search(told)),
        details={"scheduler": told, "nominated_node": room, **({"nodes": nodes} if nodes else {})},
    )


def parse(message: str) -> dict[str, int]:
    """Reasons with their number of nodes; ``total`` is the cluster's. Empty for a message without a count."""
    head = _HEAD.search(message)
    if not head:
        return {}
    body = _PREEMPTION.split(message[head.end() :], maxsplit=1)[0]
    found = {entry.group(2).strip().rstrip("."): int(entry.group(1)) for entry in _ENTRY.finditer(body)}
    return {"total": int(head.group(2)), **found}


def _reason(told: str, nodes: Mapping[str, int]) -> WaitReason:
    entries = [text for text in nodes if text != "total"] or [told]
    if _CLAIM_GONE.search(told):
        return "data"
    short = {found.group(1): n for text, n in nodes.items() if (found := _INSUFFICIENT.search(text))}
    if short:
        return "fragmentation" if _apart(short, nodes) else "resources"
    if any(_CLAIM.search(text) for text in entries):
        return "data"
    if any(_TOPOLOGY.search(text) for text in entries):
        return "topology"
    return "resources"


def _apart(short: Mapping[str, int], nodes: Mapping[str, int]) -> bool:
    """Whether no single resource is short on every node that is left: each is there, never all on one node."""
    shut = sum(n for text, n in nodes.items() if text != "total" and not _INSUFFICIENT.search(text))
    left = nodes["total"] - shut
    return len(short) > 1 and max(short.values()) < left <= sum(short.values())


def _words(told: str, nodes: Mapping[str, int]) -> str:
    if not nodes:
        return told or "the scheduler gave no reason"
    parts = [f"{text} on {count}" for text, count in nodes.items() if text != "total"]
    return f"no node of {nodes['total']} takes it: {'; '.join(parts)}" if parts else told
