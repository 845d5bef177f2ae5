"""Which partition a producer sends a record to, as the Java producer decides it.

``murmur2`` and ``partition_for_key`` place a key. :mod:`assignors.partitioner.eras` holds what each era of the
producer does with a record without a key.
"""

from __future__ import annotations

from assignors.partitioner.murmur import murmur2, partition_for_key, to_positive

__all__ = ["murmur2", "partition_for_key", "to_positive"]
