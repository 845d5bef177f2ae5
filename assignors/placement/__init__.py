"""Placement of replicas on brokers: Kafka's placement of new partitions, and the evenness of an existing placement."""
