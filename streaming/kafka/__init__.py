"""Access to Kafka: clients and their settings, topics, the producer, and an embedded broker with its jars."""
