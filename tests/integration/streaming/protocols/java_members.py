"""Java consumers in one JVM, which a test controls by lines of text."""

import json
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from subprocess import DEVNULL
from typing import IO, Any, Final, NamedTuple, Self

from streaming.kafka.jars import fetch
from tests.oracle.driver import JAVA, compile_java, jvm
from tests.oracle.jars import classpath
from tests.support.members import Share
from tests.support.wait import eventually

#: Logs to standard error without a configuration file.
SIMPLE_LOGGER: Final = "org.slf4j:slf4j-simple:1.7.36"
_LOGGING: Final = {"showDateTime": "true", "dateTimeFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"}
_SOURCES = (Path(__file__).parent / "Puppets.java", JAVA / "common/Json.java")


#: Java's assignors by Kafka's names.
_ASSIGNORS: Final = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


def java_config(
    servers: str,
    group_id: str,
    name: str,
    assignors: Sequence[str] = (),
    *,
    instance_id: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return the settings of a Java consumer with the client id ``name``.

    ``assignors``: of the classic protocol, or one of KIP-848 if ``more`` has ``group_protocol="consumer"``; none: the
    client's default. ``more``: further settings, with ``_`` in place of each dot.
    """
    config = {
        "bootstrap.servers": servers,
        "group.id": group_id,
        "client.id": name,
        "auto.offset.reset": "earliest",
        **({} if instance_id is None else {"group.instance.id": instance_id}),
        **{setting.replace("_", "."): value for setting, value in more.items()},
    }
    if not assignors:
        return config
    if "group.protocol" in config:
        return config | {"group.remote.assignor": assignors[0]}
    names = [f"org.apache.kafka.clients.consumer.{_ASSIGNORS[assignor]}" for assignor in assignors]
    return config | {"partition.assignment.strategy": ",".join(names)}


class MemberCallback(NamedTuple):
    """A rebalance callback of a Java consumer.

    Attributes:
        at: time, ms since the epoch.
        owned: the consumer's partitions from then on.
        generation: the consumer's generation or member epoch; below 0: the consumer is not in the group.
        member: the consumer's member id at that time.
    """

    name: str
    at: int
    event: str
    owned: Share
    generation: int
    member: str


class JavaMembers:
    """A context manager for one JVM with any number of Java consumers.

    Args:
        on_change: called with a consumer's partitions whenever they change.
        log: file that receives the clients' log; None: they log nothing.
        poll_ms: how long each poll waits for records.
    """

    def __init__(
        self, on_change: Callable[[Share], object] = lambda _: None, log: Path | None = None, *, poll_ms: int = 20
    ) -> None:
        self._on_change = on_change
        jars = classpath("current")
        classes, options = [str(compile_java("members", _SOURCES, jars)), jars], ["-Xmx512m", f"-Dpoll.ms={poll_ms}"]
        with ExitStack() as stack:
            errors: IO[bytes] | int = DEVNULL if log is None else stack.enter_context(log.open("wb"))
            if log is not None:
                classes += map(str, fetch([SIMPLE_LOGGER]))
                options += [f"-Dorg.slf4j.simpleLogger.{name}={value}" for name, value in _LOGGING.items()]
            self._jvm = jvm(classes, "Puppets", options, errors=errors)
        #: Each consumer's partitions; None for a closed one.
        self.owned: dict[str, Share | None] = {}
        self.failures: list[str] = []
        #: Every callback, in order of time.
        self.callbacks: list[MemberCallback] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._jvm.stdout is not None
        for line in self._jvm.stdout:
            callback = json.loads(line)
            if callback["event"].startswith("failed"):
                self.failures.append(f"{callback['name']}: {callback['event']}")
            self.callbacks.append(MemberCallback(**callback))
            self.owned[callback["name"]] = None if callback["event"] == "closed" else callback["owned"]
            self._on_change(callback["owned"])

    def _command(self, **fields: Any) -> None:
        assert self._jvm.stdin is not None
        self._jvm.stdin.write(json.dumps(fields).encode() + b"\n")
        self._jvm.stdin.flush()

    def start(self, name: str, config: dict[str, Any], topics: list[str], **files: Path) -> None:
        """Start a Java consumer with these settings.

        ``files``: the consumer writes its records' times to ``marks``, and its half-second commits to ``commits``.
        """
        self.owned[name] = {}
        written = {kind: str(file) for kind, file in files.items()}
        self._command(do="start", name=name, config=config, topics=topics, **written)

    def subscribe(self, name: str, topics: list[str]) -> None:
        self._command(do="subscribe", name=name, topics=topics)

    def pause_polling(self, name: str, ms: int) -> None:
        """Stop the consumer from polling for this long."""
        self._command(do="stall", name=name, ms=ms)

    def rejoin(self, name: str, reason: str) -> None:
        """Let the consumer request a rebalance (enforceRebalance)."""
        self._command(do="rejoin", name=name, reason=reason)

    def close(self, name: str, how: str) -> None:
        """Close the consumer. ``how``: GroupMembershipOperation (KIP-1092)."""
        self.begin_close(name, how)
        eventually(lambda: self.owned[name] is None or self.failures)

    def begin_close(self, name: str, how: str) -> None:
        """Close the consumer without waiting for it."""
        self._command(do="close", name=name, how=how)

    def kill(self) -> None:
        """Kill the JVM, as a crash would."""
        self._jvm.kill()

    def end(self) -> None:
        """End the JVM of the consumers; those that still run send no LeaveGroup."""
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        self._jvm.stdin.close()  # the JVM exits when its standard input ends
        self._jvm.wait(timeout=30)
        self._reader.join(timeout=10)
        self._jvm.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
