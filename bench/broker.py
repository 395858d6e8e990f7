"""The broker that all figures are measured on."""

from twophase.embedded import EmbeddedKafka

# As Kafka's own start script has it: the embedded broker's quick start would slow it down later.
_JVM = ("-Xmx1g", "-Xms1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")


def broker() -> EmbeddedKafka:
    """Return one that is not started yet."""
    return EmbeddedKafka(jvm_options=_JVM)
