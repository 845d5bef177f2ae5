"""The protocols with JoinGroup requests: their common coordinator and members, and the rules of each protocol."""
