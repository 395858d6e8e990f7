"""What is wrong with a pipeline's file: told all at once, with line and column."""

import pickle

import pytest
from unit.pipeline.files import RIGHT, changed, load, mistakes

from twophase.errors import ConfigurationError
from twophase.pipeline.mistakes import PipelineWrong


def test_a_right_file(tmp_path):
    """Defaults are those of the table; a relative path is one from the file's folder."""
    found = load(tmp_path)
    assert found.source.options["kafka.isolation.level"] == "read_committed"
    assert found.source.options["startingOffsets"] == "earliest"
    assert found.source.options["kafka.bootstrap.servers"] == "broker:9092"
    assert found.checkpoint == str(tmp_path / "state")
    assert (found.master, found.restarts, found.guarantee) == ("local[*]", 3, "exactly-once")
    assert (found.last_view, found.sinks[0].promises) == ("clean", "exactly-once")
    assert repr(found.sinks[0].make([])) == "<KafkaSink orders-clean to orders-clean>"
    assert load(tmp_path, changed("state", "s3a://b/c")).checkpoint == "s3a://b/c"


@pytest.mark.parametrize(
    ("before", "after", "line", "column", "said"),
    [
        ("name:", "nam:", 1, 1, "'nam' is no key; did you mean name? allowed are name, kafka"),
        ("checkpoint: state\n", "", 1, 1, "checkpoint is missing (a folder that stays)"),
        ("checkpoint: state", "checkpoint:", 16, 1, "checkpoint is empty"),
        ("    topic: orders\nsteps", "    topics: orders\nsteps", 6, 5, "did you mean topic?"),
        ("    topic: orders\nsteps", "    view: a\nsteps", 5, 3, "write topic or topic_pattern"),
        (
            "    topic: orders\nsteps",
            "    topic: [a]\nsteps",
            6,
            5,
            "topic is a list; write a text",
        ),
        ("  kafka:\n    topic: orders\n", "  kafke: {}\n", 5, 3, "did you mean kafka?"),
        ("source:\n", "source:\n  rate: {}\n", 6, 3, "kafka is beside rate; keep one"),
        ("view: clean", "view: source", 8, 5, "view source is there already"),
        ("view: clean", "view: a-b", 8, 5, "view is 'a-b'; write a name of letters"),
        ("view: clean", "python: nowhere:f", 8, 5, "sql and python are both here"),
        ("sink_id: orders-clean", "sink_id: a/b", 14, 7, "sink_id is 'a/b'; allowed are 1 to 100"),
        ("      topic: orders-clean\n", "", 13, 5, "neither topic nor marker_topic is given"),
        ("      topic: orders-clean", "      pool_size: 2\n      topic: o", 15, 7, "task"),
        (
            "      topic: orders-clean",
            "      on_reject: dead-letter\n      topic: o",
            15,
            7,
            "no dead_letter_topic is given",
        ),
        ("broker:9092", "nowhere", 3, 3, "kafka.bootstrap.servers='nowhere' is not allowed"),
        ("checkpoint:", "trigger: 10 parsecs\ncheckpoint:", 16, 1, "available-now"),
        ("checkpoint:", "restarts: many\ncheckpoint:", 16, 1, "'many'; write an integer, 0 to"),
        ("checkpoint:", "guarantee: twice\ncheckpoint:", 16, 1, "write one of exactly-once"),
        ("name: orders", "name: &a orders", 1, 7, "&a is an anchor"),
        ("name: orders", "name: !!python/object:os.system x", 1, 7, "there is a tag"),
        ("name: orders", "name: orders\nname: two", 2, 1, "'name' is here twice, first in line 1"),
        ("name: orders", "name: [", 3, 26, "this is not YAML"),
        ("name: orders", 'name: "\\ud800"', 1, 7, "half of a character"),
        ("  - view: clean", '  - view: clean\n    "a\\udfff": b', 9, 5, "half of a character"),
        ("name: orders", "<<: {}\nname: orders", 1, 1, "<< takes the keys of another section"),
        ("9092\n", "9092\n  Kafka.Bootstrap.Servers: b:1\n", 4, 3, "twice, in different case"),
        (
            "    topic: orders\nsteps",
            "    topic: a\n    options: {minPartitions: 1, minpartitions: 2}\nsteps",
            7,
            33,
            "'minpartitions' is given twice, in different case; keep one",
        ),
    ],
)
def test_one_mistake(tmp_path, before, after, line, column, said):
    """It is told where its key is, with what is allowed or what was meant."""
    found = mistakes(tmp_path, changed(before, after))
    assert [(each[0], each[1]) for each in found if said in each[2]] == [(line, column)], found


def test_all_mistakes_at_once(tmp_path):
    """Those of the options too, which the sink's own code would raise one by one."""
    options = "options: {kafka.aks: all, kafka.acks: 7, kafka.batch.size: much, kafka.foo: 1}"
    text = changed("      topic: orders-clean", f"      topic: orders-clean\n      {options}")
    text = text.replace("topic: orders\n", "topic: orders\n    max_rows_per_batch: 0\n")
    found = mistakes(tmp_path, text.replace("name:", "nmae:"))
    assert [each[:2] for each in found] == [
        (1, 1),
        (7, 5),
        (17, 17),
        (17, 33),
        (17, 48),
        (17, 72),
    ]
    said = [each[2] for each in found[2:]]
    assert "did you mean kafka.acks?" in said[0]
    assert "kafka.acks='7' is not allowed; write one of all" in said[1]
    assert "kafka.batch.size='much' is not allowed; write a plain integer of bytes" in said[2]
    assert "'kafka.foo' is not an option of Kafka's producer" in said[3]


@pytest.mark.parametrize(
    ("name", "key"),
    [("spark.master", "master beside conf"), ("spark.app.name", "name at the top of the file")],
)
def test_settings_of_spark_that_have_keys(tmp_path, name, key):
    """One way for each: here they would go before --master and a dry run's own."""
    text = f"{RIGHT}spark:\n  conf:\n    {name}: a\n"
    said = f"{name} has a key of its own: write {key}"
    assert mistakes(tmp_path, text) == [(19, 5, said)]


def test_a_key_that_comes_twice_hides_nothing(tmp_path):
    """The other mistakes of the file are told with it."""
    text = changed("name: orders", "name: orders\nname: two").replace("      topic:", "      topc:")
    assert [each[0] for each in mistakes(tmp_path, text)] == [2, 14, 16]


@pytest.mark.parametrize("text", ['{"a": {"0": 5, "11": -2}}', '{"a": {"0": -1}, "b": {"0": 7}}'])
def test_starting_offsets(tmp_path, text):
    """By topic and partition, as Spark has it."""
    given = changed("topic: orders\n", f"topic: a\n    starting_offsets: '{text}'\n")
    assert load(tmp_path, given).source.options["startingOffsets"] == text


@pytest.mark.parametrize(
    "text",
    [
        *("{}", "NaN", "[]", "5", '{"nowhere": 5}', '{"a": {}}', '{"a": {"0": "5"}}'),
        *('{"a": {"x": 5}}', '{"a": {"0": -3}}', '{"a": {"0": NaN}}', '{"a": {"0": true}}'),
        *('{"": {"0": 1}}', '{"a": {"0": 1.5}}', '{"a": {"0": 99999999999999999999}}'),
        '{"a":' * 5_000,
        "[" * 5_000,
    ],
)
def test_starting_offsets_that_are_none(tmp_path, text):
    """Spark would take some of them for something else, and fail on the others when it starts."""
    given = changed("topic: orders\n", f"topic: a\n    starting_offsets: '{text}'\n")
    (found,) = mistakes(tmp_path, given)
    assert found[:2] == (7, 5)
    assert 'write earliest, latest, or JSON such as {"topic": {"0": 23, "1": -2}}' in found[2]


@pytest.mark.parametrize("key", ['""', '["", b]', '[a, " "]'])
def test_an_empty_name_in_a_key(tmp_path, key):
    """Rows would replace others by fewer columns than the file shows, or none."""
    sink = f"  - postgres: {{sink_id: a, url: 'host=b', table: c, key: {key}}}\n"
    (found,) = mistakes(tmp_path, changed("sinks:\n", f"sinks:\n{sink}"))
    assert found[2].startswith("sinks[0].postgres.key holds an empty text")


def test_a_function_that_is_the_sink_itself(tmp_path):
    """What is called is told, and with what."""
    (tmp_path / "own_sink_3.py").write_text("def write(frame, batch): pass\n")
    sink = "  - python: {sink_id: own, name: 'own_sink_3:write'}\n"
    (found,) = mistakes(tmp_path, changed("sinks:\n", f"sinks:\n{sink}"))
    assert "TypeError: missing a required argument: 'frame'; name is called with" in found[2]


@pytest.mark.parametrize(
    ("sql", "place"),
    [
        ("sql: SELECT a FROM", (9, 10)),
        ("sql: 'SELECT a FROM'", (9, 11)),
        ("sql: |\n      SELECT a FROM", (10, 7)),
        ("sql: >-\n      SELECT a\n      FROM", None),
        ("sql: >-\n      SELECT a", None),
        ("sql: SELECT a\n      FROM", None),
        ("sql: 'SELECT a\n      FROM'", None),
        ("sql: 'SELECT ''a'' FROM'", None),
        ('sql: "SELECT \\"a\\" FROM"', None),
    ],
)
def test_where_a_text_begins(tmp_path, sql, place):
    """Only where lines and columns of the text are those of the file."""
    text = changed("sql: |\n      SELECT key, value\n      FROM source", sql)
    begins = load(tmp_path, text).raw["steps", 0, "sql"].begins
    assert (begins and (begins.line, begins.column)) == place


def test_options_of_the_source(tmp_path):
    """Known ones only: what would make Java's client load a class or run a program is refused."""
    options = """    options:
      subscribe: other
      failOnDataLos: true
      minPartitions: few
      kafka.interceptor.classes: evil.Class
      kafka.sasl.client.callback.handler.class: evil.Class
      kafka.security.protocol: TLS
"""
    text = changed("    topic: orders\nsteps", f"    topic: orders\n{options}steps")
    found = mistakes(tmp_path, text)
    assert [each[0] for each in found] == [8, 9, 10, 11, 12, 13]
    assert "write topic beside options" in found[0][2]
    assert "did you mean failOnDataLoss?" in found[1][2]
    assert "minPartitions='few' is not allowed; write an integer, 1 or more" in found[2][2]
    assert all("is no option here" in each[2] for each in found[3:5])
    assert "write one of PLAINTEXT" in found[5][2]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("- a", "the file is a list; write a section"),
        ("a: *b", "*b is an alias"),
        ("[" * 2000, "more than 20 levels"),
        ("a: b\n---\nc: d", "this is not YAML"),
        ("a: \x07", "a character that YAML does not allow"),
        ("? [a]\n: b", "a key is a list or a section"),
        ("sinks: []", "sinks is empty; write a list of 1 or more"),
    ],
)
def test_files_that_are_no_pipelines(tmp_path, text, said):
    """One sentence, and nothing is built from them."""
    assert any(said in each[2] for each in mistakes(tmp_path, text))


def test_an_alias_bomb_is_not_expanded(tmp_path):
    """Small files stay small."""
    bomb = "a: &a [x, x]\n" + "".join(
        f"{chr(98 + at)}: &{chr(98 + at)} [{', '.join([f'*{chr(97 + at)}'] * 9)}]\n"
        for at in range(20)
    )
    assert any("is an alias" in each[2] for each in mistakes(tmp_path, bomb))


def test_files_that_cannot_be_read(tmp_path):
    """Not there, too large, not text: one sentence that names the file."""
    path = tmp_path / "p.yaml"
    from twophase.pipeline.load import load_pipeline  # noqa: PLC0415

    with pytest.raises(ConfigurationError, match=r"p\.yaml cannot be read: No such file"):
        load_pipeline(path)
    path.write_bytes(b"a: \xff")
    with pytest.raises(ConfigurationError, match="not text in UTF-8"):
        load_pipeline(path)
    path.write_bytes(b"#" * 1_000_001)
    with pytest.raises(ConfigurationError, match="more than 1000000 bytes"):
        load_pipeline(path)


def test_what_an_error_says(tmp_path):
    """A line for each mistake: file, line, column, sentence."""
    path = tmp_path / "p.yaml"
    with pytest.raises(PipelineWrong) as raised:
        load(tmp_path, changed("name:", "nam:").replace("topic: orders\n", "topic:\n", 1))
    first, second = str(raised.value).splitlines()
    assert first.startswith(f"{path}:1:1: 'nam' is no key")
    assert second.startswith(f"{path}:6:5: source.kafka.topic is empty")


def test_more_mistakes_than_are_shown(tmp_path):
    """The first hundred, and how many there are beside them; one hundred are all."""
    for count, more in ((100, 0), (101, 1), (130, 30)):
        keys = "".join(f"wrong_{number}: x\n" for number in range(count))
        with pytest.raises(PipelineWrong) as raised:
            load(tmp_path, RIGHT + keys)
        error = pickle.loads(pickle.dumps(raised.value))
        assert (len(error.mistakes), error.more) == (100, more)
        last = str(error).splitlines()[-1]
        shown = last == f"{tmp_path / 'p.yaml'}: and {more} more mistakes, which are not shown"
        assert shown == bool(more)


def test_words_are_what_was_written(tmp_path):
    """No word of YAML 1.1 becomes a boolean, a number loses no zero."""
    found = load(
        tmp_path, changed("name: orders", "name: no").replace("topic: orders\n", "topic: 010\n")
    )
    assert (found.name, found.source.options["subscribe"]) == ("no", "010")


def test_own_sinks_and_steps(tmp_path):
    """Code beside the file is found; what a class says no to is told with its place."""
    (tmp_path / "own_code_1.py").write_text(
        "def step(frame):\n    return frame\n"
        "def sink(batch=1):\n    def write(frame, number): pass\n    return write\n"
        "thing = 5\n"
    )
    steps = changed(
        "    sql: |\n      SELECT key, value\n      FROM source\n", "    python: own_code_1:step\n"
    )
    own = "sinks:\n  - python: {sink_id: own, name: 'own_code_1:sink', arguments: {batch: 2}}\n"
    found = load(tmp_path, steps.replace("sinks:\n", own))
    assert found.steps[0].function.__name__ == "step"
    assert found.sinks[0].promises == "whatever the function promises"
    assert found.modules == (tmp_path / "own_code_1.py",)
    wrong = steps.replace("own_code_1:step", "own_code_1:stop")
    assert "has no stop; did you mean step?" in mistakes(tmp_path, wrong)[0][2]
    wrong = steps.replace("own_code_1:step", "own_code_1:thing")
    assert "is an object of int" in mistakes(tmp_path, wrong)[0][2]
    wrong = steps.replace("sinks:\n", own.replace("batch: 2", "bach: 2"))
    assert "TypeError" in mistakes(tmp_path, wrong)[0][2]
    wrong = steps.replace("own_code_1", "own_code_2")
    assert "own_code_2 cannot be imported (ModuleNotFoundError" in mistakes(tmp_path, wrong)[0][2]


def test_no_servers(tmp_path):
    """Whoever needs them says so, source and sink."""
    found = mistakes(tmp_path, changed("  kafka.bootstrap.servers: broker:9092", "  {}"))
    assert [each[:2] for each in found] == [(5, 3), (13, 5)]
    assert all("kafka.bootstrap.servers is missing" in each[2] for each in found)


def test_two_sinks_with_one_id(tmp_path):
    """Each would take the other's batches for its own."""
    one = RIGHT[RIGHT.index("  - kafka:") : RIGHT.index("checkpoint")]
    found = mistakes(tmp_path, RIGHT.replace(one, one + one))
    assert [each[:2] for each in found] == [(17, 7)]
    assert "sink_id orders-clean is that of sinks[0]" in found[0][2]
