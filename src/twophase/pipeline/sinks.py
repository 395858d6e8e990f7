"""The sinks of a file: made by their own classes, which say what is wrong with their settings."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from inspect import signature
from typing import Any, Final

from twophase.errors import ConfigurationError
from twophase.guarantee import Guarantee
from twophase.observe import Hook
from twophase.pipeline.mistakes import Mistakes, Where, said_of

_OPTIONS: Final = "options"
_OWN_FUNCTION: Final = "whatever the function promises"


def kafka_sink(hooks: Iterable[Hook] = (), **settings: Any) -> Any:
    """Return a `KafkaSink`."""
    # Spark and Arrow take seconds to import, which no other command should pay.
    from twophase.spark.kafka_sink import KafkaSink  # noqa: PLC0415

    return KafkaSink(hooks=hooks, **settings)


def postgres_sink(hooks: Iterable[Hook] = (), **settings: Any) -> Any:
    """Return a `PostgresSink`."""
    from twophase.spark.postgres_sink import PostgresSink  # noqa: PLC0415

    return PostgresSink(hooks=hooks, **settings)


def python_sink(
    hooks: Iterable[Hook] = (),
    *,
    made_by: Any,
    arguments: Mapping[str, Any],
    sink_id: str,
    **settings: Any,
) -> Any:
    """Return the user's sink: a `TaskSink` around a store, or the function as it is."""
    from twophase.spark.task_sink import TaskSink  # noqa: PLC0415
    from twophase.two_phase import TwoPhaseCommitSink  # noqa: PLC0415

    made: Any
    if isinstance(made_by, TwoPhaseCommitSink):
        made = made_by
    elif callable(made_by):
        _check_call(made_by, arguments)
        made = made_by(**arguments)
    else:
        raise ConfigurationError(
            f"name is an object of {type(made_by).__name__}; allowed is a class, or a function that"
            " returns the sink"
        )
    if isinstance(made, TwoPhaseCommitSink):
        return TaskSink(made, sink_id=sink_id, hooks=hooks, **settings)
    if not callable(made):
        raise ConfigurationError(
            f"name returned an object of {type(made).__name__}; allowed is a TwoPhaseCommitSink, "
            "or a function of a DataFrame and a batch number"
        )
    if "decisions" in settings:
        raise ConfigurationError("decisions is given, and a function keeps no decision log")
    return made


def _check_call(made_by: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Say what is called with what, which Python does not say: a sink may stand there itself."""
    try:
        signature(made_by).bind(**arguments)
    except TypeError as error:
        raise TypeError(
            f"{error}; name is called with arguments and returns the sink, so a function of a "
            "DataFrame and a batch number must come out of another one"
        ) from None
    except ValueError:
        # A class of another language has no signature; its own error will do.
        return


def promise_of(make: Callable[..., Any], sink: Any, guarantee: Guarantee) -> str:
    """Return what a sink promises, as the plan tells it."""
    from twophase.spark.scope_sink import ScopeSink  # noqa: PLC0415

    if make is kafka_sink:
        return guarantee.value
    return Guarantee.EXACTLY_ONCE.value if isinstance(sink, ScopeSink) else _OWN_FUNCTION


def checked(
    make: Callable[..., Any],
    settings: Mapping[str, Any],
    where: Where,
    mistakes: Mistakes,
    *,
    required: Collection[str] = (),
    absent: Collection[str] = (),
    place: Callable[[str], Where],
) -> Any:
    """Return the sink; or None, with everything noted that its own class finds wrong.

    The class raises the first mistake; what it names is taken out, and it is asked again. That
    something is missing is no news of what was taken out, nor of `absent`.
    """
    left = {name: dict(value) if name == _OPTIONS else value for name, value in settings.items()}
    gone = {name.strip().lower() for name in absent}
    wrong = False
    for _ in range(1 + len(left) + len(left.get(_OPTIONS, {}))):
        try:
            with _quiet():
                sink = make(**left)
        except ConfigurationError as error:
            guilty = _guilty(error, left)
            named = str(error.ids.get("option") or "").strip("'").lower()
            if guilty is None and named in gone:
                return None
            wrong = True
            mistakes.add(_where(guilty, where, place), said_of(error))
            if guilty is None or guilty in required:
                return None
            gone.add(guilty.lower())
            if guilty in left:
                del left[guilty]
            else:
                del left[_OPTIONS][guilty]
        else:
            return None if wrong else sink
    return None


def _guilty(error: ConfigurationError, settings: Mapping[str, Any]) -> str | None:
    """Return the setting or option that an error is about, as the user wrote it."""
    # A name that is unknown comes in quotes.
    option = str(error.ids.get("option") or "").strip("'")
    for name in settings.get(_OPTIONS, {}):
        if name.strip().lower() == option.lower():
            return str(name)
    # Every message begins with the name of the thing, or has it as its option.
    first = option or error.message.split(" ", 1)[0].split("=", 1)[0]
    return first if first in settings and first != _OPTIONS else None


def _where(guilty: str | None, where: Where, place: Callable[[str], Where]) -> Where:
    if guilty is None:
        return where
    return place(guilty) if "." in guilty else (*where, guilty)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the warnings about options for the connection that is made to run."""
    log = logging.getLogger("twophase.options")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def maker(make: Callable[..., Any], settings: Mapping[str, Any]) -> Callable[..., Any]:
    """Return a function of hooks that makes the sink anew."""
    return partial(make, **settings)
