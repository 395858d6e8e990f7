"""The settings of a pipeline's session."""

import re

from twophase.spark.pipeline_session import _DEFAULTS, _hiding


def test_what_the_user_hides_comes_on_top():
    """A regular expression of the user's own does not uncover what a pipeline may refer to."""
    found = _hiding({"spark.redaction.regex": "colou?r", "spark.sql.redaction.options.regex": " "})
    hidden = re.compile(found["spark.redaction.regex"])
    for name in ("Colour", "kafka.sasl.jaas.config", "kafka.ssl.keystore.key", "x.password"):
        assert hidden.search(name), name
    assert not hidden.search("spark.sql.shuffle.partitions")
    options = "spark.sql.redaction.options.regex"
    assert found[options] == _DEFAULTS[options]
