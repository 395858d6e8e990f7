"""No secret is ever shown: not in a repr, not in a log, not in an error, wherever it stands."""

import logging
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twophase.errors import ConfigurationError
from twophase.kafka.option_table import OPTIONS
from twophase.kafka.options import KafkaOptions
from twophase.kafka.unmapped_options import IGNORED, REFUSED

SERVERS = {"kafka.bootstrap.servers": "broker:9092"}
HIDDEN = "hunter2"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SECRETS = sorted(f"kafka.{name}" for name, option in OPTIONS.items() if option.secret)
OPEN = sorted(f"kafka.{name}" for name, option in OPTIONS.items() if not option.secret)

# Ways in which a secret may be written, well or badly.
FORMS = (
    HIDDEN,
    f'{PLAIN} required username="u" password="{HIDDEN}";',
    f'{PLAIN} required username="u" password={HIDDEN}',
    f'{PLAIN} required username="u" password="{HIDDEN}',
    f'{HIDDEN} required {HIDDEN}={HIDDEN} {HIDDEN}="{HIDDEN}";',
    f"-----BEGIN PRIVATE KEY-----\n{HIDDEN}\n-----END PRIVATE KEY-----",
    f"-----BEGIN CERTIFICATE----- {HIDDEN} -----END CERTIFICATE-----",
    f"-----BEGIN CERTIFICATE-----{HIDDEN}",
)
OTHERS = {
    "kafka.security.protocol": ["SSL", "SASL_SSL", "SASL_PLAINTEXT", "wrong"],
    "kafka.sasl.mechanism": ["PLAIN", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "wrong"],
    "kafka.ssl.truststore.type": ["PEM", "JKS"],
    "kafka.ssl.keystore.type": ["PEM", "PKCS12"],
    "kafka.ssl.truststore.location": ["/nowhere/t.pem", "/nowhere/t.jks"],
    "kafka.ssl.keystore.location": ["/nowhere/k.pem", "/nowhere/k.p12"],
    "kafka.acks": ["all", "7"],
    "kafka.unknown.option": ["x"],
}


class _Lines(logging.Handler):
    """Keeps every line that is logged."""

    def __init__(self) -> None:
        super().__init__(0)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        self.lines.append(record.getMessage())


def everything_shown(options: dict) -> str:
    """Return all that a user, a log or a traceback would see of these options."""
    seen = _Lines()
    logger = logging.getLogger()
    logger.addHandler(seen)
    try:
        parsed = KafkaOptions.parse(options)
        seen.lines += [repr(parsed), str(parsed)]
        seen.lines.append(repr(parsed.connection_settings()))
    except ConfigurationError as error:
        seen.lines += [str(error), repr(error), *traceback.format_exception(error)]
        seen.lines.append(repr(error.ids))
    finally:
        logger.removeHandler(seen)
    return "\n".join(seen.lines)


@given(
    secrets=st.dictionaries(st.sampled_from(SECRETS), st.sampled_from(FORMS), min_size=1),
    others=st.fixed_dictionaries(
        {}, optional={key: st.sampled_from(values) for key, values in OTHERS.items()}
    ),
)
def test_secrets_in_their_own_fields_are_not_shown(secrets, others):
    """Whatever else is right or wrong with the options."""
    assert HIDDEN not in everything_shown(SERVERS | secrets | others)


@pytest.mark.parametrize("form", [form for form in FORMS if "Module" in form or "BEGIN" in form])
@pytest.mark.parametrize("key", OPEN)
def test_secrets_in_the_wrong_field_are_not_in_its_error(key, form):
    """A login module or a key under the wrong name is refused without being repeated."""
    stores = {f"kafka.ssl.{name}store.location": "/nowhere/x" for name in ("key", "trust")}
    try:
        KafkaOptions.parse(SERVERS | stores | {"kafka.security.protocol": "SSL"} | {key: form})
    except ConfigurationError as error:
        assert HIDDEN not in "".join(traceback.format_exception(error))  # noqa: PT017


@pytest.mark.parametrize("key", ["kafka.sasl.passwd", "sasl.password", "password", "kafka.x"])
def test_values_of_unknown_names_are_not_shown(key):
    """Nobody knows whether they are secrets."""
    assert HIDDEN not in everything_shown(SERVERS | {key: HIDDEN})


@pytest.mark.parametrize("name", sorted({*IGNORED, *REFUSED}))
def test_values_of_unmapped_names_are_not_shown(name):
    """Some of them are secrets of Java's own login classes."""
    assert HIDDEN not in everything_shown(SERVERS | {f"kafka.{name}": HIDDEN})


def test_a_secret_as_a_name_is_not_shown():
    """Key and value swapped."""
    assert HIDDEN not in everything_shown(SERVERS | {FORMS[1]: "kafka.sasl.jaas.config"})
