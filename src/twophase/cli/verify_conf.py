"""Spark's settings on the command line of `twophase verify`: read, or refused by name."""

from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

from twophase.errors import ConfigurationError
from twophase.options import shown_key

_OTHERWISE: Final[Mapping[str, str]] = {
    "spark.master": "write --master URL",
    "spark.sql.streaming.minbatchestoretain": "leave it out: the plans of all batches are needed "
    "to tell which rows belong together",
}
_MEMORY: Final = "spark.executor.memory"
_WHERE_INSTEAD: Final = (
    "and everybody on this machine reads command lines; write it into the spark-defaults.conf of a "
    "folder that SPARK_CONF_DIR names"
)


def read_conf(given: Sequence[str], master: str) -> dict[str, str]:
    """Return the settings by name, or refuse the first that cannot be given here."""
    # The parser of YAML and the tables of options behind it take a moment to import.
    from twophase.pipeline.filling import secret_properties  # noqa: PLC0415
    from twophase.pipeline.references import names_secret  # noqa: PLC0415

    conf: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name.startswith("spark."):
            _refuse(f"--conf {shown_key(name)} is no setting of Spark; write spark.NAME=VALUE")
        if instead := _OTHERWISE.get(name.lower()):
            _refuse(f"--conf {name} cannot be given: {instead}")
        if name.lower() == _MEMORY and master.startswith("local-cluster["):
            _refuse(f"--conf {name} cannot be given with --master {master}, which has it in MB")
        if names_secret(name) or any(secret_properties(name, value)):
            _refuse(f"--conf {name} holds a secret, {_WHERE_INSTEAD}")
        conf[name] = value.strip()
    return conf


def _refuse(said: str) -> NoReturn:
    raise ConfigurationError(said)
