"""A real Apache Kafka for development and tests, fetched and run on this machine."""
