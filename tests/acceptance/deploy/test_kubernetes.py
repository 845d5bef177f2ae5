"""The manifests hold against Kubernetes' own schemas, with no cluster."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
import yaml
from msgspec import Struct, defstruct

from tests.support.container import missing
from tests.support.manifests import KUBERNETES, ROOT, resources

OVERLAYS = sorted(path.parent.name for path in KUBERNETES.glob("overlays/*/kustomization.yaml"))
#: 108 MB, so no dependency of the project: uv runs it from its cache.
VALIDATOR = ("tool", "run", "--quiet", "--from", "kubernetes-validate==1.37.0", "kubernetes-validate")

# Shapes of the operators' resources, as far as we use them: a typo or a wrong type is refused. From the types of
# kubeflow/spark-operator (v1beta2) and prometheus-operator (v1).
Labels = dict[str, str]
Anything = dict[str, Any]


def shape(kind: str, /, **fields: Any) -> type[Struct]:
    """An object of these fields and no others; a field given as ``(type, default)`` may be left out."""
    listed = [(field, *what) if isinstance(what, tuple) else (field, what) for field, what in fields.items()]
    return defstruct(kind, listed, forbid_unknown_fields=True, rename="camel", kw_only=True)


def resource_shape(name: str, api_version: str, spec: type[Struct]) -> type[Struct]:
    metadata = shape("Metadata", name=str, namespace=(str | None, None), labels=(Labels, {}))
    return shape(name, api_version=Literal[api_version], kind=Literal[name], metadata=metadata, spec=spec)


POD: dict[str, Any] = {
    "cores": int,
    "memory": str,
    "memory_overhead": str,
    "labels": Labels,
    "env_from": list[Anything],
    "security_context": Anything,
    "volume_mounts": list[Anything],
}
RETRIES = dict.fromkeys(
    (
        "on_failure_retry_interval",
        "on_submission_failure_retry_interval",
        "on_failure_retries",
        "on_submission_failure_retries",
    ),
    (int | None, None),
)
PORT = shape("Port", name=str, protocol=Literal["TCP", "UDP"], container_port=int)
SPARK_APPLICATION = shape(
    "SparkApplicationSpec",
    type=Literal["Java", "Scala", "Python", "R"],
    python_version=str,
    mode=Literal["cluster", "client"],
    spark_version=str,
    image=str,
    image_pull_policy=Literal["Always", "IfNotPresent", "Never"],
    main_application_file=str,
    arguments=list[str],
    restart_policy=shape("RestartPolicy", type=Literal["Never", "Always", "OnFailure"], **RETRIES),
    volumes=list[Anything],
    driver=shape("Driver", **POD, service_account=str, ports=(list[PORT], [])),
    executor=shape("Executor", **POD, instances=int),
)
SELECTOR = shape("Selector", match_labels=Labels)
RELABELING = shape("Relabeling", target_label=str, source_labels=(list[str], []), replacement=(str | None, None))
ENDPOINTS = list[shape("Endpoint", port=str, interval=str, path=(str, "/metrics"), relabelings=(list[RELABELING], []))]
SERVICE_MONITOR = shape("ServiceMonitorSpec", selector=SELECTOR, endpoints=ENDPOINTS)
POD_MONITOR = shape("PodMonitorSpec", selector=SELECTOR, pod_metrics_endpoints=ENDPOINTS)

SHAPES: dict[str, type[Struct]] = {
    "SparkApplication": resource_shape("SparkApplication", "sparkoperator.k8s.io/v1beta2", SPARK_APPLICATION),
    "ServiceMonitor": resource_shape("ServiceMonitor", "monitoring.coreos.com/v1", SERVICE_MONITOR),
    "PodMonitor": resource_shape("PodMonitor", "monitoring.coreos.com/v1", POD_MONITOR),
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


def test_every_resource_fits_its_schema(validate: Callable[..., str]) -> None:
    found = resources()
    said = validate(*sorted({path for path, _ in found}))
    assert said.count(" passed for ") == sum(resource["kind"] not in SHAPES for _, resource in found)


def test_a_typo_is_caught(validate: Callable[..., str], tmp_path: Path) -> None:
    text = (KUBERNETES / "base" / "serve.yaml").read_text()
    (tmp_path / "typo.yaml").write_text(text.replace("readinessProbe", "readynessProbe"))
    with pytest.raises(AssertionError, match="readynessProbe"):
        validate(tmp_path / "typo.yaml")


@pytest.mark.parametrize("kind", SHAPES)
def test_operators_resources_fit_the_operators_types(kind: str) -> None:
    mine = [resource for _, resource in resources() if resource["kind"] == kind]
    assert mine
    for resource in mine:
        msgspec.convert(resource, SHAPES[kind])


def test_the_operators_spark_is_ours() -> None:
    from pyspark.version import __version__

    (spark,) = [resource for _, resource in resources() if resource["kind"] == "SparkApplication"]
    assert spark["spec"]["sparkVersion"] == __version__


def test_kustomizations_name_files_that_are_there() -> None:
    for path in KUBERNETES.rglob("kustomization.yaml"):
        content = yaml.safe_load(path.read_text())
        named = [
            *content["resources"],
            *content.get("configurations", ()),
            *(name for made in content.get("configMapGenerator", ()) for name in made["files"]),
        ]
        assert [name for name in named if not (path.parent / name).exists()] == []


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_overlays_build(overlay: str, validate: Callable[..., str], tmp_path: Path) -> None:
    command = _kustomize()
    done = subprocess.run(
        [*command, str(KUBERNETES / "overlays" / overlay)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    built = tmp_path / "built.yaml"
    built.write_text(done.stdout)
    validate(built)
    documents = list(yaml.safe_load_all(done.stdout))
    (config,) = [document["metadata"]["name"] for document in documents if document["kind"] == "ConfigMap"]
    assert config.startswith("rebalance-monitor-")
    for document in documents:
        for volume in _volumes(document):
            assert volume.get("configMap", {}).get("name", config) == config


def _kustomize() -> list[str]:
    if shutil.which("kustomize"):
        return ["kustomize", "build"]
    if shutil.which("kubectl"):
        version = subprocess.run(["kubectl", "version", "--client"], capture_output=True, text=True, check=False)
        if "Kustomize Version: v5" in version.stdout:
            return ["kubectl", "kustomize"]
    # In CI too: no package registry has it. The other tests validate what it would put together.
    pytest.skip("neither kustomize nor a kubectl with kustomize 5 is installed")


def _volumes(document: dict) -> list[dict]:
    spec = document.get("spec", {})
    return [*spec.get("volumes", ()), *spec.get("template", {}).get("spec", {}).get("volumes", ())]
