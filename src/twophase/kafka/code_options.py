"""Options that make a client load code, run a command or read a file of the writer's choice.

A sink runs no Java, but its options are often shared with Spark's source, which does, and they may
come from a file that somebody else writes. They are refused by name, never ignored.
"""

from collections.abc import Mapping

from twophase.kafka.jaas import JaasError, parse_jaas
from twophase.options import refuse

_CODE = "it names Java code to load"
_FILE = "it names a file to read"
_PROVIDER = "tokens come from the token provider"

CODE: Mapping[str, str] = {
    "interceptor.classes": f"{_CODE}; change the rows in the DataFrame",
    "partitioner.class": f"{_CODE}; write the column `partition` instead",
    "metric.reporters": f"{_CODE}; give the sink hooks instead",
    "config.providers": f"{_CODE}; resolve the value before passing it",
    "security.providers": f"{_CODE}; install the provider in the JVM's own java.security",
    "ssl.engine.factory.class": f"{_CODE}; give PEM stores instead",
    "sasl.login.class": f"{_CODE}; write sasl.jaas.config",
    "sasl.client.callback.handler.class": f"{_CODE}; write sasl.jaas.config",
    "sasl.login.callback.handler.class": f"{_CODE}; {_PROVIDER}",
    "sasl.oauthbearer.jwt.retriever.class": f"{_CODE}; {_PROVIDER}",
    "sasl.oauthbearer.jwt.validator.class": f"{_CODE}; {_PROVIDER}",
    "key.deserializer": f"{_CODE}; Spark's source gives bytes, convert them in the DataFrame",
    "value.deserializer": f"{_CODE}; Spark's source gives bytes, convert them in the DataFrame",
    "partition.assignment.strategy": f"{_CODE}; Spark's source assigns partitions itself",
    "sasl.kerberos.kinit.cmd": "it names a command to run; run kinit outside",
    "sasl.oauthbearer.assertion.file": f"{_FILE}; {_PROVIDER}",
    "sasl.oauthbearer.assertion.private.key.file": f"{_FILE}; {_PROVIDER}",
    "sasl.oauthbearer.assertion.template.file": f"{_FILE}; {_PROVIDER}",
    "sasl.oauthbearer.jwks.endpoint.url": f"{_FILE}, where it begins with file:; {_PROVIDER}",
    "sasl.oauthbearer.token.endpoint.url": f"{_FILE}, where it begins with file:; {_PROVIDER}",
}
CODE_PREFIXES: Mapping[str, str] = {"config.providers.": CODE["config.providers"]}

# Java's own JndiLoginModule and LdapLoginModule, for instance, load code from an address.
_LOGIN_MODULES = frozenset(
    {
        "PlainLoginModule",
        "ScramLoginModule",
        "OAuthBearerLoginModule",
        "Krb5LoginModule",
        "IAMLoginModule",
    }
)
_LOGIN_PACKAGES = (
    "org.apache.kafka.common.security.",
    "kafkashaded.org.apache.kafka.common.security.",
    "org.apache.kafka.shaded.common.security.",
    "com.sun.security.auth.module.",
    "software.amazon.msk.auth.iam.",
)
_JAAS = "sasl.jaas.config"


def refuse_code(options: Mapping[str, str], prefix: str = "kafka.") -> None:
    """Refuse options for a Java client, such as Spark's source, that could make it run code."""
    for written, value in options.items():
        key = written.strip().lower()
        name = key.removeprefix(prefix)
        reason = why_code(name)
        if reason is not None:
            refuse(f"{key} cannot be set: {reason}; leave it out", key)
        if name == _JAAS:
            _check_login_module(key, str(value))


def why_code(name: str) -> str | None:
    """Return why an option of this name is refused; None where it is not."""
    by_prefix = (reason for prefix, reason in CODE_PREFIXES.items() if name.startswith(prefix))
    return CODE.get(name) or next(by_prefix, None)


def _check_login_module(key: str, text: str) -> None:
    try:
        module = parse_jaas(text)
    except JaasError as error:
        refuse(f"{key} cannot be read: {error}", key)
    if module.simple_name not in _LOGIN_MODULES or not module.name.startswith(_LOGIN_PACKAGES):
        # The class found is not shown: a text that is no JAAS at all may be a password.
        allowed = ", ".join(sorted(_LOGIN_MODULES))
        refuse(f"{key} names a login module that is not one of Kafka's; write {allowed}", key)
