import importlib.util
import re
import zipfile
from importlib.metadata import distribution, requires
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.requirements import Requirement


@pytest.fixture(scope="module")
def sbom() -> ModuleType:
    path = Path(__file__).parents[3] / "scripts/sbom.py"
    spec = importlib.util.spec_from_file_location("sbom", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def deployed_packages() -> set[str]:
    """Return the names of the wheel's dependencies, including indirect ones."""
    names: set[str] = set()
    pending_packages = ["kafka-rebalance-monitor"]
    while pending_packages:
        name = re.sub(r"[-_.]+", "-", pending_packages.pop()).lower()
        if name in names:
            continue
        names.add(name)
        wanted = map(Requirement, requires(name) or ())
        pending_packages += [
            requirement.name
            for requirement in wanted
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        ]
    return names


def test_deployed_packages_have_licences_other_than_gpl(sbom: ModuleType) -> None:
    licences = {name: sbom.licence(distribution(name)) for name in deployed_packages()}
    assert len(licences) > 20
    assert [name for name, text in licences.items() if not text] == []
    assert {name: text for name, text in licences.items() if re.search(r"GPL|General Public", text)} == {}


def test_python_is_named_by_package_urls(sbom: ModuleType) -> None:
    by_name = {component["name"]: component for component in sbom.python()}
    version = distribution("pyspark").version
    assert by_name["pyspark"]["purl"] == f"pkg:pypi/pyspark@{version}"
    assert (by_name["pyspark"]["version"], by_name["pyspark"]["type"]) == (version, "library")
    assert by_name["pyspark"]["licenses"] == [{"license": {"name": "Apache-2.0"}}]


def jar(path: Path, **files: str) -> None:
    with zipfile.ZipFile(path, "w") as jar:
        for name, text in files.items():
            jar.writestr(f"META-INF/maven/org.example/{name}/pom.properties", text)


def test_jars_list_shaded_packages_or_have_a_name(sbom: ModuleType, tmp_path: Path) -> None:
    jar(tmp_path / "whole-1.jar", a="#made\nartifactId=a\ngroupId=org.example\nversion=1.0\n", b="version=${v}")
    jar(tmp_path / "plain_2.13-4.0.0.jar")
    (tmp_path / "damaged.jar").write_bytes(b"no archive")
    assert [component["purl"] for component in sbom.jar_components([tmp_path])] == [
        "pkg:generic/damaged@",
        "pkg:generic/plain_2.13@4.0.0",
        "pkg:maven/org.example/a@1.0",
    ]


def test_each_component_is_listed_once_in_order(sbom: ModuleType) -> None:
    parts: list[dict[str, Any]] = [sbom.component(f"pkg:pypi/{name}@1", name, "1") for name in "bab"]
    sbom_document = sbom.document(parts)
    assert (sbom_document["bomFormat"], sbom_document["specVersion"]) == ("CycloneDX", "1.6")
    assert [component["name"] for component in sbom_document["components"]] == ["a", "b"]
