"""What every operator has in common: arguments, templates, words, and what its module imports."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest
from airflow.sdk import BaseOperator

import pretrain_archive_operators
from pretrain_archive_operators import base

NAMES = sorted(pretrain_archive_operators.__all__)
FOLDER = Path(pretrain_archive_operators.__file__).parent
NEEDED = {
    "GateApprovalOperator": {"run_uid": "run_x", "gate": "run"},
    "HumanReviewOperator": {"run_uid": "run_x", "page": 1},
    "LabelReviewOperator": {"run_uid": "run_x", "page": 1},
    "OpenRunOperator": {},
    "RecoveryDrillOperator": {
        "inject": "worker_exit",
        "program": "docker/trainer",
        "project": "drill",
        "nodes": 2,
        "workers": 2,
        "node": 1,
        "at_step": 25,
    },
    "RetentionPlanOperator": {},
    "RetentionApprovalOperator": {"plan_digest": "sha256:x"},
    "RetentionApplyOperator": {"plan_digest": "sha256:x"},
    "RetentionReportOperator": {"plan_digest": "sha256:x"},
    "SnapshotPlanOperator": {"parts": 4, "request": None},
    "SnapshotPartOperator": {"plan": "parts/x", "part": 1},
    "SnapshotMergeOperator": {"plan": "parts/x"},
    "UnfollowedJobsOperator": {},
}
TEMPLATED = {
    "ArchiveCloseOperator": ("run_uid", "attach"),
    "OpenRunOperator": ("request",), "RetentionPlanOperator": (), "RetentionApprovalOperator": ("plan_digest",),
    "RetentionApplyOperator": ("plan_digest",), "RetentionReportOperator": ("plan_digest",),
    "EvaluateOperator": ("run_uid", "checkpoint_id"),
    "RecoveryDrillOperator": ("inject", "project", "nodes", "workers", "node", "at_step"),
    "HumanReviewOperator": ("run_uid", "page"),
    "LabelReviewOperator": ("run_uid", "page"), "SnapshotPlanOperator": ("run_uid", "parts", "request"),
    "UnfollowedJobsOperator": (),
    "SnapshotPartOperator": ("run_uid", "plan", "part"), "SnapshotMergeOperator": ("run_uid", "plan"),
}  # fmt: skip
HEAVY = {
    "great_expectations",
    "pandas",
    "pyarrow",
    "kubernetes",
    "boto3",
    "torch",
    "sqlalchemy",
    "alembic",
    "fastapi",
    "huggingface_hub",
    "model_signing",
    "mlflow",
}


def made(name, **changes):
    """An operator with what it needs."""
    return getattr(pretrain_archive_operators, name)(
        **{"task_id": "x"} | NEEDED.get(name, {"run_uid": "run_x"}) | changes
    )


@pytest.mark.parametrize("name", NAMES)
def test_made(name):
    """It is an operator with words for its users, and its collaborators are not built with it."""
    operator = made(name)

    assert isinstance(operator, BaseOperator)
    assert len(inspect.getdoc(type(operator)) or "") > 40
    assert not {"ledger", "store"} & vars(operator).keys()


@pytest.mark.parametrize("name", NAMES)
def test_template_fields(name):
    """Templated fields are an ordered tuple of attributes, kept as they were given."""
    operator = made(name)

    assert isinstance(operator.template_fields, tuple)
    assert TEMPLATED.get(name, ("run_uid",)) == operator.template_fields
    for field in operator.template_fields:
        assert NEEDED.get(name, {"run_uid": "run_x"}).get(field) == getattr(operator, field)


@pytest.mark.parametrize("name", NAMES)
def test_unknown_argument(name):
    """An argument that nobody knows is refused when the DAG is read."""
    with pytest.raises(TypeError):
        made(name, a_typo=1)


@pytest.mark.parametrize("name", [name for name in NAMES if NEEDED.get(name, {"run_uid": ""})])
def test_keywords_only(name):
    """Arguments are named."""
    with pytest.raises(TypeError):
        getattr(pretrain_archive_operators, name)("run_x", task_id="x")


@pytest.mark.parametrize(
    ("name", "changes", "text"),
    [
        pytest.param("GateApprovalOperator", {"gate": "launch"},
                     "gate must be one of prepare, review, run, close, got 'launch'", id="gate"),
        pytest.param("GpuLaunchOperator", {"target": "moon"},
                     "target must be one of local, kubernetes, got 'moon'", id="target"),
    ],
)  # fmt: skip
def test_bad_argument(name, changes, text):
    """A wrong argument is named with what is allowed."""
    with pytest.raises(ValueError, match=text):
        made(name, **changes)


@pytest.mark.parametrize("name", ["GateApprovalOperator", "RetentionApprovalOperator"])
def test_a_timeout_has_no_default(name):
    """No option is chosen for a person who does not answer, and Airflow skips nothing by itself."""
    operator = made(name)

    assert operator.defaults is None
    assert operator.response_timeout is None


def sources():
    """Every module of the operators."""
    return sorted(FOLDER.glob("*.py"))


def imports(path: Path, *, top: bool) -> set[str]:
    """The modules that a file imports: at its top (typing aside), or anywhere."""
    tree = ast.parse(path.read_text())
    nodes = ast.walk(tree) if not top else iter(tree.body)
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.requirement("R191")
@pytest.mark.parametrize("path", sources(), ids=lambda path: path.stem)
def test_no_airflow_database(path):
    """No operator touches Airflow's own tables: no session, no models, no SQLAlchemy, anywhere in the file."""
    tree = ast.parse(path.read_text())
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    used |= {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}

    assert not {"create_session", "provide_session", "NEW_SESSION", "Session"} & used
    for module in imports(path, top=False):
        assert not module.startswith(
            ("airflow.models", "airflow.utils.session", "airflow.settings", "sqlalchemy")
        )
        assert module.startswith(
            (
                "airflow.sdk",
                "airflow.configuration.conf",
                "airflow.providers.standard",
                "airflow.providers.cncf.kubernetes.hooks",
                "airflow.triggers.base",
            )
        ) or not (module.startswith("airflow."))


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.stem)
def test_light_at_the_top(path):
    """Nothing heavy stands at the top of a module, and nothing of ours that imports it."""
    ours = ("pretrain_archive.domain.", "pretrain_archive.services.caller.", "pretrain_archive_operators")

    for module in imports(path, top=True):
        assert module.partition(".")[0] not in HEAVY
        assert not module.startswith("pretrain_archive") or module.startswith(ours)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"x": "y" * base.XCOM_LIMIT}, id="too large"),
        pytest.param({"x": "名" * (base.XCOM_LIMIT // 5)}, id="too large once escaped"),
        pytest.param({"x": float("nan")}, id="not strict JSON"),
        pytest.param({"x": float("inf")}, id="not finite"),
    ],
)
def test_large_or_odd_values(value):
    """What would not fit XCom, or is no strict JSON, is refused."""
    with pytest.raises(ValueError, match=r"8192 bytes|JSON compliant"):
        base.small_json(value)


def test_not_json():
    """What is no JSON at all is refused."""
    with pytest.raises(TypeError):
        base.small_json({"x": {1, 2}})
