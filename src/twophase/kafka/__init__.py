"""Kafka: Arrow columns to record batches, and the transactions that carry them."""
