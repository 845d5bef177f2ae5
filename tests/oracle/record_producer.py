"""Writes the golden samples of partitioners and placement: ``python -m tests.oracle.record_producer``."""

import base64
import json
import random
from pathlib import Path
from typing import Any

from tests.oracle.driver import Oracle
from tests.support.placement_cases import admin_case, striped_case

GOLDEN = Path(__file__).parents[1] / "golden" / "assignors"
SEED = 4301


def main() -> None:
    """Write the samples of partitioners and replica placement, with the results of the released Java classes."""
    rng = random.Random(SEED)
    keys = [b"", b"21", *(rng.randbytes(rng.randrange(40)) for _ in range(38))]
    requests: list[dict[str, Any]] = [
        {"family": "partitioner", "ask": "key", "key": base64.b64encode(k).decode(), "partitions": 50} for k in keys
    ]
    striped_cases = [striped_case(rng) for _ in range(30)]
    with Oracle("current") as current:
        _write(GOLDEN / "partitioner" / "oracle-4.3.1.jsonl", requests, current.ask(requests))
        placed = current.ask(striped_cases)
    admin = [admin_case(rng) for _ in range(30)]
    with Oracle("admin") as old:
        _write(GOLDEN / "placement" / "oracle.jsonl", admin + striped_cases, old.ask(admin) + placed)


def _write(path: Path, requests: list[dict[str, Any]], responses: list[dict[str, Any]]) -> None:
    records = [
        {"request": request, "answer": {"error": True} if "error" in answer else answer}
        for request, answer in zip(requests, responses, strict=True)
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


if __name__ == "__main__":
    main()
