"""A development cluster that nobody enters without a name: its users, their passwords and keys.

Every listener asks for one. Between nodes, and for their controllers, it is a certificate; clients
come by password (SASL_SSL; SASL_PLAINTEXT, to try what must not be done) or by certificate (SSL).
Whoever is no super user may do what an ACL allows, and nothing else.
"""

import base64
import hashlib
import os
import re
import secrets
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from twophase.embedded.certificates import Authority
from twophase.embedded.settings import HOST
from twophase.errors import ConfigurationError
from twophase.options import Secret

ADMIN = "admin"
_NODE = "twophase-node"
_AUTHORITY = "authority.pem"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MODULES = "org.apache.kafka.common.security"
_LOGIN = {"PLAIN": "plain.PlainLoginModule", "SCRAM-SHA-512": "scram.ScramLoginModule"}
_ITERATIONS = 4096
_CERTIFIED = ("internal", "controller", "ssl")
_BY_PASSWORD = ("sasl_ssl", "sasl_plaintext")


@dataclass(frozen=True)
class Secured:
    """The users of one cluster, and the folder with the authority's and everybody's PEM files."""

    users: Mapping[str, Secret]
    folder: Path

    @classmethod
    def prepare(cls, folder: Path, users: Mapping[str, Secret], authority: Authority) -> "Secured":
        """Make the PEM files, readable by their owner alone; once for a cluster."""
        made = cls(users, folder)
        if made.authority_file.exists():
            if made.authority_file.read_text("ascii") != authority.pem:
                raise ConfigurationError(
                    f"{folder} holds the keys of another cluster; its data cannot be gone on with, "
                    "because its users' passwords are not kept: choose an empty directory"
                )
            return made
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(made.key_file(_NODE), authority.issue(_NODE, [HOST]).pem)
        for name in users:
            write_private(made.key_file(name), authority.issue(name).pem)
        write_private(made.authority_file, authority.pem)
        return made

    @property
    def authority_file(self) -> Path:
        """The certificate that clients trust."""
        return self.folder / _AUTHORITY

    def key_file(self, name: str) -> Path:
        """Private key and certificate of a user."""
        return _key_file(self.folder, name)

    def tls_context(self) -> ssl.SSLContext:
        """Return what a node shows and trusts."""
        return tls_context(self.folder)

    def server_properties(self) -> dict[str, object]:
        """Return what the listeners ask for, and who may do what."""
        properties: dict[str, object] = {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{_NODE};User:{ADMIN}",
            # A user is one person, whether by password or by certificate.
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+)$/$1/,DEFAULT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.key_file(_NODE),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority_file,
        }
        for listener in _CERTIFIED:
            properties[f"listener.name.{listener}.ssl.client.auth"] = "required"
        plain = " ".join(f"user_{name}={_quoted(word)}" for name, word in self.users.items())
        for listener in _BY_PASSWORD:
            key = f"listener.name.{listener}"
            properties |= {
                f"{key}.sasl.enabled.mechanisms": ",".join(_LOGIN),
                f"{key}.plain.sasl.jaas.config": f"{_module('PLAIN')} required {plain};",
                f"{key}.scram-sha-512.sasl.jaas.config": f"{_module('SCRAM-SHA-512')} required;",
            }
        return properties

    def format_arguments(self) -> str:
        """Return what makes the storage tool store the users: a file of arguments, one a line."""
        found = ""
        for name, password in self.users.items():
            # Salted here, because the tool's own form cannot hold every character of a password.
            salt = os.urandom(16)
            salted = hashlib.pbkdf2_hmac("sha512", password.reveal().encode(), salt, _ITERATIONS)
            fields = (
                f"name={name}",
                f"iterations={_ITERATIONS}",
                f'salt="{base64.b64encode(salt).decode()}"',
                f'saltedpassword="{base64.b64encode(salted).decode()}"',
            )
            found += f"--add-scram\nSCRAM-SHA-512=[{','.join(fields)}]\n"
        return found

    def client_options(self, user: str, protocol: str, mechanism: str) -> dict[str, str]:
        """Return a user's options as Java names them; refuse what the cluster does not have."""
        _choose("user", user, list(self.users))
        _choose("protocol", protocol, ["SASL_SSL", "SASL_PLAINTEXT", "SSL"])
        _choose("mechanism", mechanism, list(_LOGIN))
        options = {"security.protocol": protocol}
        if protocol != "SASL_PLAINTEXT":
            options["ssl.truststore.type"] = "PEM"
            options["ssl.truststore.location"] = str(self.authority_file)
        if protocol == "SSL":
            options["ssl.keystore.type"] = "PEM"
            options["ssl.keystore.location"] = str(self.key_file(user))
            return options
        login = f"username={_quoted(Secret(user))} password={_quoted(self.users[user])}"
        options["sasl.mechanism"] = mechanism
        options["sasl.jaas.config"] = f"{_module(mechanism)} required {login};"
        return options


def tls_context(folder: Path) -> ssl.SSLContext:
    """Return what a node of the cluster with these files shows and trusts."""
    context = ssl.create_default_context(cafile=folder / _AUTHORITY)
    context.load_cert_chain(_key_file(folder, _NODE))
    return context


def checked_users(users: Mapping[str, str]) -> dict[str, Secret]:
    """Return the users and the super user; refuse a name that cannot be written everywhere."""
    for name, password in users.items():
        if not _NAME.fullmatch(name) or name == _NODE:
            raise ConfigurationError(
                f"users has the name {name!r}; allowed are letters, digits, . _ and -, at most 64, "
                f"and not {_NODE}, which is the nodes' own"
            )
        if not password or not password.isprintable():
            raise ConfigurationError(
                f"users has no password for {name!r}, or one with characters that cannot be "
                "printed; write one"
            )
    # A password that is nobody's to know: `client_options` hands it out.
    given = {ADMIN: secrets.token_urlsafe(24)} | dict(users)
    return {name: Secret(password) for name, password in given.items()}


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, from its first moment."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


def _key_file(folder: Path, name: str) -> Path:
    return folder / f"{name}.key.pem"


def _module(mechanism: str) -> str:
    return f"{_MODULES}.{_LOGIN[mechanism]}"


def _quoted(word: Secret) -> str:
    """Return a value as a login module's text has it."""
    return '"' + word.reveal().replace("\\", "\\\\").replace('"', '\\"') + '"'


def _choose(what: str, found: str, allowed: list[str]) -> None:
    if found not in allowed:
        raise ConfigurationError(f"{what} is {found!r}; allowed are {', '.join(allowed)}")
