"""Runs real consumers as child processes that report their partitions after each rebalance callback."""

import json
import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from subprocess import PIPE, Popen
from typing import Any, Self

from tests.support.command import command
from tests.support.wait import TIMEOUT_SECONDS

#: ``{topic: sorted partitions}``, without topics of which the member owns no partition.
Share = dict[str, list[int]]
_CLIENT_PROPERTIES = ("auto.commit.interval.ms=200", "topic.metadata.refresh.interval.ms=1000")
_CLASSIC_SETTINGS: dict[str, Any] = {"properties": (*_CLIENT_PROPERTIES, "heartbeat.interval.ms=200")}
#: Options of members that commit and detect changes quickly.
EAGER = _CLASSIC_SETTINGS | {"protocol": "eager"}
COOPERATIVE = _CLASSIC_SETTINGS | {"protocol": "cooperative"}
CONSUMER: dict[str, Any] = {"properties": (*_CLIENT_PROPERTIES, "log_level=7", "debug=cgrp"), "protocol": "consumer"}


class Member:
    """A Python consumer (``streaming.demo.consumer``) in a child process; ``lines`` holds the lines that it reported.

    Args:
        options: options of ``streaming.demo.consumer``: client, protocol, assignor, instance_id, session_timeout_ms.
        properties: properties of the client library.
        host: loopback address from which the member connects (kafka-python only); None: the default.
        log: file that receives the client's log; None: the test's own output receives it.
        module: module that runs the consumer.
    """

    def __init__(
        self,
        servers: str,
        group: str,
        name: str,
        topics: Sequence[str],
        *,
        properties: Iterable[str] = (),
        host: str | None = None,
        log: Path | None = None,
        module: str = "streaming.demo.consumer",
        **options: Any,
    ) -> None:
        self.name = name
        self.lines: list[dict[str, Any]] = []
        arguments = ["--bootstrap-servers", servers, "--group", group, "--topics", ",".join(topics)]
        arguments += [f"--{option.replace('_', '-')}={value}" for option, value in options.items() if value is not None]
        arguments += [f"--property={setting}" for setting in properties]
        module = module if host is None else "tests.support.placed_consumer"
        module = module if log is None else "tests.support.logged_consumer"
        environment = os.environ | ({} if host is None else {"HOST_ADDRESS": host})
        with ExitStack() as stack:
            # Without a file, pytest shows the client's log if the test fails.
            errors = None if log is None else stack.enter_context(log.open("wb"))
            started = command("--name", name, *arguments, module=module)
            self._process = Popen(started, stdout=PIPE, stderr=errors, env=environment)
        self._reader = threading.Thread(target=self._read, name=name, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self.lines.append(json.loads(line))

    @property
    def reports(self) -> list[Share]:
        """Return the partitions that the member owned after each rebalance callback."""
        return [line["owned"] for line in self.lines]

    @property
    def owned(self) -> Share:
        return self.lines[-1]["owned"] if self.lines else {}

    @property
    def generations(self) -> dict[int, Share]:
        """Return the partitions that the member was assigned in each generation."""
        return {line["generation"]: line["owned"] for line in self.lines if line["event"] == "assigned"}

    def close(self) -> None:
        """Let the member leave the group and end its process."""
        self._process.terminate()
        self._process.wait(TIMEOUT_SECONDS)
        self._reader.join(TIMEOUT_SECONDS)

    def crash(self) -> None:
        """Kill the process with SIGKILL, without a LeaveGroup."""
        self._process.kill()
        self._process.wait()
        self._reader.join(TIMEOUT_SECONDS)

    def freeze(self, *, frozen: bool) -> None:
        """Suspend the member's process (SIGSTOP), like a long pause of a virtual machine, or resume it."""
        self._process.send_signal(SIGSTOP if frozen else SIGCONT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def share_all_partitions(members: list[Member], partitions: int) -> bool:
    """Return true if the members together own all partitions, and each member owns at least one."""
    shares = [member.owned for member in members]
    owned = [(topic, p) for share in shares for topic, numbers in share.items() for p in numbers]
    return all(shares) and len(set(owned)) == len(owned) == partitions
