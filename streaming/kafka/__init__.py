"""Access to Kafka: clients, their properties, readers and producers of topics, and an embedded broker for the demo."""
