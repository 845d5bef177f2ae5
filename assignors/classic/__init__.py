"""The client-side assignors of the classic protocol (``org.apache.kafka.clients.consumer``)."""
