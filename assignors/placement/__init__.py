"""Placement of replicas on brokers: Kafka's for new partitions, and the evenness of an existing one."""
