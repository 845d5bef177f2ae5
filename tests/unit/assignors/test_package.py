"""The package ``assignors`` works alone: it imports quickly and needs neither Kafka clients nor frameworks."""

import json
import subprocess
import sys
from typing import Any

import assignors


def child(code: str) -> Any:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_core_imports_no_unneeded_modules() -> None:
    loaded = child(
        "import json, pkgutil, sys, assignors\n"
        "for found in pkgutil.walk_packages(assignors.__path__, 'assignors.'): __import__(found.name)\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    unneeded = "pyspark kafka confluent_kafka numpy numba pandas pyarrow msgspec streaming"
    assert {*unneeded.split()} & set(loaded) == set()


def test_every_public_name_exists() -> None:
    for name in ("Member", "find", "murmur2", "check"):
        assert getattr(assignors, name).__name__ == name
    for name in assignors.__all__:
        assert getattr(assignors, name) is not None
    assert set(assignors.__all__) <= set(dir(assignors))
    assert not hasattr(assignors, "no_such_name")


def test_package_docstring_example_gives_this_assignment() -> None:
    from assignors import Member, Topic, find

    topics = {"t0": Topic("t0", partitions=6)}
    shares = find("classic", "sticky").assign(topics, [Member("c1", ("t0",)), Member("c2", ("t0",))])
    assert {member: list(share["t0"]) for member, share in shares.items()} == {"c1": [0, 2, 4], "c2": [1, 3, 5]}
