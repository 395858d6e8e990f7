"""Secrets come in by reference only, and go out nowhere."""

import os
from types import SimpleNamespace

import pytest
from unit.pipeline.files import RIGHT, changed, load, mistakes

from twophase.pipeline.plan import plan_of
from twophase.spark.pipeline_query import first_line

CANARY = 'can"ary\\/@:secret'
JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required"
SASL = """  kafka.bootstrap.servers: broker:9092
  kafka.security.protocol: SASL_SSL
  kafka.sasl.mechanism: SCRAM-SHA-512
"""
POSTGRES = """sinks:
  - postgres:
      sink_id: table
      url: postgresql://etl:${env:CANARY}@db:5432/shop
      table: orders
"""
JAVA = (
    RIGHT
    + "spark: {{conf: {{spark.{}.extraJavaOptions: "
    + "'-Xmx1g \"-Djavax.net.ssl.trustStorePassword=hunter22\" -Da.b=c'}}}}\n"
)


class Frame:
    """What a plan asks of a DataFrame."""

    schema = SimpleNamespace(fields=())


def with_jaas(jaas):
    return changed(
        "  kafka.bootstrap.servers: broker:9092\n", f"{SASL}  kafka.sasl.jaas.config: {jaas}\n"
    )


@pytest.fixture(autouse=True)
def canary(monkeypatch):
    monkeypatch.setenv("CANARY", CANARY)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (with_jaas(f'\'{JAAS} username="u" password="hunter22";\''), 6, "sasl.jaas.config holds"),
        (
            changed("9092\n", "9092\n  kafka.ssl.key.password: hunter22\n"),
            4,
            "ssl.key.password holds",
        ),
        (
            changed("sinks:\n", POSTGRES.replace("${env:CANARY}", "hunter22")),
            15,
            "url holds a secret",
        ),
        (
            changed("sinks:\n", POSTGRES.replace("/shop", "/shop?sslpassword=hunter22")),
            15,
            "sslpassword in sinks[0].postgres.url holds a secret",
        ),
        (JAVA.format("driver"), 17, "trustStorePassword in spark.driver.extraJavaOptions holds a"),
        (JAVA.format("executor"), 17, "trustStorePassword in spark.executor.extraJavaOptions hol"),
        (RIGHT + "spark: {conf: {spark.x.password: hunter22}}\n", 17, "spark.x.password holds"),
        (RIGHT + "spark: {conf: {spark.x.y: '${env:CANARY}'}}\n", 17, "Spark shows this setting"),
        (changed("FROM source", "FROM source WHERE '${env:CANARY}' = 'x'"), 9, "write it out"),
        (with_jaas("${env:NOBODY}"), 6, "variable NOBODY is not set"),
        (changed("topic: orders\n", "topic: ${env:NOBODY}\n"), 6, "variable NOBODY is not set"),
        (changed("topic: orders\n", "topic: ${file:none}\n"), 6, "none cannot be read: No such"),
        (changed("topic: orders\n", "topic: ${vault:x}\n"), 6, "neither of ${env:NAME} or"),
    ],
)
def test_what_is_refused(tmp_path, text, line, said):
    """By name and place, and never by value."""
    found = mistakes(tmp_path, text)
    assert [each[0] for each in found] == [line], found
    assert said in found[0][2]
    assert "hunter22" not in str(found)


def test_a_secret_argument_of_an_own_sink(tmp_path):
    """Names that say so count as secrets there too."""
    own = "sinks:\n  - python: {sink_id: a, name: 'x:y', arguments: {api_key: hunter22}}\n"
    found = mistakes(tmp_path, changed("sinks:\n", own))
    assert any("arguments.api_key holds a secret" in each[2] for each in found)


def test_references_reach_their_places(tmp_path):
    """Whatever is in a password, it arrives as it is: in JAAS, in an address, from a file."""
    jaas = f'\'{JAAS} username="u" password="${{env:CANARY}}";\''
    (tmp_path / "store.pem").write_text("-----BEGIN X-----\nabcdefgh\n-----END X-----\n")
    more = (
        "  kafka.ssl.truststore.type: PEM\n  kafka.ssl.truststore.certificates: ${file:store.pem}\n"
    )
    text = with_jaas(jaas).replace("SASL_SSL\n", f"SASL_SSL\n{more}")
    found = load(tmp_path, text.replace("sinks:\n", POSTGRES))
    kafka = found.sinks[1].make([])
    assert kafka._options.security.password.reveal() == CANARY
    assert kafka._options.security.truststore_certificates.reveal().endswith("-----END X-----")
    assert 'password="can\\"ary\\\\/@:secret"' in found.source.options["kafka.sasl.jaas.config"]
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415

    url = conninfo_to_dict(found.sinks[0].make([])._url.reveal())
    assert (url["password"], url["host"], url["user"]) == (CANARY, "db", "etl")


def test_nothing_shows_them(tmp_path):
    """Not the plan, not a repr, not an error text that holds one by accident."""
    text = changed("sinks:\n", POSTGRES) + "spark: {conf: {spark.x.secret: '${env:CANARY}'}}\n"
    text = text.replace("topic: orders-clean", "topic: t-${env:CANARY}")
    found = load(tmp_path, text)
    plan = plan_of(found, Frame, "local[1]", available_now=False)
    for shown in (str(plan.data), "\n".join(plan.lines), repr(found), repr(found.sinks)):
        assert "ary" not in shown.replace("summary", "")
    assert plan.data["conf"] == {"spark.x.secret": "***"}
    assert plan.data["sinks"][1]["topic"] == "t-***"
    assert found.references.hide(f"could not log in with {CANARY}") == "could not log in with ***"


@pytest.mark.parametrize(
    "module", ["com.sun.security.auth.module.JndiLoginModule", "evil.ScramLoginModule"]
)
def test_the_java_client_of_the_source_loads_no_other_login_module(module, tmp_path):
    """The sinks do not look at its package; Spark's source would load it."""
    jaas = f'\'{module} required username="u" password="${{env:CANARY}}";\''
    said = mistakes(tmp_path, with_jaas(jaas))
    assert any("sasl.jaas.config" in text for *_, text in said), said
    assert CANARY not in str(said)


def test_an_environment_variable_that_is_no_text(tmp_path, monkeypatch):
    """It is refused by name; Kafka and Java would fail on it later, and show it."""
    monkeypatch.setitem(os.environb, b"CANARY", b"hunter\xff22")
    found = mistakes(tmp_path, changed("topic: orders\n", "topic: ${env:CANARY}\n"))
    assert [each[:2] for each in found] == [(6, 5)]
    assert "variable CANARY is not text in UTF-8" in found[0][2]
    assert "22" not in found[0][2]


def test_a_secret_of_jaas_by_another_name(tmp_path):
    """Whatever else is wrong with it: whoever reads the file reads it too."""
    jaas = f'\'{JAAS} username="u" password="${{env:CANARY}}" clientSecret="hunter22";\''
    said = [each[2] for each in mistakes(tmp_path, with_jaas(jaas))]
    assert any("clientSecret in kafka.sasl.jaas.config holds a secret" in each for each in said)
    assert "hunter22" not in str(said)


def test_what_only_sounds_like_a_secret(tmp_path):
    """A name may speak of tokens and passwords and have none."""
    java = "-Doauth.token.endpoint.uri=https://x -Djavax.net.ssl.trustStore=/a"
    text = f"{RIGHT}spark: {{conf: {{spark.driver.extraJavaOptions: {java}}}}}\n"
    assert load(tmp_path, text).conf == {"spark.driver.extraJavaOptions": java}
    jaas = f'\'{JAAS} username="u" password="${{env:CANARY}}" tokenauth="true";\''
    (found,) = mistakes(tmp_path, with_jaas(jaas))
    assert "delegation tokens (tokenauth) are not supported" in found[2]


LONG = "".join(f"{number:03}xyz" for number in range(200))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("name: orders", "name: orders\ntrigger: '${env:LONG}'"),
        ("sink_id: orders-clean", "sink_id: '${env:LONG}'"),
        ("9092\n", "9092\n  kafka.security.protocol: '${env:LONG}'\n"),
        ("9092\n", "9092\n  kafka.security.protocol: 'http://a/${env:LONG}'\n"),
        ("      topic: orders-clean", "      options: {kafka.acks: '${env:LONG}'}\n      topic: o"),
    ],
)
@pytest.mark.parametrize("secret", [LONG, LONG[:122], "x'y\"z\\" + LONG, "x'y\\z"])
def test_a_secret_in_a_wrong_place(tmp_path, monkeypatch, before, after, secret):
    """A sentence that quotes a value may cut it, and puts backslashes into it."""
    monkeypatch.setenv("LONG", secret)
    found = mistakes(tmp_path, changed(before, after))
    assert found
    said = str([each[2] for each in found])
    assert not any(secret[at : at + 4] in said for at in range(0, 80, 4) if secret[at : at + 4])
    assert "y\\" not in said


def test_a_secret_in_a_long_error(tmp_path, monkeypatch):
    """Its text is cut before anybody hides something in it, at whatever place that is."""
    monkeypatch.setenv("CANARY", LONG)
    hide = load(tmp_path, changed("topic: orders\n", "topic: '${env:CANARY}'\n")).references.hide
    for ahead in (0, 100, 590, 595):
        said = hide(first_line(ValueError("-" * ahead + LONG)))
        assert said == f"{'-' * ahead}***…"
    assert hide(first_line(ValueError(LONG[:7]))) == LONG[:7]
