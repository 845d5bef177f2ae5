"""Checks chart and manifests against the schemas of Kubernetes and the operators, without a cluster."""

import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
import yaml
from msgspec import Struct, defstruct

import assignors
from streaming.kafka.access import COMPONENTS, optional_permissions, required_permissions
from streaming.kafka.topics import monitor_topics
from streaming.settings.config import Settings
from tests.support.manifests import CHART_FOLDER, KUBERNETES, ROOT, pods, resources
from tests.support.requirements import missing

#: Not a dependency of the project because of its size (108 MB): uv runs it from its cache.
VALIDATOR = ("tool", "run", "--quiet", "--from", "kubernetes-validate==1.37.0", "kubernetes-validate")

# Fields of the operators' resources that the manifests use: a typo or a wrong type is rejected. Sources: the types of
# kubeflow/spark-operator (v1beta2), apache/spark-kubernetes-operator (v1), prometheus-operator (v1) and Strimzi (v1).
Labels = dict[str, str]
JsonObject = dict[str, Any]


def shape(kind: str, /, **fields: Any) -> type[Struct]:
    """Return a msgspec struct type with exactly these fields; a field given as ``(type, default)`` is optional."""
    listed = [(field, *what) if isinstance(what, tuple) else (field, what) for field, what in fields.items()]
    return defstruct(kind, listed, forbid_unknown_fields=True, rename="camel", kw_only=True)


def resource_shape(kind: str, api_version: str, spec: type[Struct]) -> type[Struct]:
    metadata = shape("Metadata", name=str, namespace=(str | None, None), labels=(Labels, {}))
    return shape(kind, api_version=Literal[api_version], kind=Literal[kind], metadata=metadata, spec=spec)


POD: dict[str, Any] = {
    "cores": int,
    "memory": str,
    "memory_overhead": str,
    "labels": Labels,
    "env_from": list[JsonObject],
    "security_context": JsonObject,
    "volume_mounts": list[JsonObject],
}
PORT = shape("Port", name=str, protocol=Literal["TCP", "UDP"], container_port=int)
KUBEFLOW = shape(
    "SparkApplicationSpec",
    type=Literal["Java", "Scala", "Python", "R"],
    python_version=str,
    mode=Literal["cluster", "client"],
    spark_version=str,
    image=str,
    image_pull_policy=Literal["Always", "IfNotPresent", "Never"],
    main_application_file=str,
    arguments=list[str],
    restart_policy=shape(
        "RestartPolicy",
        type=Literal["Never", "Always", "OnFailure"],
        on_failure_retry_interval=int,
        on_submission_failure_retry_interval=int,
    ),
    volumes=list[JsonObject],
    driver=shape("Driver", **POD, service_account=str, ports=list[PORT]),
    executor=shape("Executor", **POD, instances=int),
)
KUBERNETES_ROLE = shape("Role", pod_template_spec=shape("PodTemplate", metadata=JsonObject, spec=JsonObject))
DEPLOYMENT_SHAPE = shape(
    "RestartConfig",
    restart_policy=Literal["Always", "Never", "OnFailure", "OnInfrastructureFailure"],
    max_restart_attempts=int,
    restart_backoff_millis=int,
)
APACHE_OPERATOR_SPEC = shape(
    "SparkApplicationSpec",
    deployment_mode=Literal["ClientMode", "ClusterMode"],
    runtime_versions=shape("RuntimeVersions", spark_version=str),
    py_files=str,
    driver_args=list[str],
    spark_conf=dict[str, str],
    application_tolerations=shape(
        "Tolerations",
        restart_config=DEPLOYMENT_SHAPE,
        resource_retain_policy=Literal["Always", "Never", "OnFailure"],
        resource_retain_duration_millis=int,
    ),
    driver_spec=KUBERNETES_ROLE,
    executor_spec=KUBERNETES_ROLE,
)
SELECTOR = shape("Selector", match_labels=Labels)
RELABELING = shape("Relabeling", target_label=str, source_labels=(list[str], []), replacement=(str | None, None))
ENDPOINTS = list[shape("Endpoint", port=str, interval=str, path=(str, "/metrics"), relabelings=(list[RELABELING], []))]
ACCESS_RULE = shape(
    "Rule",
    expr=str,
    record=(str, ""),
    alert=(str, ""),
    labels=(Labels, {}),
    annotations=(Labels, {}),
    **{"for": (str, "")},
)
RULES = shape("PrometheusRuleSpec", groups=list[shape("Group", name=str, rules=list[ACCESS_RULE])])
ACL = shape(
    "Acl",
    resource=shape("Resource", type=Literal["topic", "group", "cluster", "transactionalId"], name=str),
    operations=list[Literal["Read", "Write", "Create", "Describe", "DescribeConfigs"]],
)
KAFKA_USER = shape(
    "KafkaUserSpec",
    authentication=shape("Authentication", type=Literal["tls", "tls-external", "scram-sha-512"]),
    authorization=shape("Authorization", type=Literal["simple"], acls=list[ACL]),
)
KAFKA_TOPIC = shape("KafkaTopicSpec", topic_name=str, partitions=int, replicas=int, config=dict[str, str | int])

SHAPES: dict[tuple[str, str], type[Struct]] = {
    (api_version, kind): resource_shape(kind, api_version, spec)
    for api_version, kind, spec in (
        ("sparkoperator.k8s.io/v1beta2", "SparkApplication", KUBEFLOW),
        ("spark.apache.org/v1", "SparkApplication", APACHE_OPERATOR_SPEC),
        ("monitoring.coreos.com/v1", "ServiceMonitor", shape("Spec", selector=SELECTOR, endpoints=ENDPOINTS)),
        ("monitoring.coreos.com/v1", "PodMonitor", shape("Spec", selector=SELECTOR, pod_metrics_endpoints=ENDPOINTS)),
        ("monitoring.coreos.com/v1", "PrometheusRule", RULES),
        ("kafka.strimzi.io/v1", "KafkaUser", KAFKA_USER),
        ("kafka.strimzi.io/v1", "KafkaTopic", KAFKA_TOPIC),
    )
}


@pytest.fixture(scope="module")
def validate() -> Callable[..., str]:
    uv = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")

    def run(*files: Path) -> str:
        command = [uv, *VALIDATOR, "--strict", "--kubernetes-version", "1.33", *map(str, files)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if "kubernetes-validate" in done.stderr and "INFO" not in done.stdout + done.stderr:
            missing(f"kubernetes-validate can't be had: {done.stderr[-500:]}")
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def require_schemas(validate: Callable[..., str], files: Iterable[Path]) -> None:
    """Check operators' resources against the types in this module, and other resources against Kubernetes' schemas."""
    files, others = list(files), 0
    for document in (document for file in files for document in yaml.safe_load_all(file.read_text())):
        expected = SHAPES.get((document["apiVersion"], document["kind"]))
        if expected is None:
            others += 1
        else:
            msgspec.convert(document, expected)
    assert validate(*files).count(" passed for ") == others


def test_every_resource_fits_its_schema(validate: Callable[..., str]) -> None:
    require_schemas(validate, KUBERNETES.glob("*/manifests.yaml"))


def test_misspelt_field_is_rejected(validate: Callable[..., str], tmp_path: Path) -> None:
    text = (KUBERNETES / "base" / "manifests.yaml").read_text()
    (tmp_path / "typo.yaml").write_text(text.replace("readinessProbe", "readynessProbe"))
    with pytest.raises(AssertionError, match="readynessProbe"):
        validate(tmp_path / "typo.yaml")


def test_image_has_the_release_of_spark() -> None:
    from pyspark.version import __version__

    assert yaml.safe_load((CHART_FOLDER / "values.yaml").read_text())["stream"]["spark"]["version"] == __version__


def test_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART_FOLDER / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (assignors.__version__, assignors.__version__)


def test_containers_write_only_to_volumes() -> None:
    for _, resource in resources():
        for pod in pods(resource):
            for container in [*pod.get("initContainers", ()), *pod["containers"]]:
                assert container["securityContext"]["readOnlyRootFilesystem"]
                assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]  # noqa: S108 - the pod's own


def test_network_policy_lists_allowed_clients() -> None:
    (policy,) = [resource for _, resource in resources() if resource["kind"] == "NetworkPolicy"]
    assert all(rule["from"] for rule in policy["spec"]["ingress"])


def test_strimzi_user_has_the_components_rights() -> None:
    (user,) = [resource for _, resource in resources() if resource["kind"] == "KafkaUser"]
    granted_permissions = {
        (acl["resource"]["type"], acl["resource"]["name"], operation)
        for acl in user["spec"]["authorization"]["acls"]
        for operation in acl["operations"]
    }
    settings = Settings()
    needed_rights = {
        (permission.resource.replace("transactional-id", "transactionalId"), permission.name, permission.operation)
        for component in COMPONENTS
        for permission in (*required_permissions(component, settings), *optional_permissions(component, settings))
    }
    assert granted_permissions == needed_rights | {("group", "*", "Describe"), ("topic", "*", "Describe")}


def test_strimzi_topics_are_those_that_topics_creates() -> None:
    settings = Settings().topics
    wanted = {topic.name: (topic.wanted_cleanup_policy) for topic in monitor_topics(settings)}
    policies = {
        resource["spec"]["topicName"]: resource["spec"]["config"]["cleanup.policy"]
        for _, resource in resources()
        if resource["kind"] == "KafkaTopic"
    }
    assert policies == wanted | {settings.ticks: "delete"}


def test_kustomizations_name_existing_files() -> None:
    for path in KUBERNETES.rglob("kustomization.yaml"):
        content = yaml.safe_load(path.read_text())
        named = [
            *content["resources"],
            *content.get("configurations", ()),
            *(name for made in content.get("configMapGenerator", ()) for name in made["files"]),
        ]
        assert [name for name in named if not (path.parent / name).exists()] == []


def go_tool(name: str) -> str:
    """Return the path of helm or kustomize; skip the test if it is not built, because ``make helm`` takes minutes."""
    done = subprocess.run(
        ["sh", "scripts/go_tool.sh", name, "--cached"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"{name} is not installed; `make helm` builds it")
    return done.stdout.strip()


@pytest.fixture(scope="module")
def helm() -> str:
    return go_tool("helm")


def output(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_manifests_are_rendered_from_the_chart(helm: str, tmp_path: Path) -> None:
    output("sh", "scripts/manifests.sh", str(tmp_path))
    rendered = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*.yaml")}
    kept = {path.relative_to(KUBERNETES): path.read_text() for path in KUBERNETES.glob("*/manifests.yaml")}
    assert kept == rendered, "run `make manifests`"


def test_chart_renders_valid_resources(helm: str, validate: Callable[..., str], tmp_path: Path) -> None:
    defaults = yaml.safe_load((CHART_FOLDER / "values.yaml").read_text())["settings"]
    for values in (CHART_FOLDER / "values.yaml", *CHART_FOLDER.glob("ci/*.yaml")):
        options = ("--kube-version", "1.33", "--values", str(values))
        output(helm, "lint", "--strict", str(CHART_FOLDER), *options)
        rendered = tmp_path / values.name
        rendered.write_text(output(helm, "template", "monitor", str(CHART_FOLDER), *options))
        configs = [file.get("data", {}).get("monitor.toml") for file in yaml.safe_load_all(rendered.read_text())]
        (config,) = filter(None, configs)
        assert tomllib.loads(config) == defaults | yaml.safe_load(values.read_text()).get("settings", {})
    require_schemas(validate, tmp_path.iterdir())


def test_misspelt_value_is_refused(helm: str) -> None:
    with pytest.raises(AssertionError, match="strem"):
        output(helm, "template", "x", str(CHART_FOLDER), "--kube-version", "1.33", "--set", "strem.kind=none")


def test_kustomize_overlays_give_valid_resources(validate: Callable[..., str], tmp_path: Path) -> None:
    kustomize = go_tool("kustomize")
    for overlay in KUBERNETES.glob("overlays/*"):
        built = tmp_path / f"{overlay.name}.yaml"
        built.write_text(output(kustomize, "build", str(overlay)))
        documents = list(yaml.safe_load_all(built.read_text()))
        (config,) = [document["metadata"]["name"] for document in documents if document["kind"] == "ConfigMap"]
        assert config.startswith("rebalance-monitor-")
        named = {volume["configMap"]["name"] for volume in _pod_volumes(documents) if "configMap" in volume}
        assert named == {config}
    require_schemas(validate, tmp_path.iterdir())


def _pod_volumes(documents: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for document in documents:
        yield from document.get("spec", {}).get("volumes", ())
        for pod in pods(document):
            yield from pod.get("volumes", ())
