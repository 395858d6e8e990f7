"""The offsets hash of a batch: given by a person, or computed from a checkpoint in a folder."""

import json
import re
from pathlib import Path

from twophase.commit.marker import offsets_hash
from twophase.errors import ConfigurationError

_HASH = re.compile(r"[0-9a-f]{32}")
_QUERY_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def hash_of_batch(number: int, owner: str, offsets: str | None, checkpoint: Path | None) -> str:
    """Return the hash by which batch `number` is known again, or refuse what cannot be one."""
    if (offsets is None) == (checkpoint is None):
        raise ConfigurationError(
            f"to skip batch {number} when it is asked for again, its source offsets must be known; "
            "give either --offsets HASH, as the error says it, or --checkpoint DIR"
        )
    if checkpoint is not None:
        return _from_checkpoint(checkpoint, number, owner)
    if offsets is None or not _HASH.fullmatch(offsets):
        raise ConfigurationError(
            f"--offsets is {offsets!r}; a hash has 32 digits of 0-9 and a-f, as in the error"
        )
    return offsets


def _from_checkpoint(checkpoint: Path, number: int, owner: str) -> str:
    planned = checkpoint / "offsets" / str(number)
    try:
        content = planned.read_bytes()
        query_id = json.loads((checkpoint / "metadata").read_text("utf-8"))["id"]
    except OSError as error:
        raise ConfigurationError(
            f"--checkpoint {checkpoint}: {error.filename} cannot be read ({error.strerror}); it "
            f"must be the local folder of a checkpoint that has batch {number}; give --offsets "
            "HASH where it is not local"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"--checkpoint {checkpoint}: its file metadata does not name a query; "
            "give --offsets HASH instead"
        ) from error
    # A sink may have an owner by name, which no checkpoint knows of.
    if query_id != owner and _QUERY_ID.fullmatch(owner):
        raise ConfigurationError(
            f"--checkpoint {checkpoint} belongs to query {query_id}, and --owner is {owner}; "
            "give the two of one query"
        )
    return offsets_hash(content)
