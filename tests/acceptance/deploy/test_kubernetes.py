"""The manifests hold against Kubernetes' own schemas, with no cluster."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import yaml

from tests.support.container import missing
from tests.support.custom_resources import SHAPES
from tests.support.manifests import KUBERNETES, ROOT, resources

OVERLAYS = sorted(path.parent.name for path in KUBERNETES.glob("overlays/*/kustomization.yaml"))
#: 108 MB, so no dependency of the project: uv runs it from its cache.
VALIDATOR = ("tool", "run", "--quiet", "--from", "kubernetes-validate==1.37.0", "kubernetes-validate")


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
        version = subprocess.run(
            ["kubectl", "version", "--client"], capture_output=True, text=True, check=False
        )
        if "Kustomize Version: v5" in version.stdout:
            return ["kubectl", "kustomize"]
    # In CI too: no package registry has it. The other tests validate what it would put together.
    pytest.skip("neither kustomize nor a kubectl with kustomize 5 is installed")


def _volumes(document: dict) -> list[dict]:
    spec = document.get("spec", {})
    return [*spec.get("volumes", ()), *spec.get("template", {}).get("spec", {}).get("volumes", ())]
