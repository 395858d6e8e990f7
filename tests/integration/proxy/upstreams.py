"""Where the brokers of an embedded cluster really listen, by the port that they advertise."""

from twophase.embedded import EmbeddedKafka


def upstreams(cluster: EmbeddedKafka) -> dict[int, tuple[str, int]]:
    """Return what a proxy before the whole cluster needs."""
    ports = {}
    for node in cluster.nodes:
        host, _, port = node.proxied_address.rpartition(":")
        ports[node.proxy_advertised_port] = (host, int(port))
    return ports
