"""A sink of Kafka in task scope whose drivers are processes of their own."""

from pathlib import Path

from support.task_drivers import TaskSinkStage
from support.task_loop import Loop, expected

DRIVER = Path(__file__).parents[1] / "integration" / "kafka" / "task_loop_driver.py"


class KafkaLoop(Loop):
    """Its topic, and what a reader and the brokers say of it."""

    def __init__(self, broker, topic, folder, options):
        self.stage = TaskSinkStage(broker, topic, folder / "log", options)
        super().__init__(
            DRIVER,
            folder,
            prefix=self.stage.prefix,
            servers=broker.bootstrap_servers,
            topic=topic,
            options=options,
        )

    def check(self, batches, where):
        """A reader of committed rows sees each row once, and nothing is open."""
        assert self.stage.values() == expected(batches), where
        assert self.stage.lingering() == [], where
