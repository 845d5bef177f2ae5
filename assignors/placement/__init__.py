"""Where Kafka puts the replicas of new partitions, and how even an existing placement is."""
