"""Pure state machines, with common types, of every rebalance protocol from ZooKeeper watchers to KIP-848.

The interface is ``apply(state, event) -> (state, outputs)``. States and events are frozen values, transitions are
tables of data (:mod:`streaming.protocols.vocabulary`), and time is an argument. ``families`` lists the protocols by
name and finds their machines.
"""
