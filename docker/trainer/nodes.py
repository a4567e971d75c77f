"""Several nodes on one machine: one torchrun agent each, and the end of all when one of them ends.

``python nodes.py --nodes 2 --workers 2 [--network NAME …] -- train.py`` starts an agent per node with the given
number of workers, all in one gloo group. With ``--network`` each agent lives in a network namespace of that name
(made beforehand, by root), where its interface is ``node`` and the first one's address is ``--address``; without
it all meet on the loopback device.

This stands where a scheduler of a cluster stands: it starts the agents, waits for the first that fails, and says
which. It does not restart anything: a job that lost a member ends, and the launch that started it decides about the
next attempt. Whoever started this program ends what is left below it.

Standard library only; needs torch for the program.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import time

INTERFACE = "node"
LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """A port of the loopback device that nobody holds now."""
    with socket.socket() as found:
        found.bind((LOOPBACK, 0))
        return int(found.getsockname()[1])


def agent(options: argparse.Namespace, node: int, port: int, program: list[str]) -> subprocess.Popen[bytes]:
    """Start the agent of one node."""
    inside = options.network[node : node + 1]
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nnodes", str(options.nodes), "--node-rank", str(node),
        "--nproc-per-node", str(options.workers), "--master-addr", options.address if inside else LOOPBACK,
        "--master-port", str(port), "--max-restarts", "0", *program,
    ]  # fmt: skip
    if inside:
        command = ["nsenter", f"--net=/var/run/netns/{inside[0]}", *command]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": INTERFACE if inside else "lo",
        "DRILL_NODE": str(node),
    }
    if options.patience:
        environment["COLLECTIVE_SECONDS"] = f"{options.patience:g}"
    return subprocess.Popen(command, env=environment)


def wait(agents: list[subprocess.Popen[bytes]]) -> int:
    """Wait until all ended well, or until the first did not; its status in words and as exit code."""
    while True:
        codes = [one.poll() for one in agents]
        for node, code in enumerate(codes):
            if code:
                how = f"signal {-code}" if code < 0 else f"exit code {code}"
                print(f"nodes: node {node} ended with {how}; the job ends", file=sys.stderr, flush=True)
                return code if code > 0 else 128 - code
        if all(code == 0 for code in codes):
            return 0
        time.sleep(0.05)


def main(argv: list[str]) -> int:
    """Entry point; see the module docstring."""
    parser = argparse.ArgumentParser(prog="nodes.py", description="several torchrun agents on one machine")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2, help="workers of each node")
    parser.add_argument("--network", nargs="*", default=[], help="a network namespace per node")
    parser.add_argument("--address", default=LOOPBACK, help="address of the first node in its namespace")
    parser.add_argument(
        "--patience", type=float, default=0.0, help="seconds that workers wait for each other"
    )
    at = argv.index("--") if "--" in argv else len(argv)
    options, program = parser.parse_args(argv[:at]), argv[at + 1 :]
    if not program:
        parser.error("-- PROGRAM is needed")
    if options.network and len(options.network) != options.nodes:
        parser.error(f"--network names {len(options.network)} namespaces for {options.nodes} nodes")
    port = 29500 if options.network else free_port()
    return wait([agent(options, node, port, program) for node in range(options.nodes)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
