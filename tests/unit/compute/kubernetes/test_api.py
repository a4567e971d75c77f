"""The official client behind the small port, against an API server that fails in every way, over HTTP."""

from __future__ import annotations

import datetime as dt
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.cluster import FakeCluster
from tests.fakes.cluster_patch import merge

from pretrain_archive.compute.kubernetes.api import KubernetesApi, TakenError
from pretrain_archive.compute.kubernetes.api_errors import Answer, pause_of
from pretrain_archive.compute.kubernetes.api_open import open_kubeconfig
from pretrain_archive.compute.kubernetes.api_places import CALLS, PLACES
from pretrain_archive.domain.errors import ArchiveError, ClusterUnavailableError, InputError, RefusedError

SPACE = "training"


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """A control plane whose controllers stand still."""
    with FakeCluster(controllers=False) as made:
        yield made


@pytest.fixture
def slept() -> list[float]:
    """How long the client waited between its tries."""
    return []


@pytest.fixture
def api(cluster: FakeCluster, tmp_path: Path, slept: list[float]) -> KubernetesApi:
    """The port; waiting between tries is only noted."""
    return open_kubeconfig(cluster.kubeconfig(tmp_path / "config"), patience=30.0, sleep=slept.append)


def job(name: str = "one", **labels: str) -> dict[str, Any]:
    """A suspended job."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "train", "image": "x"}]}
    return {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": labels},
        "spec": {"suspend": True, "template": {"spec": pod}},
    }  # fmt: skip


def test_an_object_from_creation_to_deletion(api: KubernetesApi) -> None:
    """Created, read, listed by label, changed, deleted: plain dicts, and None once it is gone."""
    made = api.create("Job", SPACE, job(a="b"))
    assert made["metadata"]["uid"] == (api.read("Job", SPACE, "one") or {})["metadata"]["uid"]
    assert ["one"] == [found["metadata"]["name"] for found in api.list("Job", SPACE, labels="a=b")]
    assert [] == api.list("Job", SPACE, labels="a=c")
    changed = api.patch("Job", SPACE, "one", {"spec": {"suspend": False}})
    assert changed is not None
    assert False is changed["spec"]["suspend"]
    assert api.delete("Job", SPACE, "one")
    assert (None, None, False) == (
        api.read("Job", SPACE, "one"),
        api.patch("Job", SPACE, "one", {"spec": {}}),
        api.delete("Job", SPACE, "one"),
    )


def test_a_taken_name(api: KubernetesApi) -> None:
    """A second creation of the name is told apart from every other error."""
    api.create("Job", SPACE, job())
    with pytest.raises(TakenError, match="one"):
        api.create("Job", SPACE, job())


@pytest.mark.parametrize(
    ("fault", "refused"),
    [
        pytest.param({}, "", id="would be taken"),
        pytest.param({"status": 409, "reason": "AlreadyExists"}, "", id="the name is taken"),
        pytest.param(
            {"status": 400, "message": 'admission webhook "x" does not support dry run'},
            "",
            id="a webhook without",
        ),
        pytest.param({"status": 403, "message": "jobs is forbidden: no"}, "is forbidden", id="forbidden"),
        pytest.param({"status": 422, "message": "spec.x is wrong"}, r"spec\.x is wrong", id="wrong"),
    ],
)
def test_a_rehearsal_stores_nothing(
    api: KubernetesApi, cluster: FakeCluster, fault: dict[str, Any], refused: str
) -> None:
    """It is refused as the creation would be, and what says nothing about the job is no refusal."""
    if fault:
        cluster.fail("create", "jobs", times=1, **fault)
    with pytest.raises(ArchiveError, match=refused) if refused else nullcontext():
        api.rehearse("Job", SPACE, job())
    with pytest.raises(ArchiveError, match="no such namespace"):
        api.rehearse("Job", "nowhere", job())

    assert [] == cluster.ever("jobs")


def test_another_object_of_the_name_is_not_deleted(api: KubernetesApi) -> None:
    """With a uid only that very object is deleted."""
    api.create("Job", SPACE, job())
    assert not api.delete("Job", SPACE, "one", uid="another")
    assert api.read("Job", SPACE, "one") is not None


@pytest.mark.parametrize(("foreground", "policy"), [(True, "Foreground"), (False, "Background")])
def test_a_deletion_names_its_policy(
    api: KubernetesApi, cluster: FakeCluster, foreground: bool, policy: str
) -> None:
    """Without one the server would leave the pods of a job."""
    api.create("Job", SPACE, job())
    api.delete("Job", SPACE, "one", foreground=foreground)
    assert [policy] == [request.body["propagationPolicy"] for request in cluster.asked("delete", "jobs")]


def test_a_long_list_comes_in_pages(api: KubernetesApi, cluster: FakeCluster) -> None:
    """More objects than a page holds; history that is forgotten between two pages means once more from the start."""
    for number in range(1100):
        cluster.create("jobs", job(f"j{number:04d}"), SPACE)
    cluster.fail("list", "jobs", status=410, reason="Expired", name="")
    assert 1100 == len(api.list("Job", SPACE))
    assert 4 == len(cluster.asked("list", "jobs"))


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"status": 429, "retry_after": 3}, id="429 with Retry-After"),
        pytest.param({"status": 429, "retry_after": 3600}, id="429 for an hour"),
        pytest.param({"status": 500}, id="500"),
        pytest.param({"status": 503}, id="503"),
        pytest.param({"status": 504}, id="504"),
        pytest.param({"drop": True}, id="dropped"),
    ],
)
@pytest.mark.parametrize("verb", ["get", "list", "create", "patch", "delete"])
def test_what_passes_is_tried_again(
    api: KubernetesApi, cluster: FakeCluster, slept: list[float], fault: dict[str, Any], verb: str
) -> None:
    """Two such answers and then a good one: the call succeeds, after the pause that the server asks for, bounded."""
    if verb != "create":
        api.create("Job", SPACE, job())
    cluster.fail(verb, "jobs", times=2, **fault)
    calls = {
        "get": lambda: api.read("Job", SPACE, "one"),
        "list": lambda: api.list("Job", SPACE),
        "create": lambda: api.create("Job", SPACE, job()),
        "patch": lambda: api.patch("Job", SPACE, "one", {"metadata": {"labels": {"x": "y"}}}),
        "delete": lambda: api.delete("Job", SPACE, "one"),
    }
    begin = time.monotonic()
    assert calls[verb]()

    assert 3 == len(cluster.asked(verb, "jobs"))
    assert 2 == len(slept)
    asked = fault.get("retry_after")
    low, high = (0.75 * min(10, asked), 12.5) if asked else (0.0, 10.0)
    assert all(low <= pause <= high for pause in slept), slept
    assert time.monotonic() - begin < 5


def test_a_stale_write_is_tried_again(api: KubernetesApi, cluster: FakeCluster) -> None:
    """409 on a patch: somebody else wrote in between, the same merge patch holds still."""
    api.create("Job", SPACE, job())
    cluster.fail("patch", "jobs", times=2, status=409)
    assert api.patch("Job", SPACE, "one", {"spec": {"suspend": False}})


@pytest.mark.parametrize(
    "fault", [pytest.param({"status": 503}, id="503"), pytest.param({"drop": True}, id="dropped")]
)
def test_tries_are_bounded(cluster: FakeCluster, tmp_path: Path, fault: dict[str, Any]) -> None:
    """A cluster that never answers: an error that names it, and that a task's retry may mend."""
    slow = open_kubeconfig(cluster.kubeconfig(tmp_path / "config"), patience=1.0)
    cluster.fail("*", "jobs", times=-1, **fault)
    begin = time.monotonic()
    with pytest.raises(ClusterUnavailableError, match=cluster.url):
        slow.read("Job", SPACE, "one")
    assert time.monotonic() - begin < 5


def test_a_slow_answer_is_not_waited_for(cluster: FakeCluster, tmp_path: Path) -> None:
    """Every call has a time limit."""
    quick = open_kubeconfig(cluster.kubeconfig(tmp_path / "config"), patience=0.5, answer_seconds=0.3)
    cluster.fail("get", "jobs", times=-1, delay=20)
    begin = time.monotonic()
    with pytest.raises(ClusterUnavailableError, match="time"):
        quick.read("Job", SPACE, "one")
    assert time.monotonic() - begin < 5


@pytest.mark.requirement("R192")
@pytest.mark.parametrize(
    ("act", "field", "value", "said"),
    [
        pytest.param(
            lambda api, _: api.create("Job", "nowhere", job()),
            "compute.kubernetes.namespace", "nowhere", "no such namespace", id="namespace",
        ),
        pytest.param(
            lambda api, cluster: (cluster.forbid("create", "jobs"), api.create("Job", SPACE, job())),
            "compute.kubernetes.namespace", SPACE, "create of Job is forbidden", id="forbidden",
        ),
        pytest.param(
            lambda api, _: api.create("Job", SPACE, job("Not_A_Name")),
            "compute.kubernetes", "Not_A_Name", "metadata.name", id="invalid",
        ),
        pytest.param(
            lambda api, cluster: (cluster.fail("get", "jobs", status=401), api.read("Job", SPACE, "one")),
            "connection", None, "credentials", id="credentials",
        ),
        pytest.param(
            lambda api, cluster: (cluster.missing.add("trainer.kubeflow.org"), api.create("TrainJob", SPACE, job())),
            "compute.kubernetes.object_kind", "TrainJob", "does not know", id="unknown kind",
        ),
    ],
)  # fmt: skip
def test_what_the_cluster_refuses(
    api: KubernetesApi,
    cluster: FakeCluster,
    slept: list[float],
    act: Any,
    field: str,
    value: str | None,
    said: str,
) -> None:
    """The first call names field, value and remedy; nothing is tried twice."""
    with pytest.raises(InputError, match=said) as caught:
        act(api, cluster)
    assert (field, value or cluster.url) == (caught.value.field, caught.value.value)
    assert caught.value.hint
    assert [] == slept


def test_a_quota_is_named(api: KubernetesApi, cluster: FakeCluster) -> None:
    """What the quota of the namespace forbids is refused in the cluster's own words."""
    message = 'jobs.batch "one" is forbidden: exceeded quota: few, requested: count/jobs.batch=1'
    cluster.fail("create", "jobs", status=403, message=message)
    with pytest.raises(RefusedError, match="exceeded quota: few"):
        api.create("Job", SPACE, job())


def test_a_kind_that_is_not_installed_has_no_objects(api: KubernetesApi, cluster: FakeCluster) -> None:
    """Kueue is optional: where it is not installed its list is empty."""
    cluster.missing.add("kueue.x-k8s.io")
    assert [] == api.list("Workload", SPACE)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        pytest.param({"suspendd": True}, "spec.suspendd", id="of the job"),
        pytest.param({"template": {"spec": {"toleration": []}}}, "spec.template.spec.toleration", id="of the pod"),
    ],
)  # fmt: skip
def test_a_field_that_is_not_known_is_an_error(
    api: KubernetesApi, cluster: FakeCluster, body: dict[str, Any], field: str
) -> None:
    """A misspelled field is named instead of dropped, and nothing is created."""
    with pytest.raises(InputError, match=f'unknown field "{field}"'):
        api.create("Job", SPACE, merge(job(), {"spec": body}))
    assert [] == cluster.ever("jobs")


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"status": 503}, id="away"),
        pytest.param({"status": 403}, id="forbidden"),
        pytest.param({"status": 404}, id="not installed"),
        pytest.param({"drop": True}, id="dropped"),
    ],
)
def test_an_order_of_the_queue_that_is_not_told(
    api: KubernetesApi, cluster: FakeCluster, slept: list[float], fault: dict[str, Any]
) -> None:
    """The place in a queue is asked once and left out where nobody answers: a launch never waits for it."""
    cluster.fail("get", "localqueues", **fault)
    assert [] == api.pending(SPACE, "gpus")
    assert [] == slept


@pytest.mark.parametrize("answer", [b'{"items": [{"metadata": "x"}, 5]}', b'{"items": 7}', b"[" * 100_000])
def test_an_odd_order_of_the_queue(
    api: KubernetesApi, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    """What cannot be read there only leaves a number out."""
    monkeypatch.setattr(api, "_once", lambda *_: Answer(status=200, data=answer))
    assert all("name" not in (item.get("metadata") or {}) for item in api.pending(SPACE, "gpus"))


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"<html>sign in</html>", id="no JSON"),
        pytest.param(b"[]", id="no object"),
        pytest.param(b'{"metadata": {}, "items": [5]}', id="an item that is none"),
        pytest.param(b'{"metadata": {}, "items": [{"spec": {}}]}', id="an item without metadata"),
        pytest.param(b'{"metadata": {}, "items": 7}', id="items that are none"),
        pytest.param(b"[" * 100_000, id="brackets without end"),
        pytest.param(b'{"items": []}', id="a list without metadata"),
    ],
)
def test_what_is_no_api_server(api: KubernetesApi, monkeypatch: pytest.MonkeyPatch, answer: bytes) -> None:
    """A proxy that answers in its own way is no cluster that has no pods: it is waited for, and named."""
    monkeypatch.setattr(api, "_once", lambda *_: Answer(status=200, data=answer))
    with pytest.raises(ClusterUnavailableError, match="no object of Kubernetes"):
        api.list("Pod", SPACE)


@pytest.mark.parametrize("asked", ["-5", "nan", "inf", "soon", "1e9"])
def test_a_pause_that_a_server_asks_for_is_bounded(asked: str) -> None:
    """Whatever stands in Retry-After, a try follows within seconds."""
    assert 0 < pause_of(Answer(status=429, retry_after=asked), 1) <= 12.5


def test_a_log(cluster: FakeCluster, api: KubernetesApi) -> None:
    """Bytes that are no UTF-8 do no harm; a pod that is gone has none."""
    pod = cluster.create(
        "pods", {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    )
    (cluster.kubelet.folder / "p.log").write_bytes(b"one\n\xfftwo\n")
    assert "one\n\ufffdtwo\n" == api.log("default", pod["metadata"]["name"])
    assert "" == api.log("default", "none")


def test_everything_that_is_asked_is_listed() -> None:
    """The list from which a role is written names each kind of the port."""
    assert {place.plural for place in PLACES.values()} <= {resource for _, resource, _ in CALLS}
    assert all(place.group in {group for group, _, _ in CALLS} for place in PLACES.values())


# -- kubeconfig ----------------------------------------------------------------------------------------


def refused(path: Path | None, said: str, **options: Any) -> ArchiveError:
    """The error of opening it, within seconds."""
    begin = time.monotonic()
    with pytest.raises(InputError, match=said) as caught:
        open_kubeconfig(path, **options)
    assert caught.value.hint
    assert time.monotonic() - begin < 8
    return caught.value


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param("{", "cannot be read|no usable", id="no YAML"),
        pytest.param("", "no usable|cannot be read", id="empty"),
        pytest.param("just text", "no usable|cannot be read", id="text"),
        pytest.param("- 1\n- 2\n", "no usable|cannot be read", id="a list"),
        pytest.param("apiVersion: v1\nkind: Config\n", "no usable|cannot be read", id="without clusters"),
        pytest.param("\x00\xff", "cannot be read|no usable", id="binary"),
    ],
)
def test_a_file_that_is_no_kubeconfig(tmp_path: Path, content: str, said: str) -> None:
    """One clear error that names the file."""
    path = tmp_path / "config"
    path.write_bytes(content.encode("latin-1"))
    assert str(path) == refused(path, said).value  # type: ignore[attr-defined]


def test_a_kubeconfig_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path is named, also where it comes from the environment."""
    refused(tmp_path / "none", "no such file")
    refused(tmp_path, "is a folder")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "from-environment"))
    refused(None, "from-environment")


def test_an_unknown_context(cluster: FakeCluster, tmp_path: Path) -> None:
    """Asked for, or named by the file itself."""
    path = cluster.kubeconfig(tmp_path / "config")
    assert "context" == refused(path, "there is none", context="production").field  # type: ignore[attr-defined]
    refused(cluster.kubeconfig(tmp_path / "other", current="production"), "production")


def test_nobody_listens(cluster: FakeCluster, tmp_path: Path) -> None:
    """A port without a server, and a name without an address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = cluster.kubeconfig(tmp_path / "config")
    path.write_text(path.read_text().replace(cluster.url, f"http://127.0.0.1:{port}"))
    refused(path, "cannot be reached")
    path.write_text(path.read_text().replace("127.0.0.1", "cluster.invalid"))
    refused(path, "cannot be reached")


def test_a_token_that_is_asked_for(tmp_path: Path) -> None:
    """The right token works, a wrong one is named as such."""
    with FakeCluster(controllers=False, token="secret") as cluster:
        path = cluster.kubeconfig(tmp_path / "config")
        assert [] == open_kubeconfig(path).list("Job", SPACE)
        path.write_text(path.read_text().replace("secret", "guessed"))
        with pytest.raises(InputError, match="credentials") as caught:
            open_kubeconfig(path).list("Job", SPACE)
        assert "guessed" not in str(caught.value)


def test_a_certificate_that_is_not_trusted(tmp_path: Path) -> None:
    """Known to the kubeconfig it works; unknown it is refused at once and never tried again."""
    key, certificate = _certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    with FakeCluster(controllers=False, tls=tls) as cluster:
        assert [] == open_kubeconfig(cluster.kubeconfig(tmp_path / "good", ca=certificate)).list("Job", SPACE)
        refused(cluster.kubeconfig(tmp_path / "bad"), "certificate")


def _certificate(folder: Path) -> tuple[Path, Path]:
    """A key and its self-signed certificate for this machine."""
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    secret = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name).issuer_name(name).public_key(secret.public_key()).serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1)).not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(secret, hashes.SHA256())
    )  # fmt: skip
    key, certificate = folder / "tls.key", folder / "tls.crt"
    key.write_bytes(secret.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ))  # fmt: skip
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return key, certificate
