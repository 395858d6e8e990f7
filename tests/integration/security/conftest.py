"""One cluster with users for the tests of this folder, and what its user `etl` runs."""

import pytest
from support.secured import SuperUser, prefixed

from twophase.cli.main import run as command_line
from twophase.embedded import EmbeddedKafka
from twophase.kafka.options import KafkaOptions
from twophase.kafka.wire import Wire

PASSWORD = 'pa"ss\\word-9f2c, =1'
COMMANDS = {
    "check": ("check", "--sink-id", "{sink}", "--topic", "{topic}"),
    "sinks list": ("sinks", "list"),
    "sinks show": ("sinks", "show", "{sink}", "--topic", "{topic}"),
    "sinks adopt": (
        *("sinks", "adopt", "{sink}", "--owner", "query-b", "--not-committed", "1"),
        *("--topic", "{topic}", "--yes"),
    ),
    "sinks reset": ("sinks", "reset", "{sink}", "--topic", "{topic}", "--yes"),
    "transactions list": ("transactions", "list", "--sink-id", "{sink}"),
    "transactions abort": (
        "transactions",
        "abort",
        "twophase.{sink}",
        "--watch",
        "{watch}",
        "--yes",
    ),
}
_MODULES = "org.apache.kafka.common.security"
# Beside what the cluster has by itself: what a token and SCRAM-SHA-256 need.
_MORE_MECHANISMS = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
    "scram-sha-256.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
    "oauthbearer.sasl.jaas.config": (
        f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required"
        ' unsecuredLoginStringClaim_sub="broker";'
    ),
}


@pytest.fixture(scope="session", params=["4.3.1"])
def secured(request):
    """A cluster with a super user, `etl`, and `nobody`, who has no right at all.

    `pytest.mark.parametrize("secured", [...], indirect=True)` asks for the version.
    """
    key = "listener.name.sasl_plaintext."
    properties = {key + name: value for name, value in _MORE_MECHANISMS.items()}
    users = {"etl": PASSWORD, "nobody": PASSWORD}
    with EmbeddedKafka(version=request.param, users=users, properties=properties) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def super_user(secured):
    return SuperUser(secured)


@pytest.fixture
def etl_options(secured):
    return KafkaOptions.parse(prefixed(secured.client_options("etl"), max_block_ms=10_000))


@pytest.fixture
def etl_wire(etl_options):
    with Wire(etl_options) as wire:
        yield wire


@pytest.fixture
def command(secured, tmp_path, capfd, short_watch):
    """Run a command as a user, by its name above or its arguments; return code, stdout, stderr."""

    def run(asked, user="etl", **given):
        config = tmp_path / f"{user}.properties"
        lines = secured.client_options(user).items()
        config.write_text("".join(f"{k}={v.replace(chr(92), chr(92) * 2)}\n" for k, v in lines))
        parts = COMMANDS[asked] if isinstance(asked, str) else asked
        arguments = [part.format(watch=short_watch, **given) for part in parts]
        capfd.readouterr()
        code = command_line([*arguments, "--command-config", str(config)])
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    return run
