"""`twophase run` on a real terminal: the line that moves, and the end by its keys."""

import re
import time

import pytest
from support.pipelines import COMMAND, fill, kafka_to_kafka, slowed
from support.readers import values
from support.terminal import CTRL_C, OnTerminal

STATUS = re.compile(
    r"batch (\d+) done, [\d,]+ rows/s, [\d,]+ rows, lag [\d,]+, "
    r"transaction open \d+\.\d of \d+ s, send"
)


@pytest.fixture
def on_terminal():
    begun = []

    def begin(*arguments, **more):
        begun.append(OnTerminal([*COMMAND, *map(str, arguments)], **more))
        return begun[-1]

    yield begin
    for each in begun:
        each.close()


@pytest.fixture
def pipeline(kafka, make_topic, tmp_path):
    """A file whose batches of ten rows take a second each, and its topic."""
    servers, source, target = kafka.bootstrap_servers, make_topic(kafka), make_topic(kafka)
    fill(servers, source, range(1_000))
    path = kafka_to_kafka(tmp_path, servers, source, target, rows_per_batch=10)
    return slowed(path, 1), target


def status(screen):
    """Return the line that moves, as it stands now."""
    return next((found for line in screen.lines if (found := STATUS.fullmatch(line))), None)


def test_the_line_that_moves_and_ctrl_c(kafka, pipeline, on_terminal):
    """Rate, batch, phase, lag and transaction; Ctrl-C says where it stopped; nothing is left."""
    path, target = pipeline
    terminal = on_terminal(path)
    screen = terminal.screen
    seen = set()

    def moved():
        if found := status(screen):
            assert not screen.cursor_is_shown
            seen.add(int(found[1]))
        return len(seen) >= 2

    terminal.until(moved)
    terminal.press(CTRL_C)
    assert terminal.end() == 0
    assert screen.cursor_is_shown
    assert screen.at_the_beginning_of_a_line
    assert terminal.is_as_before()
    said = [line for line in screen.lines if line]
    assert status(screen) is None, said
    assert said[0].endswith(" runs: sinks " + said[0].rpartition(" ")[2])
    asked = re.fullmatch(
        r"stopping: (batch (\d+) ends|no batch is under way); "
        r"once more \(Ctrl-C, SIGTERM\) ends it at once",
        said[-2],
    )
    assert asked, said
    ended = re.match(r"stopped as asked: the last batch is (\d+), (\d+) rows written; ", said[-1])
    assert ended, said
    batch, rows = int(ended[1]), int(ended[2])
    assert asked[2] is None or int(asked[2]) == batch
    assert rows == 10 * (batch + 1) == len(values(kafka.bootstrap_servers, target))
    assert f"up to {{'{said[-1].partition('[Subscribe[')[2].partition(']')[0]}': " in said[-1]
    assert said[-1].endswith(f"'0': {rows}}}}}")


@pytest.mark.long
def test_ctrl_c_twice(kafka, pipeline, on_terminal):
    """The second one ends at once, with its own exit code; the terminal is left as it was."""
    path, target = pipeline
    terminal = on_terminal(slowed(path, 8, first=20))
    screen = terminal.screen
    terminal.until(lambda: status(screen))
    terminal.press(CTRL_C)
    terminal.until(lambda: any(line.startswith("stopping: ") for line in screen.lines))
    began_s = time.monotonic()
    terminal.press(CTRL_C)
    assert terminal.end() == 130
    assert time.monotonic() - began_s < 5.0
    assert screen.cursor_is_shown
    assert screen.at_the_beginning_of_a_line
    assert terminal.is_as_before()
    assert status(screen) is None
    last = [line for line in screen.lines if line][-1]
    assert last == "ended at once: batch 0 was the last finished; the next start goes on there"
    assert len(values(kafka.bootstrap_servers, target)) == 10


@pytest.mark.long
def test_only_stderr_is_a_terminal(pipeline, on_terminal, tmp_path):
    """Lines go to the file that stdout is, as the shell was told; the line moves all the same."""
    path, _ = pipeline
    with (tmp_path / "out").open("w") as out:
        terminal = on_terminal(path, stdout=out)
        terminal.until(lambda: status(terminal.screen))
        terminal.press(CTRL_C)
        assert terminal.end() == 0
    lines = (tmp_path / "out").read_text().splitlines()
    assert lines[0].startswith("p runs: sinks run-")
    assert any(re.search(r": batch \d+, \d+ rows", line) for line in lines), lines
    assert [line.split(":")[0] for line in lines[-2:]] == ["stopping", "stopped as asked"]
    assert not any("stopp" in line for line in terminal.screen.lines)
    assert terminal.screen.cursor_is_shown
    assert terminal.screen.at_the_beginning_of_a_line
