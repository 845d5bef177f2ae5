"""The rendered resources of deploy/, and the commands that the resources start."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART_FOLDER = ROOT / "deploy" / "helm"
KUBERNETES = ROOT / "deploy" / "kubernetes"


def resources() -> list[tuple[Path, dict[str, Any]]]:
    """Return every rendered Kubernetes resource with the file that contains it."""
    return [
        (path, document)
        for path in sorted(KUBERNETES.glob("*/manifests.yaml"))
        for document in yaml.safe_load_all(path.read_text())
    ]


def pods(resource: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the pod specs of a resource: one for a Deployment, two for a SparkApplication."""
    spec = resource.get("spec", {})
    if resource["kind"] == "Deployment":
        return [spec["template"]["spec"]]
    return [spec[role]["podTemplateSpec"]["spec"] for role in ("driverSpec", "executorSpec") if role in spec]


def commands() -> Iterator[tuple[str, list[str]]]:
    """Yield ``(source, arguments)`` of each component in the manifests and in docker-compose.yml."""
    for path, resource in resources():
        folder_name = path.parent.name
        if resource["kind"] == "SparkApplication":
            yield folder_name, resource["spec"].get("arguments") or resource["spec"]["driverArgs"]
            continue
        for pod in pods(resource):
            for container in [*pod.get("initContainers", ()), *pod["containers"]]:
                yield f"{folder_name} {resource['metadata']['name']} {container['name']}", container["args"]
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    for name, service in compose["services"].items():
        if "build" in service and "entrypoint" not in service:
            yield f"docker-compose.yml {name}", service["command"].split()
