"""What a person or a test asks of a running Airflow, through its REST API and as a named user."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from waiting import AirflowFailedError, ApiError, log_lines, part, tail, wait_for

__all__ = [
    "AirflowClient",
    "AirflowFailedError",
    "ApiError",
    "Question",
    "form_values",
    "part",
    "tail",
    "wait_for",
]

RACE_SECONDS = 15.0
"""Airflow 3.3 loses an answer that arrives before the scheduler has read the executor's event of the parked
task (seen up to 6 s later). The scheduler's log tells when it has; where it does not, this long is waited."""

FINISHED = frozenset({"success", "failed"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A gate's question as the asked person sees it. ``params`` is Airflow's schema of the form."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    subject: str
    body: str
    options: list[str]
    params: dict[str, Any]
    detail: dict[str, Any] = field(repr=False)


class AirflowClient:
    """A running Airflow at ``url``. ``passwords`` are those of its users; ``admin`` may read everything.

    ``scheduler_log`` is the file where its scheduler writes: it tells when an answer is safe.
    """

    def __init__(self, url: str, *, passwords: Mapping[str, str], scheduler_log: Path) -> None:
        self.url = url
        self.passwords = dict(passwords)
        self.scheduler_log = scheduler_log
        self._http = httpx.Client(timeout=60.0)
        self._tokens: dict[str, str] = {}
        self._seen_parked: Counter[tuple[str, str, str, int]] = Counter()

    def healthy(self) -> bool:
        """True if every component reports that it is healthy."""
        try:
            health = self._http.get(f"{self.url}/api/v2/monitor/health").json()
        except (httpx.HTTPError, ValueError):
            return False
        parts = ("metadatabase", "scheduler", "dag_processor", "triggerer")
        return all((health.get(part) or {}).get("status") == "healthy" for part in parts)

    # -- REST ------------------------------------------------------------------------------------------

    def token(self, user: str) -> str:
        """A bearer token of ``user`` (kept for the life of this object)."""
        if user not in self._tokens:
            login = {"username": user, "password": self.passwords[user]}
            answer = self._http.post(f"{self.url}/auth/token", json=login)
            if answer.status_code != httpx.codes.CREATED:
                raise ApiError("POST", "/auth/token", answer.status_code, answer.text)
            self._tokens[user] = answer.json()["access_token"]
        return self._tokens[user]

    def request(
        self,
        user: str | None,
        method: str,
        path: str,
        json: Any = None,
        **options: Any,
    ) -> httpx.Response:
        """Send a request as ``user`` (None: nobody) and return the answer, whatever its status.

        ``path`` is the whole path, as in ``/api/v2/dags``; quote what you put into it with :func:`part`.
        """
        headers = dict(options.pop("headers", {}))
        if user is not None:
            headers["Authorization"] = f"Bearer {self.token(user)}"
        return self._http.request(method, self.url + path, json=json, headers=headers, **options)

    def api(self, user: str, method: str, path: str, json: Any = None, **options: Any) -> Any:
        """As :meth:`request`, but return the JSON of a good answer and raise :class:`ApiError` otherwise."""
        answer = self.request(user, method, path, json, **options)
        if answer.is_error:
            raise ApiError(method, path, answer.status_code, answer.text)
        return answer.json() if answer.content else None

    # -- DAG runs --------------------------------------------------------------------------------------

    def wait_dag(self, dag_id: str, *, timeout: float = 120.0) -> dict[str, Any]:
        """Wait until the DAG is parsed and return it; import errors end the wait at once."""

        def look() -> dict[str, Any] | None:
            answer = self.request("admin", "GET", f"/api/v2/dags/{part(dag_id)}")
            if answer.status_code == httpx.codes.OK:
                return dict(answer.json())
            errors = self.api("admin", "GET", "/api/v2/importErrors")["import_errors"]
            if errors:
                text = "\n".join(f"{e['filename']}:\n{e['stack_trace']}" for e in errors)
                raise AirflowFailedError(f"DAG {dag_id} is not there and files have import errors:\n{text}")
            return None

        return wait_for(f"DAG {dag_id}", look, timeout=timeout)

    def trigger(self, user: str, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """Unpause the DAG, start a run as ``user`` and return its id."""
        self.wait_dag(dag_id)
        self.api("admin", "PATCH", f"/api/v2/dags/{part(dag_id)}", {"is_paused": False})
        body = {"logical_date": None, "conf": dict(conf or {})}
        return str(self.api(user, "POST", f"/api/v2/dags/{part(dag_id)}/dagRuns", body)["dag_run_id"])

    def run_path(self, dag_id: str, run_id: str) -> str:
        """The REST path of a DAG run."""
        return f"/api/v2/dags/{part(dag_id)}/dagRuns/{part(run_id)}"

    def run_state(self, dag_id: str, run_id: str) -> str:
        """The state of a DAG run."""
        return str(self.api("admin", "GET", self.run_path(dag_id, run_id))["state"])

    def wait_run(
        self, dag_id: str, run_id: str, *, timeout: float = 600.0, states: Collection[str] = FINISHED
    ) -> str:
        """Wait until the run is in one of ``states`` and return it."""

        def look() -> str | None:
            state = self.run_state(dag_id, run_id)
            return state if state in states else None

        return wait_for(f"run {run_id} to be {' or '.join(sorted(states))}", look, timeout=timeout)

    def task_instances(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Every task instance of a run as the REST API tells it."""
        answer = self.api("admin", "GET", self.run_path(dag_id, run_id) + "/taskInstances?limit=200")
        return list(answer["task_instances"])

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str]:
        """Task id (``id[index]`` for a mapped one) to state; ``none`` before it is scheduled."""
        return {
            t["task_id"] + ("" if t["map_index"] < 0 else f"[{t['map_index']}]"): t["state"] or "none"
            for t in self.task_instances(dag_id, run_id)
        }

    def wait_task(
        self,
        dag_id: str,
        run_id: str,
        task_id: str,
        *,
        states: Collection[str] = FINISHED,
        timeout: float = 600.0,
    ) -> str:
        """Wait until a task is in one of ``states`` and return it; a failed run ends the wait."""

        def look() -> str | None:
            state = self.task_states(dag_id, run_id).get(task_id)
            if state in states:
                return state
            if self.run_state(dag_id, run_id) in FINISHED:
                why = self.failures(dag_id, run_id)
                raise AirflowFailedError(f"the run ended, task {task_id} is {state}: {why}")
            return None

        return wait_for(f"task {task_id} to be {' or '.join(sorted(states))}", look, timeout=timeout)

    def failures(self, dag_id: str, run_id: str) -> str:
        """The failed tasks of a run, each with the end of its log."""
        failed = [n for n, s in self.task_states(dag_id, run_id).items() if s == "failed" and "[" not in n]
        return "\n".join(f"{name}:\n{self.task_log_tail(dag_id, run_id, name, lines=12)}" for name in failed)

    def task_path(self, dag_id: str, run_id: str, task_id: str, map_index: int | None = None) -> str:
        """The REST path of a task instance; with the map index where the API wants it (-1: unmapped)."""
        path = f"{self.run_path(dag_id, run_id)}/taskInstances/{part(task_id)}"
        return path if map_index is None else f"{path}/{map_index}"

    def task_log_tail(self, dag_id: str, run_id: str, task_id: str, *, lines: int = 40) -> str:
        """The end of the log of a task's last try."""
        instance = self.api("admin", "GET", self.task_path(dag_id, run_id, task_id))
        path = f"{self.task_path(dag_id, run_id, task_id)}/logs/{max(1, instance['try_number'])}"
        answer = self.request(
            "admin", "GET", path + "?full_content=true", headers={"Accept": "application/json"}
        )
        if answer.is_error:
            return f"(no log: HTTP {answer.status_code})"
        return "\n".join([line for entry in answer.json()["content"] for line in log_lines(entry)][-lines:])

    # -- gates -----------------------------------------------------------------------------------------

    def hitl_details(self, dag_id: str, run_id: str, user: str = "admin") -> list[dict[str, Any]]:
        """Every question of a run, answered or not, as the REST API tells it."""
        return list(self.api(user, "GET", self.run_path(dag_id, run_id) + "/hitlDetails")["hitl_details"])

    def wait_question(
        self,
        dag_id: str,
        run_id: str,
        task_id: str | None = None,
        *,
        user: str = "admin",
        timeout: float = 600.0,
    ) -> Question:
        """Wait until a task waits for an answer that Airflow will not lose, and return its question.

        Without ``task_id`` it is the first task found waiting. A run that ends meanwhile ends the wait.
        """

        def look() -> dict[str, Any] | None:
            for instance in self.task_instances(dag_id, run_id):
                if instance["state"] == "awaiting_input" and task_id in {None, instance["task_id"]}:
                    return instance
            if self.run_state(dag_id, run_id) in FINISHED:
                why = self.failures(dag_id, run_id)
                raise AirflowFailedError(f"the run ended before {task_id or 'a gate'} asked: {why}")
            return None

        waiting = wait_for(f"a question of {task_id or 'a gate'}", look, timeout=timeout)
        self._settle(dag_id, run_id, waiting["task_id"], int(waiting["map_index"]))
        path = self.task_path(dag_id, run_id, waiting["task_id"], int(waiting["map_index"]))
        detail = self.api(user, "GET", path + "/hitlDetails")
        return Question(
            dag_id=dag_id,
            run_id=run_id,
            task_id=waiting["task_id"],
            map_index=int(waiting["map_index"]),
            subject=detail["subject"] or "",
            body=detail["body"] or "",
            options=list(detail["options"]),
            params=dict(detail["params"] or {}),
            detail=detail,
        )

    def answer(
        self,
        user: str,
        question: Question,
        *,
        option: str = "Approve",
        values: Mapping[str, Any] | None = None,
    ) -> httpx.Response:
        """Answer a question as ``user`` through Airflow's REST API and return what it says.

        ``values`` are the form's fields; fields that are not given are sent as the form would send them.
        """
        body = {"chosen_options": [option], "params_input": {**form_values(question), **(values or {})}}
        path = self.task_path(question.dag_id, question.run_id, question.task_id, question.map_index)
        return self.request(user, "PATCH", path + "/hitlDetails", body)

    def _settle(self, dag_id: str, run_id: str, task_id: str, map_index: int) -> None:
        key = (dag_id, run_id, task_id, map_index)
        deadline = time.monotonic() + RACE_SECONDS
        while time.monotonic() < deadline:
            parked = self._parked(*key)
            if parked > self._seen_parked[key]:
                self._seen_parked[key] = parked
                return
            time.sleep(0.3)

    def _parked(self, dag_id: str, run_id: str, task_id: str, map_index: int) -> int:
        key = f"dag_id={dag_id}, task_id={task_id}, run_id={run_id}, map_index={map_index},"
        with self.scheduler_log.open(encoding="utf-8", errors="replace") as log:
            return sum(
                1
                for line in log
                if f"TaskInstance Finished: {key}" in line and "state=awaiting_input" in line
            )


def form_values(question: Question) -> dict[str, Any]:
    """What the form would send if nothing were typed: hidden constants and defaults of its params."""
    values: dict[str, Any] = {}
    for name, param in question.params.items():
        schema = param.get("schema") or {} if isinstance(param, dict) else {}
        if "const" in schema:
            values[name] = schema["const"]
        elif isinstance(param, dict) and "value" in param:
            values[name] = param["value"]
    return values
