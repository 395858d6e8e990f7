"""Java's other options: REFUSED with the reason, or IGNORED with one warning for all.

An option is refused, not ignored, where leaving it out would change what is written, where it
goes or who may read it. Names are those of Kafka 4.3's producer and consumer.
"""

from collections.abc import Mapping

from twophase.kafka.code_options import CODE, CODE_PREFIXES

REFUSED: Mapping[str, str] = {
    "transactional.id": "the sink makes it from its sink id, which is what fences an older run",
    "enable.idempotence": "the guarantee decides it; choose a guarantee instead",
    "transaction.two.phase.commit.enable": "the sink decides how a transaction ends",
    "key.serializer": "`key` is written as its bytes; convert it in the DataFrame",
    "value.serializer": "`value` is written as its bytes; convert it in the DataFrame",
    "ssl.cipher.suites": "Java's names are not OpenSSL's; restrict the suites on the broker",
    **CODE,
}

_BLOCKS = "blocks are cut by size and sent at once"
_TIME = "bounded by delivery.timeout.ms"
_METRICS = "metrics come from the sink, not from a Java client"
_JAVA = "a part of the JVM's own security"
_KERBEROS = "tickets are renewed outside, as with kinit"
_TOKENS = "tokens come from the token provider"
_BROKERS = "the connection layer has its own rule"
_CONSUMER = "an option of consumers, such as Spark's source"

_IGNORED_BY_REASON: Mapping[str, str] = {
    _BLOCKS: """linger.ms partitioner.adaptive.partitioning.enable
        partitioner.availability.timeout.ms""",
    _TIME: "retries",
    _METRICS: """enable.metrics.push metrics.num.samples metrics.recording.level
        metrics.sample.window.ms""",
    _JAVA: """ssl.keymanager.algorithm ssl.protocol ssl.provider
        ssl.secure.random.implementation ssl.trustmanager.algorithm""",
    _KERBEROS: """sasl.kerberos.min.time.before.relogin
        sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor""",
    _TOKENS: """sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
        sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
        sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
        sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
        sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
        sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
        sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
        sasl.oauthbearer.assertion.claim.sub
        sasl.oauthbearer.assertion.private.key.passphrase
        sasl.oauthbearer.client.credentials.client.id
        sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.clock.skew.seconds
        sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
        sasl.oauthbearer.header.urlencode sasl.oauthbearer.jwks.endpoint.refresh.ms
        sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
        sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.scope
        sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name""",
    _BROKERS: """metadata.max.idle.ms metadata.recovery.rebootstrap.trigger.ms
        metadata.recovery.strategy""",
    _CONSUMER: """allow.auto.create.topics auto.commit.interval.ms auto.offset.reset check.crcs
        client.rack default.api.timeout.ms enable.auto.commit exclude.internal.topics
        fetch.max.bytes fetch.max.wait.ms fetch.min.bytes group.id group.instance.id
        group.protocol group.remote.assignor heartbeat.interval.ms isolation.level
        max.partition.fetch.bytes max.poll.interval.ms max.poll.records
        session.timeout.ms""",
}

IGNORED: Mapping[str, str] = {
    name: reason for reason, names in _IGNORED_BY_REASON.items() for name in names.split()
}

# Families whose names go on after the prefix as the user likes.
REFUSED_PREFIXES: Mapping[str, str] = CODE_PREFIXES
IGNORED_PREFIXES: Mapping[str, str] = {"metrics.context.": _METRICS}
