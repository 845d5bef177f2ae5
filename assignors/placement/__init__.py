"""Kafka's placement of the replicas of new partitions, and the check of an existing placement."""
