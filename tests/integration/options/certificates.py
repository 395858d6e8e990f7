"""Certificates made with the `openssl` command: an authority, a broker and a client."""

import shutil
import socket
import ssl
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

KEY_PASSWORD = "key-password-7d1f"
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


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
    """Make one authority, a broker for 127.0.0.1 and a client; skip without openssl."""
    if shutil.which("openssl") is None:
        pytest.skip("the openssl command is missing")
    authority = _self_signed(folder, "authority")
    stranger = _self_signed(folder, "stranger")
    broker_chain = _signed(folder, "broker")
    client_chain = _signed(folder, "client")
    broker = folder / "broker.pem"
    broker.write_text((folder / "broker.key").read_text() + broker_chain.read_text())
    client_key = folder / "client.encrypted.key"
    _openssl(
        folder,
        *("pkcs8", "-topk8", "-in", "client.key", "-out", client_key.name),
        *("-passout", f"pass:{KEY_PASSWORD}"),
    )
    client = folder / "client.pem"
    client.write_text(client_key.read_text() + client_chain.read_text())
    return Certificates(authority, broker, client_chain, client_key, client, stranger)


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


def _self_signed(folder: Path, name: str) -> Path:
    _openssl(
        folder,
        *("req", "-x509", *_KEY, "-days", "2"),
        *("-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem"),
    )
    return folder / f"{name}.pem"


def _signed(folder: Path, name: str) -> Path:
    (folder / "san.txt").write_text("subjectAltName=IP:127.0.0.1\n")
    _openssl(
        folder,
        *("req", *_KEY, "-subj", f"/CN={name}"),
        *("-keyout", f"{name}.key", "-out", f"{name}.csr"),
    )
    _openssl(
        folder,
        *("x509", "-req", "-in", f"{name}.csr", "-CA", "authority.pem"),
        *("-CAkey", "authority.key", "-CAcreateserial", "-days", "2"),
        *("-extfile", "san.txt", "-out", f"{name}.crt"),
    )
    return folder / f"{name}.crt"


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=60)
