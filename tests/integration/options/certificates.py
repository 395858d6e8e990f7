"""Certificates as PEM files: an authority, a broker and a client."""

import socket
import ssl
import threading
from dataclasses import dataclass
from pathlib import Path

from twophase.embedded.certificates import Authority

KEY_PASSWORD = "key-password-7d1f"


@dataclass(frozen=True)
class Certificates:
    """Where the PEM files are; the client's key is encrypted, the broker's is not."""

    authority: Path
    broker: Path
    client_chain: Path
    client_key: Path
    client: Path
    stranger: Path


def make_certificates(folder: Path) -> Certificates:
    """Make one authority, a broker for 127.0.0.1 and a client; and a stranger's authority."""
    authority = Authority()
    broker = authority.issue("broker", ["127.0.0.1"])
    client = authority.issue("client", password=KEY_PASSWORD)

    def write(name: str, text: str) -> Path:
        (folder / name).write_text(text)
        return folder / name

    return Certificates(
        authority=write("authority.pem", authority.pem),
        broker=write("broker.pem", broker.pem),
        client_chain=write("client.crt", client.chain),
        client_key=write("client.key", client.key),
        client=write("client.pem", client.pem),
        stranger=write("stranger.pem", Authority("stranger").pem),
    )


def handshake(made: Certificates, client: ssl.SSLContext) -> str:
    """Return the client's name as a server sees it that demands a certificate."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(made.broker)
    server.load_verify_locations(made.authority)
    server.verify_mode = ssl.CERT_REQUIRED
    names: list[str] = []

    def serve(sock: socket.socket) -> None:
        with server.wrap_socket(sock, server_side=True) as tls:
            names.append(dict(pair[0] for pair in tls.getpeercert()["subject"])["commonName"])
            tls.sendall(b"x")

    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=serve, args=(theirs,))
    thread.start()
    with client.wrap_socket(ours, server_hostname="127.0.0.1") as tls:
        assert tls.recv(1) == b"x"
    thread.join(10)
    return names[0]
