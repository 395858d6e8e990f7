"""Blocks sent as a plain producer sends them: no identity, one Produce request each."""

from kafka.protocol.producer.produce import ProduceRequest

from twophase.kafka.blocks import stamp

_Topic = ProduceRequest.TopicProduceData
_Partition = _Topic.PartitionProduceData


def produce(wire, blocks):
    """Send blocks one after the other, each acknowledged by all replicas; one node only."""
    (node,) = wire.nodes()
    for block in blocks:
        header = stamp(block, -1, -1, -1, transactional=False)
        records = header + block.body.to_pybytes()
        data = _Topic(
            name=block.topic,
            partition_data=[_Partition(index=block.partition, records=records)],
        )
        # Version 12 is the last that names topics; later ones want their ids.
        request = ProduceRequest(
            transactional_id=None, acks=-1, timeout_ms=30_000, topic_data=[data], max_version=12
        )
        (topic,) = wire.ask(request, node).responses
        (partition,) = topic.partition_responses
        assert partition.error_code == 0, (block.topic, block.partition, partition)
