"""``make demo``, ``make up``, ``make down``: one real training decision, or an Airflow to make some by hand.

The demo triggers the reference DAG as alice, shows what bob is asked at each of the three gates, answers as bob
through Airflow's REST API, and checks the package with nothing but Python. Its last two lines on standard output
are ``package: PATH`` and ``verify: COMMAND``; it exits 0 only if the package verifies.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn
from urllib.parse import unquote, urlsplit

import psutil
from airflow_client import FINISHED, AirflowClient, AirflowFailedError, ApiError, Question
from private_airflow import PrivateAirflow
from progress import Progress

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / ".demo"
STATE = DEMO / "up.json"
DAGS = ROOT / "dags"
DAG = "pretraining_reference"
LONGEST = 1500.0
"""Seconds after which a demo that does not end is given up."""

CONF = {
    "project": "demo",
    "objective": "Learn the byte statistics of Python source as a small language model",
    "source": "python:stdlib",
    "licence": "PSF-2.0",
}
"""What alice enters; everything else keeps the form's own values, among them the demo's configuration."""

REASONS = {
    "prepare_gate": "Source, licence and quality report are in order; the budget is a few CPU minutes.",
    "run_gate": "One attempt, the loss fell steadily, the checkpoints are verified.",
    "close_gate": "The candidate beats every baseline; register it for research.",
}
"""What bob writes; a reason is required at every gate."""


class DemoFailedError(RuntimeError):
    """The demo did not reach a verified package; the message says where it stopped."""


@contextmanager
def cleaned_up_on_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into the exception that Ctrl-C raises, so that ``finally`` runs."""

    def stop(_number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    # SIGINT too: a program started in the background by a shell would otherwise ignore it.
    before = {
        number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def stop_undisturbed(airflow: PrivateAirflow) -> None:
    """Stop Airflow; a second signal must not interrupt that."""
    before = {n: signal.signal(n, signal.SIG_IGN) for n in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    try:
        airflow.stop()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# -- the demo ------------------------------------------------------------------------------------------


def run_demo(folder: Path = DEMO) -> int:
    """Run the whole line in a new home below ``folder``; 0 only if the package verifies."""
    progress = Progress()
    home = folder / datetime.now(UTC).strftime("run-%Y%m%d-%H%M%S-%f")[:-3]
    airflow = PrivateAirflow(home, dags_folder=DAGS)
    try:
        with cleaned_up_on_signals():
            progress.say(f"Starting a private Airflow in {home} …")
            airflow.start()
            package = train(airflow, progress, CONF)
            return verify(package, airflow.home / "pretrain_archive" / "ledger.pub")
    except KeyboardInterrupt:
        print("Interrupted; stopping Airflow.", file=sys.stderr)
        return 130
    except (AirflowFailedError, ApiError, DemoFailedError) as error:
        print(f"The demo failed: {error}\nEverything it wrote is in {home}", file=sys.stderr)
        return 1
    finally:
        stop_undisturbed(airflow)


def train(airflow: AirflowClient, progress: Progress, conf: Mapping[str, Any]) -> Path:
    """Trigger as alice, answer the gates as bob, wait for the end; return the package's folder."""
    progress.say(f"Airflow runs at {airflow.url}; alice triggers {DAG}.")
    run_id = airflow.trigger("alice", DAG, conf)
    order = [task["task_id"] for task in airflow.api("alice", "GET", f"/api/v2/dags/{DAG}/tasks")["tasks"]]
    deadline = time.monotonic() + LONGEST
    while True:
        states = airflow.task_states(DAG, run_id)
        progress.show(states, order)
        if "awaiting_input" in states.values():
            answer_gate(airflow, progress, run_id)
        state = airflow.run_state(DAG, run_id)
        if state in FINISHED:
            break
        if time.monotonic() > deadline:
            raise DemoFailedError(f"the run is {state} after {LONGEST:.0f} s: {states}")
        time.sleep(1.0)
    progress.show(airflow.task_states(DAG, run_id), order)
    if state != "success":
        raise DemoFailedError(explain(airflow, run_id))
    path = airflow.task_path(DAG, run_id, "archive_close") + "/xcomEntries/return_value?deserialize=true"
    closed = airflow.api("alice", "GET", path)["value"]
    return Path(unquote(urlsplit(closed["package"]).path))


def answer_gate(airflow: AirflowClient, progress: Progress, run_id: str) -> None:
    """Show the waiting gate as bob sees it and approve it as bob."""
    question = airflow.wait_question(DAG, run_id, user="bob")
    progress.say(f"\nbob is asked at {question.task_id}:\n" + textwrap.indent(seen(question), "  │ "))
    if "Approve" not in question.options:
        raise DemoFailedError(f"{question.task_id} cannot be approved:\n{question.body}")
    values: dict[str, Any] = {"reason": REASONS.get(question.task_id, "Everything is in order.")}
    if "acknowledge" in question.params:
        values["acknowledge"] = True
    if "outcome" in question.params:
        values["outcome"] = "register"
    told = "".join(f"; {name}: {value}" for name, value in values.items())
    progress.say(f"bob approves{told}\n")
    answer = airflow.answer("bob", question, values=values)
    if answer.is_error:
        raise DemoFailedError(f"{question.task_id}: HTTP {answer.status_code}: {answer.text}")


def seen(question: Question) -> str:
    """Subject and body, without blank lines between."""
    return "\n".join([question.subject, "", *(line for line in question.body.splitlines() if line.strip())])


def explain(airflow: AirflowClient, run_id: str) -> str:
    """Which task failed, and the end of its log."""
    failed = [t for t in airflow.task_instances(DAG, run_id) if t["state"] == "failed"]
    failed.sort(key=lambda task: task["end_date"] or "")
    parts = []
    for task in failed[:2]:
        log = airflow.task_log_tail(DAG, run_id, task["task_id"])
        parts.append(f"task {task['task_id']} failed; the end of its log:\n{textwrap.indent(log, '  | ')}")
    return "\n".join(parts) or f"no task failed, and yet the run did: {airflow.task_states(DAG, run_id)}"


def verify(package: Path, key: Path) -> int:
    """Check the package with the verifier that it carries, and print the last two lines."""
    python = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin") or sys.executable
    command = [python, "-I", "-S", str(package / "verify.py"), "--key", str(key), str(package)]
    if python != sys.executable:
        command[0] = "python3"
    done = subprocess.run(
        [python, *command[1:]], check=False, capture_output=True, text=True, encoding="utf-8"
    )
    print(done.stdout, done.stderr, sep="", flush=True)
    print(f"package: {package}")
    print(f"verify: {shlex.join(command)}", flush=True)
    return 0 if done.returncode == 0 else 1


# -- by hand -------------------------------------------------------------------------------------------


def running() -> tuple[PrivateAirflow, dict[str, Any]] | None:
    """The installation that ``make up`` left running, or None."""
    try:
        state = json.loads(STATE.read_text(encoding="utf-8"))
        started = psutil.Process(state["pid"]).create_time()
    except (FileNotFoundError, psutil.Error):
        return None
    if abs(started - state["started"]) > 1:  # the number was given to another process
        return None
    airflow = PrivateAirflow(DEMO / "up", dags_folder=DAGS)
    return airflow.attach(port=state["port"], pid=state["pid"]), state


def up() -> int:
    """Start an Airflow that stays, or tell of the one that runs."""
    found = running()
    if found is not None:
        return describe(found[0])
    airflow = PrivateAirflow(DEMO / "up", dags_folder=DAGS)
    try:
        with cleaned_up_on_signals():
            print(f"Starting a private Airflow in {airflow.home} …", file=sys.stderr, flush=True)
            airflow.start()
            airflow.wait_dag(DAG)
            pid = airflow.first_pid or 0
            state = {"port": int(airflow.url.rpartition(":")[2]), "pid": pid}
            STATE.write_text(json.dumps({**state, "started": psutil.Process(pid).create_time()}))
    except (KeyboardInterrupt, AirflowFailedError, ApiError) as error:
        stop_undisturbed(airflow)
        print(f"Airflow did not start: {error or 'interrupted'}", file=sys.stderr)
        return 1
    return describe(airflow)


def describe(airflow: PrivateAirflow) -> int:
    """Print address, users and passwords."""
    print(f"Airflow: {airflow.url}")
    words = {"alice": "submits", "bob": "approves", "carol": "audits", "admin": "administers"}
    for name, password in airflow.passwords.items():
        print(f"  {name:6} {words.get(name, airflow.users[name]):12} password {password}")
    print(f"Command line: . {shlex.quote(str(write_settings(airflow)))} && pretrain-archive run list")
    print("Stop it with: make down")
    return 0


def write_settings(airflow: PrivateAirflow) -> Path:
    """Write a shell file that gives a terminal the settings of this installation."""
    wanted = {k: v for k, v in airflow.environment().items() if k.startswith("AIRFLOW")}
    lines = [f"export {name}={shlex.quote(value)}" for name, value in sorted(wanted.items())]
    lines.append(f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH")
    file = airflow.home / "env.sh"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def down() -> int:
    """Stop what ``up`` started, whatever is left of it."""
    found = running()
    airflow = found[0] if found else PrivateAirflow(DEMO / "up", dags_folder=DAGS)
    if not airflow.family():
        print("Nothing runs.")
    else:
        stop_undisturbed(airflow)
        print("Stopped.")
    STATE.unlink(missing_ok=True)
    return 0


def status() -> int:
    """Tell whether the Airflow of ``up`` runs; 0 if it is healthy."""
    found = running()
    if found is None:
        print("Nothing runs.")
        return 1
    describe(found[0])
    return 0 if found[0].healthy() else 1


def main() -> int:
    """Choose by the first argument."""
    options = argparse.ArgumentParser(description="A private Airflow for this checkout.")
    options.add_argument("what", choices=["run", "up", "down", "status"])
    options.add_argument("--folder", type=Path, default=DEMO, help="where run makes its home")
    chosen = options.parse_args()
    if chosen.what == "run":
        return run_demo(chosen.folder)
    return {"up": up, "down": down, "status": status}[chosen.what]()


if __name__ == "__main__":
    sys.exit(main())
