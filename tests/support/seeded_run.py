"""One complete run, written into any ledger and store: what pages, packages and commands are tested on.

``seed_run`` writes what a real run writes, in the order of the reference DAG: source, snapshot, split,
quality, the three gates, two attempts (the first is killed), real safetensors checkpoints, an evaluation with
baselines, a candidate and, if asked, the close. The same seed gives the same facts and bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import random
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pretrain_archive.artifacts.hashing import files_digest
from pretrain_archive.domain import kinds
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.policy import load_policy
from pretrain_archive.domain.records import Actor, Draft, Edge, Record, Relation
from pretrain_archive.domain.records import Origin as TaskOrigin
from pretrain_archive.ledger.canonical import canonical_bytes, digest_of
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.storage.port import ObjectStore

SOURCE = "py-stdlib"
SNAPSHOT = "python-stdlib"
STEPS_PER_CHECKPOINT = 20
KILLED_AT = 52
LAST_STEP = 100
POLICIES = Path(__file__).parents[2] / "dags/policies"


def seed_run(
    ledger: Ledger,
    store: ObjectStore,
    folder: Path,
    *,
    run_uid: str = "run_019a0000-0000-7000-8000-000000000001",
    seed: int = 17,
    objective: str = "Show that a byte-level decoder learns Python source better than an n-gram model",
    dag_run_id: str = "manual__2026-11-29T10:00:00+00:00",
    close: bool = True,
    until: str = "",
) -> str:
    """Write a full run and return its uid. ``folder`` gets the checkpoints; ``until`` stops after a stage.

    Stages: open, data, prepare, training, evaluation, run, close. ``close`` False leaves the close gate out.
    """
    run = _Run(ledger=ledger, store=store, folder=folder, uid=run_uid, seed=seed, dag_run_id=dag_run_id)
    stages = {
        "open": lambda: run.open(objective),
        "data": run.data,
        "prepare": run.prepare,
        "training": run.training,
        "evaluation": run.evaluation,
        "run": run.run_gate,
        "close": run.close_gate,
    }
    for name, stage in stages.items():
        if name == "close" and not close:
            break
        stage()
        if name == until:
            break
    return run_uid


def safetensors_bytes(rng: random.Random, shapes: dict[str, tuple[int, ...]]) -> bytes:
    """A real safetensors file (F32): 8 bytes of header length, JSON header, little-endian values."""
    header: dict[str, Any] = {}
    body = bytearray()
    for name, shape in sorted(shapes.items()):
        count = math.prod(shape)
        start = len(body)
        body += struct.pack(f"<{count}f", *(rng.gauss(0, 0.02) for _ in range(count)))
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [start, len(body)]}
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    return struct.pack("<Q", len(head)) + head + bytes(body)


def sha(data: bytes) -> str:
    """``sha256:`` and the hex digest."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


@dataclass
class _Run:
    """Writes one run stage by stage; keeps what later stages refer to."""

    ledger: Ledger
    store: ObjectStore
    folder: Path
    uid: str
    seed: int
    dag_run_id: str
    configuration_digest: str = ""
    environment_digest: str = ""
    snapshot_digest: str = ""
    checkpoints: list[dict[str, Any]] = field(default_factory=list)
    evaluation_id: str = ""
    report_digest: str = ""
    ordinals: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(
        self,
        task: str,
        payload: kinds.Payload,
        *edges: tuple[str, str, str],
        attempt: int = 0,
        person: str = "",
        unique: str = "",
    ) -> Record:
        """Append one record as task ``task`` wrote it."""
        kind = kinds.BY_MODEL[type(payload)]
        ordinal = self.ordinals.get((task, kind), 0)
        self.ordinals[task, kind] = ordinal + 1
        draft = Draft(
            stream=self.uid,
            kind=kind,
            payload=payload.to_json(),
            actor=Actor(type="person", name=person) if person else Actor(type="task", name=task),
            origin=TaskOrigin(dag_id="pretraining_reference", dag_run_id=self.dag_run_id, task_id=task),
            attempt=attempt,
            ordinal=ordinal,
            unique=unique,
            edges=tuple(
                Edge(subject=Ref.parse(left), relation=Relation(name), object=Ref.parse(right))
                for left, name, right in edges
            ),
        )
        return self.ledger.append([draft])[0]

    def _approval(self) -> str:
        """The record of the approved prepare gate, empty before it."""
        decisions = self.ledger.records(streams=[self.uid], kinds=["gate.decision"])
        return next((r.record_id for r in decisions if r.payload["gate"] == "prepare"), "")

    def put(self, key: str, data: bytes) -> str:
        """Store an object under the run's prefix and return its location."""
        self.store.put_if_absent(key, io.BytesIO(data))
        return self.store.location(key)

    # -- stages ----------------------------------------------------------------------------------------

    def open(self, objective: str) -> None:
        policy = load_policy(POLICIES, "demo")
        conf = {"project": "demo", "source": SOURCE, "steps": LAST_STEP, "learning_rate": 0.003}
        self.add(
            "open_run",
            kinds.RunOpened(
                run_uid=self.uid,
                project="demo",
                dag_id="pretraining_reference",
                dag_run_id=self.dag_run_id,
                submitter="alice",
                purpose=kinds.Purpose(
                    training_type="pre-training",
                    objective=objective,
                    origin_class="open licence",
                    intended_use="research",
                    acceptance_metric="bits_per_byte",
                    acceptance_limit=4.2,
                ),
                people={
                    "data_owner": "alice",
                    "model_owner": "alice",
                    "platform_owner": "bob",
                    "budget_owner": "bob",
                    "restore_owner": "alice",
                    "acceptance": "bob",
                },
                policy_digest=policy.digest,
                policy_name=policy.name,
                policy=policy.policy.model_dump(mode="json"),
                conf=conf,
                conf_digest=digest_of(conf),
                code_version="3f1c9d2",
            ),
            (f"run:{self.uid}", "was_attributed_to", "person:alice"),
        )

    def data(self) -> None:
        self.add(
            "register_source",
            kinds.SourceRegistered(
                source_id=SOURCE,
                name="Python standard library",
                uri="file:///usr/lib/python3.11",
                licence="PSF-2.0",
                obtained="shipped with the interpreter",
                authorisation="licence permits use, modification and redistribution",
                usage_scope=["research", "experiment", "internal"],
                origin_class="open licence",
                owner="alice",
                responsible="alice",
                applicable_tasks=["pre-training"],
                access_identity="service account of the workers",
                access_granted_at="2026-10-01T08:00:00Z",
            ),
            (f"source:{SOURCE}", "was_attributed_to", "person:alice"),
        )
        rng = random.Random(self.seed)
        files = []
        for number in range(60):
            text = f"def f{number}(x):\n    return x * {rng.random()!r}\n".encode() * (1 + number % 5)
            files.append({"path": f"module_{number:03d}.py", "size": len(text), "sha256": sha(text)[7:]})
        manifest = canonical_bytes({"format": "pretrain-archive/manifest/1", "files": files})
        self.snapshot_digest = sha(manifest)
        total = sum(int(entry["size"]) for entry in files)
        self.add(
            "snapshot",
            kinds.SnapshotCreated(
                name=SNAPSHOT,
                version=1,
                manifest_digest=self.snapshot_digest,
                manifest_uri=self.put(f"snapshots/{SNAPSHOT}/1/manifest.json", manifest),
                file_count=len(files),
                total_bytes=total,
                parent=None,
                unchanged=False,
                mode="copy",
                source_id=SOURCE,
                source_uri="file:///usr/lib/python3.11",
                include=["**/*.py"],
                exclude=["**/test/**"],
            ),
            (f"snapshot:{SNAPSHOT}@1", "was_derived_from", f"source:{SOURCE}"),
        )
        split = canonical_bytes(
            {"train": [f["path"] for f in files[3:]], "validation": [f["path"] for f in files[:3]]}
        )
        held = sum(int(entry["size"]) for entry in files[:3])
        self.add(
            "snapshot",
            kinds.SplitCreated(
                method="by document, SHA-256 of the path and the seed",
                seed=17,
                validation_fraction=0.05,
                snapshot=f"{SNAPSHOT}@1",
                split_uri=self.put(f"runs/{self.uid}/split.json", split),
                split_digest=sha(split),
                train_documents=57,
                train_bytes=total - held,
                validation_documents=3,
                validation_bytes=held,
            ),
            (f"split:{sha(split)}", "was_derived_from", f"snapshot:{SNAPSHOT}@1"),
        )
        gates = [
            kinds.QualityGate(name="format", passed=True, observed=0.0, limit=0.0),
            kinds.QualityGate(name="exact_duplicates", passed=True, observed=0.0167, limit=0.05),
            kinds.QualityGate(name="cleanliness", passed=True, observed=0.0, limit=0.02),
            kinds.QualityGate(name="mixture", passed=True, observed="0.52 in [0.1, 0.9]", limit="[0.1, 0.9]"),
        ]
        report = canonical_bytes(
            {"suite": "documents/1", "gates": [g.model_dump() for g in gates], "documents": 60}
        )
        self.add(
            "quality_check",
            kinds.QualityReported(
                snapshot=f"{SNAPSHOT}@1",
                suite_name="documents/1",
                suite_digest=sha(b"documents/1"),
                passed=True,
                documents=60,
                exact_duplicates=1,
                near_duplicates=None,
                gates=gates,
                report_uri=self.put(f"runs/{self.uid}/quality.json", report),
                report_digest=sha(report),
                engine="great_expectations 1.24.1",
            ),
            (f"evaluation:{sha(report)}", "used", f"snapshot:{SNAPSHOT}@1"),
        )

    def prepare(self) -> None:
        configuration = {
            "layers": 4,
            "width": 128,
            "heads": 4,
            "learning_rate": 0.003,
            "batch": 16,
            "seed": 17,
        }
        self.configuration_digest = digest_of(configuration)
        budget = kinds.Budget(minutes=10, owner="bob")
        stop = kinds.StopConditions(wall_minutes=10, no_progress_minutes=2)
        self.add(
            "prepare_gate",
            kinds.ConfigurationDeclared(
                configuration=configuration,
                configuration_digest=self.configuration_digest,
                command=["python", "docker/trainer/train.py"],
                code_digest=sha(b"train.py"),
                code_files={"train.py": sha(b"train.py")[7:]},
                budget=budget,
                stop=stop,
                checkpoints=kinds.CheckpointPlan(
                    location=self.store.location(f"runs/{self.uid}/checkpoints"),
                    every_steps=STEPS_PER_CHECKPOINT,
                    keep_last=2,
                    restore_owner="alice",
                    retention_rule="keep the last 1 recovery checkpoint after the close",
                ),
            ),
            (f"run:{self.uid}", "used", f"configuration:{self.configuration_digest}"),
        )
        environment = {"python": "3.11.7", "torch": "2.13.0+cpu", "platform": "linux x86_64", "threads": 2}
        self.environment_digest = digest_of(environment)
        self.add(
            "prepare_gate",
            kinds.EnvironmentDeclared(environment=environment, environment_digest=self.environment_digest),
            (f"run:{self.uid}", "used", f"environment:{self.environment_digest}"),
        )
        self.sign("prepare", "Data, licence and budget are clear; a small CPU run is worth the ten minutes.")

    def sign(self, gate: str, reason: str, *, outcome: Any = None, decision: Any = "approve") -> None:
        """The dossier, then bob's answer to it."""
        document = {
            "gate": gate,
            "run_uid": self.uid,
            "items": [
                {"id": f"{gate}/{name}", "verdict": verdict, "check": check, "owner": "alice"}
                for name, verdict, check in (
                    ("data", "verified", "snapshot manifest re-hashed"),
                    ("limits", "verified", "budget within the quota of the policy"),
                    ("near_duplicates", "unrecorded", ""),
                )
            ],
            "share": 1e-7,
        }
        digest = digest_of(document)
        task = f"{gate}_gate"
        shown = self.add(
            task, kinds.GateDossier(gate=gate, digest=digest, document=document, eligible=["bob", "carol"])
        )
        self.add(
            task,
            kinds.GateDecision(
                gate=gate,
                decision=decision,
                person_id="bob",
                person_name="Bob Approver",
                reason=reason,
                dossier_digest=digest,
                dossier_record=shown.record_id,
                responded_at=shown.recorded_at,
                acknowledged=[f"{gate}/near_duplicates"],
                items={f"{gate}/data": "seen"},
                outcome=outcome,
                authentication="airflow session",
            ),
            (f"decision:{self.uid}/{gate}", "was_associated_with", "person:bob"),
            person="bob",
        )

    def training(self) -> None:
        rng = random.Random(self.seed + 1)
        self.attempt(1, first=1, last=KILLED_AT, rng=rng, state="interrupted", resume=None)
        self.attempt(2, first=41, last=LAST_STEP, rng=rng, state="completed", resume=self.checkpoints[-1])

    def attempt(
        self, number: int, *, first: int, last: int, rng: random.Random, state: Any, resume: Any
    ) -> None:
        """One try: token, start, metrics, checkpoints, end."""
        run = f"run:{self.uid}"
        token = {
            "run_uid": self.uid,
            "attempt": number,
            "configuration": self.configuration_digest,
            "prepare_decision": self._approval(),
        }
        self.add(
            "gpu_launch",
            kinds.LaunchIntended(
                token_digest=digest_of(token),
                token=token,
                target="local",
                checkpoint_size=1,
                checkpoint_root="00" * 32,
                signer="test",
            ),
            (run, "used", f"snapshot:{SNAPSHOT}@1"),
            attempt=number,
            unique=f"launch:{self.uid}:{number}",
        )
        self.add(
            "gpu_launch",
            kinds.AttemptStarted(
                attempt=number,
                host="worker-1",
                process_group=4200 + number,
                resume_from=resume and resume["checkpoint_id"],
                resume_step=resume and resume["step"],
                requested={"accelerators": 0, "cpus": 2},
                allocated={"accelerators": 0, "cpus": 2},
            ),
            *([(run, "used", f"checkpoint:{resume['checkpoint_id']}")] if resume else []),
            attempt=number,
        )
        self.add(
            "gpu_launch",
            kinds.EnvironmentObserved(
                moment="resume" if resume else "start",
                environment={"python": "3.11.7", "torch": "2.13.0+cpu", "threads": 2},
                environment_digest=self.environment_digest,
            ),
            attempt=number,
        )
        points = []
        for step in range(first, last + 1):
            loss = 2.0 + 3.5 * math.exp(-step / 28) + rng.gauss(0, 0.04)
            points.append(kinds.MetricPoint(name="loss", step=step, tokens=step * 4096, value=round(loss, 6)))
            if step % 10 == 0:
                points.append(kinds.MetricPoint(name="data_read_seconds", step=step, value=0.0125))
            if step % STEPS_PER_CHECKPOINT == 0 or step == last:
                self.add("gpu_launch", kinds.MetricsRecorded(attempt=number, points=points), attempt=number)
                points = []
            if step % STEPS_PER_CHECKPOINT == 0:
                self.checkpoint(step, number, rng)
        log = f"attempt {number}: started at step {first}\nattempt {number}: ended at step {last}\n".encode()
        interrupted = state == "interrupted"
        self.add(
            "gpu_launch",
            kinds.AttemptEnded(
                attempt=number,
                state=state,
                exit_code=None if interrupted else 0,
                signal=9 if interrupted else None,
                reason="worker was killed (signal 9)" if interrupted else "end marker and exit code 0",
                first_step=first,
                last_step=last,
                last_checkpoint_step=last - last % STEPS_PER_CHECKPOINT,
                steps_repeated=0 if number == 1 else KILLED_AT - 40,
                steps_lost=KILLED_AT - 40 if number == 1 else 0,
                seconds=31.5 if number == 1 else 44.25,
                accelerator_seconds=0.0,
                cpu_seconds=61.0 if number == 1 else 87.5,
                max_rss_bytes=412_000_000,
                log_uri=self.put(f"runs/{self.uid}/attempt-{number}.log", log),
                log_digest=sha(log),
            ),
            attempt=number,
        )

    def checkpoint(self, step: int, attempt: int, rng: random.Random) -> None:
        """A real checkpoint folder on disk and its record."""
        target = self.folder / "checkpoints" / f"step-{step:06d}"
        target.mkdir(parents=True, exist_ok=True)
        weights = safetensors_bytes(
            rng, {"embed.weight": (16, 8), "head.weight": (8, 16), "norm.weight": (8,)}
        )
        state = json.dumps(
            {"step": step, "optimizer": "adamw", "data_position": {"document": step * 3}}
        ).encode()
        files = []
        for name, data in (("model.safetensors", weights), ("state.json", state)):
            (target / name).write_bytes(data)
            files.append(kinds.FileDigest(path=name, size=len(data), sha256=sha(data)[7:]))
        digest = files_digest(files)
        payload = kinds.CheckpointRegistered(
            checkpoint_id=f"ckpt_{self.uid[4:]}_{step:06d}",
            step=step,
            tokens=step * 4096,
            attempt=attempt,
            location=target.resolve().as_uri(),
            format="safetensors",
            digest=digest,
            files=files,
            components={"weights": len(weights), "optimizer and position": len(state)},
            tensors=3,
            tensors_digest=sha(weights),
            snapshot=f"{SNAPSHOT}@1",
            configuration_digest=self.configuration_digest,
            data_position={"document": step * 3},
            responsible="alice",
            artifact_class="candidate" if step == LAST_STEP else "recovery",
            purpose="candidate source" if step == LAST_STEP else "resume after an interruption",
        )
        self.add(
            "register_checkpoints",
            payload,
            (f"checkpoint:{payload.checkpoint_id}", "was_generated_by", f"run:{self.uid}"),
            attempt=attempt,
        )
        self.checkpoints.append(payload.to_json())

    def evaluation(self) -> None:
        last = self.checkpoints[-1]
        bits = kinds.MetricResult(
            name="bits_per_byte",
            unit="bit/byte",
            direction="lower",
            value=3.12,
            samples=3,
            low=3.05,
            high=3.2,
        )
        report = canonical_bytes({"checkpoint": last["checkpoint_id"], "metrics": [bits.model_dump()]})
        self.evaluation_id = f"eval_{self.uid[4:]}"
        self.report_digest = sha(report)
        baselines = [
            kinds.Baseline(
                name=name,
                kind=kind,
                subject_digest=sha(name.encode()),
                metrics=[bits.model_copy(update={"value": value, "low": None, "high": None})],
            )
            for name, kind, value in (
                ("untrained model", "untrained model", 8.02),
                ("byte 3-gram", "n-gram model", 3.58),
            )
        ]
        self.add(
            "evaluate",
            kinds.EvaluationReported(
                evaluation_id=self.evaluation_id,
                checkpoint_id=last["checkpoint_id"],
                checkpoint_digest=last["digest"],
                data_set=f"{SNAPSHOT}@1 validation",
                data_set_digest=self.snapshot_digest,
                definition={"metric": "bits_per_byte", "window": 256},
                definition_digest=digest_of({"metric": "bits_per_byte", "window": 256}),
                metrics=[bits],
                baselines=baselines,
                flags=["no human evaluation"],
                passed=True,
                rules=[{"metric": "bits_per_byte", "limit": 4.2, "passed": True}],
                report_uri=self.put(f"runs/{self.uid}/evaluation.json", report),
                report_digest=self.report_digest,
            ),
            (f"evaluation:{self.evaluation_id}", "used", f"checkpoint:{last['checkpoint_id']}"),
            attempt=2,
        )
        self.add(
            "evaluate",
            kinds.CandidateNamed(
                candidate_id=f"cand_{self.uid[4:]}",
                checkpoint_id=last["checkpoint_id"],
                checkpoint_digest=last["digest"],
                evaluation_id=self.evaluation_id,
                kept=True,
                reason="Best bits per byte of five checkpoints, below the limit and both baselines",
            ),
            (f"candidate:cand_{self.uid[4:]}", "was_derived_from", f"checkpoint:{last['checkpoint_id']}"),
            attempt=2,
        )

    def run_gate(self) -> None:
        self.sign("run", "One kill, resumed from step 40 with nothing skipped; twelve steps were repeated.")

    def close_gate(self) -> None:
        last = self.checkpoints[-1]
        self.sign(
            "close", "Beats both baselines on held-out documents; research use only.", outcome="register"
        )
        self.add(
            "close_gate",
            kinds.ReleaseMade(
                release_id=f"rel_{self.uid[4:]}",
                name="stdlib-bytes",
                version="1",
                candidate_id=f"cand_{self.uid[4:]}",
                checkpoint_digest=last["digest"],
                applicable=["Research on archive procedures", "Continuation of the experiment"],
                not_applicable=["Production", "Generation of code for others"],
                known_limits=["Context of 256 bytes", "Only Python source was seen"],
                rollback="Use release 0 (none): stop using the file",
                take_down="Delete the release folder; the tombstone stays",
                usage_scope=["research", "experiment", "internal"],
            ),
            (f"release:rel_{self.uid[4:]}", "was_derived_from", f"candidate:cand_{self.uid[4:]}"),
            attempt=2,
        )
