"""The sets of Kafka's jars that the tests against Java use, by Maven coordinates."""

import os

from streaming.kafka.jars import fetch

#: Maven coordinates of each jar set; ``current`` is the reference release.
JARSETS: dict[str, tuple[str, ...]] = {
    "current": ("org.apache.kafka:kafka_2.13:4.3.1", "org.apache.kafka:connect-runtime:4.3.1"),
    "admin": ("org.apache.kafka:kafka-server-common:4.0.2",),  # the last release with AdminUtils
    "zk082": ("org.apache.kafka:kafka_2.11:0.8.2.2",),
    "zk011": ("org.apache.kafka:kafka_2.11:0.11.0.3",),
    "zk11": ("org.apache.kafka:kafka_2.11:1.1.1",),
}
#: Jars without their dependencies: Kafka Streams depends on 70 MB of RocksDB, which no test needs.
JARS_WITHOUT_DEPENDENCIES: dict[str, tuple[str, ...]] = {"current": ("org.apache.kafka:kafka-streams:4.3.1",)}


def classpath(jarset: str) -> str:
    """Return every jar of the set, including dependencies, in the format of ``java -cp``."""
    jars = fetch(JARSETS[jarset])
    if jarset in JARS_WITHOUT_DEPENDENCIES:
        jars += fetch(JARS_WITHOUT_DEPENDENCIES[jarset], transitive=False)
    return os.pathsep.join(map(str, jars))
