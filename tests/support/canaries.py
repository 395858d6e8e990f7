"""Secrets that are planted, and the search for them in all that was written."""

import base64
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4


def canary(name):
    """Return a secret that is found again."""
    return f"canary-{name}-{uuid4().hex}"


def forms(secret):
    """Return how a secret may look in a file: as it is, escaped, and in base64 at any offset."""
    found = {secret, quote(secret), secret.encode().hex()}
    for shift in range(3):
        coded = base64.b64encode(b"\0" * shift + secret.encode()).decode()
        found.add(coded[4:-4] if shift else coded[:-4])
    return [form.encode() for form in found if len(form) > 15]


def found_in(folder, secrets):
    """Return where each of the secrets is found, in any form, in any file below a folder."""
    hits = []
    for path in sorted(Path(folder).rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            hits += [
                (name, str(path.relative_to(folder)))
                for name, secret in secrets.items()
                if any(form in content for form in forms(secret))
            ]
    return hits
