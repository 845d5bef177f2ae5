"""Writes an installation's packages as a CycloneDX 1.6 document: Debian packages, Python packages, and jars.

Run this file with the Python whose packages are to be listed, also in an image; it needs only the standard library::

    docker run --rm --interactive --entrypoint python IMAGE - /opt/rebalance-monitor < scripts/sbom.py

The arguments are folders that are searched for jars; by default, the folders of Python's packages.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any
from urllib.parse import quote

Component = dict[str, Any]

_POM_PROPERTIES = re.compile(r"META-INF/maven/[^/]+/[^/]+/pom\.properties")
_JAR_NAME = re.compile(r"(?P<name>.+?)-(?P<version>\d[\w.+-]*)")
_LICENCE = "License :: OSI Approved :: "


def main(folders: list[str]) -> None:
    """Print the software bill of materials of the system, the Python packages, and the jars below these folders."""
    root_folders = [Path(folder) for folder in folders or [sysconfig.get_path("purelib")]]
    json.dump(document([*debian_packages(), *python(), *jar_components(root_folders)]), sys.stdout, indent=1)
    sys.stdout.write("\n")


def document(components: Iterable[Component]) -> Component:
    """Return the CycloneDX document, which lists each component once, in order."""
    component_by_reference = {component["bom-ref"]: component for component in components}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "kafka-rebalance-monitor"}},
        "components": [component_by_reference[reference] for reference in sorted(component_by_reference)],
    }


def component(purl: str, name: str, version: str, licence: str = "") -> Component:
    """Return a software component for the bill of materials; ``purl``: the package URL that identifies it."""
    entry: Component = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    return entry | ({"licenses": [{"license": {"name": licence}}]} if licence else {})


def debian_packages() -> Iterator[Component]:
    """Return the packages that dpkg has installed (none without dpkg).

    The packages' licences are in /usr/share/doc/*/copyright.
    """
    if shutil.which("dpkg-query") is None:
        return
    output_format = "${Package}\t${Version}\t${Architecture}\n"
    listed = subprocess.run(
        ["dpkg-query", "-W", "-f", output_format], capture_output=True, text=True, check=True
    ).stdout
    for name, version, architecture in (line.split("\t") for line in listed.splitlines()):
        if version:
            yield component(f"pkg:deb/debian/{quote(name)}@{quote(version)}?arch={architecture}", name, version)


def python() -> Iterator[Component]:
    """Return the packages that this Python interpreter can import."""
    for package in distributions():
        name = re.sub(r"[-_.]+", "-", package.metadata["Name"]).lower()
        yield component(f"pkg:pypi/{name}@{quote(package.version)}", name, package.version, licence(package))


def licence(package: Distribution) -> str:
    """Return the licence that a package declares: an SPDX expression, a classifier, or a short text."""
    metadata = package.metadata
    classifiers = [text for text in metadata.get_all("Classifier") or () if text.startswith(_LICENCE)]
    named = " AND ".join(text.removeprefix(_LICENCE) for text in classifiers)
    text = (metadata["License"] or "").strip() if "License" in metadata else ""
    expression = metadata.get("License-Expression", "")
    return expression or named or text.partition("\n")[0][:100]


def jar_components(root_folders: Iterable[Path]) -> Iterator[Component]:
    """Return every jar below these folders with its shaded components; the file name replaces missing coordinates."""
    for root in root_folders:
        for path in sorted(root.rglob("*.jar")):
            yield from coordinates(path) or [component_of_file(path)]


def coordinates(path: Path) -> list[Component]:
    """Return the components in the Maven files of a jar."""
    try:
        with zipfile.ZipFile(path) as jar:
            texts = [jar.read(name).decode() for name in jar.namelist() if _POM_PROPERTIES.fullmatch(name)]
    except (zipfile.BadZipFile, UnicodeDecodeError):
        return []
    components = []
    for text in texts:
        properties = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and line[0] != "#")
        group, name, version = (properties.get(part, "").strip() for part in ("groupId", "artifactId", "version"))
        if group and name and version:
            components.append(component(f"pkg:maven/{quote(group)}/{quote(name)}@{quote(version)}", name, version))
    return components


def component_of_file(path: Path) -> Component:
    """Return a component for a jar without Maven coordinates, identified by the file name."""
    match = _JAR_NAME.fullmatch(path.stem)
    name, version = (match["name"], match["version"]) if match else (path.stem, "")
    return component(f"pkg:generic/{quote(name)}@{quote(version)}", name, version)


if __name__ == "__main__":
    main(sys.argv[1:])
