"""The JoinGroup protocols: one coordinator and one type of member for all of them, and the rules of each protocol."""
