"""The JoinGroup protocols: one coordinator, one kind of member, and the rules in which the protocols differ."""
