"""Which partition a producer sends a record to, as the Java producer decides it.

``murmur2`` and ``partition_for_key`` place a key; the modules beside them hold the rest.
"""

from __future__ import annotations

from assignors.partitioner.murmur import murmur2, partition_for_key, to_positive

__all__ = ["murmur2", "partition_for_key", "to_positive"]
