"""The JoinGroup protocols: one coordinator and one kind of member, and rules in which the protocols differ."""
