"""What somebody should look at: conditions of a group that are opened, updated and closed, each one incident.

Pure, and beside the episodes: what an episode has become and how the group stands at rest go in, a state and
records come out. A condition that comes and goes is one incident, not many (:mod:`~streaming.incidents.lifecycle`).
"""
