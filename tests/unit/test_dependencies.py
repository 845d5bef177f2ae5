import ast
import re
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECT_SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
#: Declared dependencies without an import, and why they are needed.
DEPENDENCIES_WITHOUT_IMPORT = {
    "kafka-rebalance-monitor": "our own extras",
    "mypy": "a command",
    "ruff": "a command",
    "import-linter": "a command",
    "pytest-timeout": "a plugin of pytest",
    "pytest-xdist": "a plugin of pytest",
    "types-pyyaml": "types for mypy",
    "pytest-cov": "a plugin of pytest",
}
OWN_PACKAGES = {"assignors", "streaming", "tests", "scripts", "benchmarks", "deploy"}


def requirement_names(requirements: Iterable[str]) -> set[str]:
    return {re.split(r"[^\w.-]", requirement)[0].lower() for requirement in requirements}


DEPENDENCIES = requirement_names(PROJECT_SETTINGS["project"]["dependencies"])
OPTIONAL_DEPENDENCIES = {
    *requirement_names(
        requirement for extra in PROJECT_SETTINGS["project"]["optional-dependencies"].values() for requirement in extra
    ),
    *("botocore", "mcp-types", "opentelemetry-api"),  # modules of packages that an extra installs
}


def imported_distributions(*folders: str) -> set[str]:
    """Return the distributions whose modules any Python file below these folders imports."""
    modules = set()
    for folder in folders:
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    modules |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    modules.add(node.module.partition(".")[0])
    distributions = packages_distributions()
    foreign = modules - OWN_PACKAGES - sys.stdlib_module_names
    # rebalance_kernel may be missing; pydantic pins the version of pydantic_core.
    names = {
        distributions[name][0].lower().replace("_", "-") if name in distributions else name.replace("_", "-")
        for name in foreign
    }
    return names - {"rebalance-kernel", "rebalance_kernel", "pydantic-core"}


def test_the_packages_declare_what_they_import() -> None:
    used_packages = imported_distributions("assignors", "streaming")
    assert (
        requirement_names(PROJECT_SETTINGS["project"]["dependencies"]) - DEPENDENCIES_WITHOUT_IMPORT.keys()
        <= used_packages
        <= DEPENDENCIES | OPTIONAL_DEPENDENCIES
    )


def test_tests_declare_their_additional_imports() -> None:
    used_packages = imported_distributions("tests", "scripts", "benchmarks", "deploy")
    tools = requirement_names(PROJECT_SETTINGS["dependency-groups"]["dev"])
    assert used_packages - DEPENDENCIES - OPTIONAL_DEPENDENCIES == tools - DEPENDENCIES_WITHOUT_IMPORT.keys()


def test_dependencies_except_py4j_have_two_version_bounds() -> None:
    """Each dependency has a lower and an upper version bound, except py4j, whose version pyspark pins."""
    bounds = [
        line
        for line in PROJECT_SETTINGS["project"]["dependencies"]
        if not re.fullmatch(r"[\w-]+>=[\d.]+,<[\d.]+", line)
    ]
    assert bounds == ["py4j"]
