"""`twophase run` on a real terminal: the line that moves, and the end by its keys."""

import re
import time

import pytest
from support.pipelines import COMMAND, QUICK, fill, kafka_to_kafka, slowed
from support.readers import values
from support.terminal import CTRL_C, OnTerminal

from twophase.verify.proxy import ApiKey, KafkaProxy

STATUS = re.compile(
    r"(no batch yet|batch (?P<batch>\d+) done), (?P<rate>[\d,]+) rows/s, [\d,]+ rows"
    r"(, lag (?P<lag>[\d,]+))?(, transaction open (?P<age>\d+\.\d) of \d+ s)?"
    r"(, (?P<restarts>\d+) restarts?)?, (?P<phase>[a-zA-Z ]+)"
)
FAILING_ONCE = """\
failed = []


def made():
    def sink(frame, batch):
        if batch == 1 and not failed:
            failed.append(batch)
            raise OSError("not now")
        frame.collect()

    return sink
"""


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
    """A file with batches of ten rows, and its topic."""
    servers, source, target = kafka.bootstrap_servers, make_topic(kafka), make_topic(kafka)
    fill(servers, source, range(5_000))
    return kafka_to_kafka(tmp_path, servers, source, target, rows_per_batch=10), target


def status(screen):
    """Return the parts of the line that moves, as it stands now."""
    found = [STATUS.fullmatch(line) for line in screen.lines]
    return next((each for each in found if each), None)


def under_way(screen):
    """Whether a batch is at work after another one."""
    return (found := status(screen)) and found["batch"] and found["phase"] == "encode"


@pytest.mark.long
def test_the_line_that_moves_and_ctrl_c(kafka, pipeline, on_terminal):
    """Rate, batch, phase, lag and transaction; Ctrl-C says where it stopped; nothing is left."""
    path, target = pipeline
    seen = {"batch": set(), "rate": set(), "lag": set(), "age": set(), "phase": set()}
    with KafkaProxy(kafka.proxied) as proxy:
        # The line is made anew five times a second: no transaction passes unseen.
        proxy.on(ApiKey.PRODUCE).delay(1.0, times=None)
        servers = proxy.bootstrap_servers
        path.write_text(path.read_text().replace(kafka.bootstrap_servers, servers))
        terminal = on_terminal(path)
        screen = terminal.screen

        def moved():
            if found := status(screen):
                assert not screen.cursor_is_shown
                for part, known in seen.items():
                    known.update({found[part]} - {None})
            return all(len(seen[part]) > 1 for part in ("batch", "lag", "phase", "age")) and any(
                int(rate.replace(",", "")) > 0 for rate in seen["rate"]
            )

        terminal.until(moved, 120)
        terminal.press(CTRL_C)
        assert terminal.end() == 0
    # Nothing but the sending was slow, and a transaction is open for no longer.
    assert 0.5 < max(map(float, seen["age"])) < 10.0
    assert screen.cursor_is_shown
    assert screen.at_the_beginning_of_a_line
    assert terminal.is_as_before()
    said = [line for line in screen.lines if line]
    assert status(screen) is None, said
    assert re.fullmatch(r"p runs: sinks run-\w+", said[0])
    asked = re.fullmatch(
        r"stopping: (batch (\d+) ends|no batch is under way); "
        r"once more \(Ctrl-C, SIGTERM\) ends it at once",
        next(line for line in said if line.startswith("stopping")),
    )
    assert asked, said
    # A terminal breaks a line that is longer than it is wide.
    last = " ".join(said[said.index(next(line for line in said if line.startswith("stopped"))) :])
    ended = re.match(r"stopped as asked: the last batch is (\d+), (\d+) rows written; ", last)
    assert ended, said
    batch, rows = int(ended[1]), int(ended[2])
    assert asked[2] is None or int(asked[2]) == batch
    assert rows == 10 * (batch + 1) == len(values(kafka.bootstrap_servers, target))
    assert f"up to {{'{last.partition('[Subscribe[')[2].partition(']')[0]}': " in last
    assert last.endswith(f"'0': {rows}}}}}")


@pytest.mark.long
def test_a_restart_is_on_the_line(tmp_path, on_terminal):
    """The failure stands above it as a line of its own; the count stays on it."""
    (tmp_path / "failing_once.py").write_text(FAILING_ONCE)
    path = tmp_path / "p.yaml"
    path.write_text(
        "source: {rate: {rows_per_second: 10}}\ncheckpoint: checkpoint\n"
        f"sinks: [python: {{sink_id: own, name: 'failing_once:made'}}]\n{QUICK}"
    )
    terminal = on_terminal(path)
    screen, counts = terminal.screen, set()

    def gone_on():
        found = status(screen)
        if found:
            counts.add(found["restarts"])
        return found and found["restarts"] and int(found["batch"] or 0) > 1

    terminal.until(gone_on, 120)
    terminal.press(CTRL_C)
    assert terminal.end() == 0
    assert counts == {None, "1"}
    said = "\n".join(screen.lines)
    assert re.search(r"the query failed: .*not now.*; it is started again in 1 s \(1 of 3\)", said)
    assert "p runs again (restart 1): sinks own" in said


@pytest.mark.long
def test_ctrl_c_twice(kafka, pipeline, on_terminal):
    """The second one ends at once, with its own exit code; the terminal is left as it was."""
    path, target = pipeline
    terminal = on_terminal(slowed(path, 8, first=20))
    screen = terminal.screen
    terminal.until(lambda: under_way(screen))
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
    lines = "\n".join(screen.lines)
    number = int(re.search(r"^stopping: batch (\d+) ends", lines, re.MULTILINE)[1])
    assert lines.rstrip().endswith(
        f"ended at once: batch {number - 1} was the last finished; the next start goes on there"
    )
    assert len(values(kafka.bootstrap_servers, target)) == 10 * number


@pytest.mark.long
def test_only_stderr_is_a_terminal(pipeline, on_terminal, tmp_path):
    """Lines go to the file that stdout is, as the shell was told; the line moves all the same."""
    path, _ = pipeline
    with (tmp_path / "out").open("w") as out:
        terminal = on_terminal(path, stdout=out)
        terminal.until(lambda: under_way(terminal.screen))
        terminal.press(CTRL_C)
        assert terminal.end() == 0
    lines = (tmp_path / "out").read_text().splitlines()
    assert lines[0].startswith("p runs: sinks run-")
    assert any(re.search(r": batch \d+, \d+ rows", line) for line in lines), lines
    said = [line.split(":")[0] for line in lines]
    assert ("stopping" in said, said[-1]) == (True, "stopped as asked")
    assert not any("stopp" in line for line in terminal.screen.lines)
    assert terminal.screen.cursor_is_shown
    assert terminal.screen.at_the_beginning_of_a_line
