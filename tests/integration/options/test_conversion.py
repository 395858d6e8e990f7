"""The refusal of a Java store tells a command that works."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from integration.options.certificates import KEY_PASSWORD, Certificates, handshake

from twophase.errors import ConfigurationError
from twophase.kafka.options import KafkaOptions

BASE = {"kafka.bootstrap.servers": "127.0.0.1:9093", "kafka.security.protocol": "SSL"}


@pytest.mark.parametrize("store", ["truststore", "keystore"])
@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_the_conversion_that_is_told_works(made, tmp_path, store, kind):
    """The command of the refusal, run as it is, gives a file that loads."""
    if shutil.which("keytool") is None or shutil.which("openssl") is None:
        pytest.skip("the keytool or the openssl command is missing")
    binary = tmp_path / ("store.jks" if kind == "JKS" else "store.p12")
    make_binary_store(made, binary, store, kind)
    with pytest.raises(ConfigurationError) as caught:
        context({f"{store}.location": str(binary), f"{store}.type": kind})
    command = re.search(r"convert it with: (.*) — then set", str(caught.value))[1]

    # The commands ask for passwords on the terminal; here they get them as arguments.
    command = command.replace("keytool -list", f"keytool -list -storepass {KEY_PASSWORD}")
    command = command.replace(
        "-importkeystore",
        f"-importkeystore -srcstorepass {KEY_PASSWORD} -deststorepass {KEY_PASSWORD}",
    )
    passwords = f"-passin pass:{KEY_PASSWORD} -passout pass:{KEY_PASSWORD}"
    command = command.replace("openssl pkcs12", f"openssl pkcs12 {passwords}")
    subprocess.run(command, shell=True, check=True, capture_output=True, timeout=60)

    options = {f"{store}.location": str(tmp_path / "store.pem"), f"{store}.type": "PEM"}
    if store == "truststore":
        assert len(context(options).get_ca_certs()) == 1
    else:
        trust = {"truststore.location": str(made.authority), "truststore.type": "PEM"}
        loaded = context(options | trust | {"key.password": KEY_PASSWORD})
        assert handshake(made, loaded) == "client"


def context(options: dict[str, str]):
    """Return the TLS context that the options give."""
    prefixed = {f"kafka.ssl.{name}": value for name, value in options.items()}
    return KafkaOptions.parse(BASE | prefixed).connection_settings()["ssl_context"]


def make_binary_store(made: Certificates, path: Path, store: str, kind: str) -> None:
    """Make a store as Java users have it."""
    password = ["-storepass", KEY_PASSWORD]
    target = ["-keystore", str(path), "-storetype", kind, "-noprompt", *password]
    if store == "truststore":
        command = ["keytool", "-importcert", "-alias", "ca", "-file", str(made.authority), *target]
    else:
        p12 = path.with_suffix(".made.p12")
        secrets = ["-passin", f"pass:{KEY_PASSWORD}", "-passout", f"pass:{KEY_PASSWORD}"]
        source = ["-in", str(made.client_chain), "-inkey", str(made.client_key)]
        run("openssl", "pkcs12", "-export", *source, "-out", str(p12), *secrets)
        command = ["keytool", "-importkeystore", "-srckeystore", str(p12), "-noprompt"]
        command += ["-srcstorepass", KEY_PASSWORD, "-deststorepass", KEY_PASSWORD]
        command += ["-destkeystore", str(path), "-deststoretype", kind]
    run(*command)


def run(*command: str) -> None:
    """Run a command that must succeed."""
    subprocess.run(command, check=True, capture_output=True, timeout=60)
