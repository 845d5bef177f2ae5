"""Every rebalance protocol, from ZooKeeper watchers to KIP-848, as a pure state machine with common types.

``apply(state, event) -> (state, outputs)``: states and events are frozen values, transitions are tables of data
(:mod:`streaming.protocols.vocabulary`), time is an argument. ``families`` names the protocols and finds their machines.
"""
