"""Reading deploy/: manifests, and the commands that they start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"


def resources() -> list[tuple[Path, dict[str, Any]]]:
    """Every resource of the manifests with its file; kustomize's own files are none."""
    kustomize = {
        KUBERNETES / "overlays" / "spark-operator" / "spark-application.yaml",
        *KUBERNETES.rglob("kustomization.yaml"),
    }
    return [
        (path, document)
        for path in sorted(KUBERNETES.rglob("*.yaml"))
        if path not in kustomize
        for document in yaml.safe_load_all(path.read_text())
    ]


def commands() -> Iterator[tuple[str, list[str]]]:
    """``(where, arguments)`` of each of our components in the manifests and in docker-compose.yml."""
    for path, resource in resources():
        if resource["kind"] in {"Deployment", "Job"}:
            (container,) = resource["spec"]["template"]["spec"]["containers"]
            yield str(path.relative_to(ROOT)), container["args"]
        if resource["kind"] == "SparkApplication":
            yield str(path.relative_to(ROOT)), resource["spec"]["arguments"]
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    for name, service in compose["services"].items():
        if "build" in service and "entrypoint" not in service:
            yield f"docker-compose.yml {name}", service["command"].split()
