"""Kafka itself: clients and their settings, topics, the producer, and an embedded broker with the jars it needs."""
