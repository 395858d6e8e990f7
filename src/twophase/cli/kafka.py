"""`twophase kafka`: a real Kafka on this machine, for development."""

import click
from rich.table import Table

from twophase.cli.output import output_option, show
from twophase.embedded import detached
from twophase.embedded.detached import ClusterStatus
from twophase.embedded.settings import DEFAULT_VERSION, NODE_COUNTS, VERSIONS

NOT_RUNNING = 3
_LARGEST_PORT = 65535


_KAFKA_EXAMPLE = """\b
Example:
  twophase kafka start
  twophase kafka status --output json
  twophase kafka stop
"""


@click.group(epilog=_KAFKA_EXAMPLE)
def kafka() -> None:
    """Start, stop and look at a real Kafka on this machine.

    One cluster per user, on loopback only, for development. Needs Java 17 or newer; Kafka itself
    is downloaded at the first start and kept in ~/.cache/twophase (or $TWOPHASE_HOME).
    """


_START_EXAMPLE = """\b
Example: three brokers on 9092, 9093 and 9094
  twophase kafka start --nodes 3 --port 9092
\b
Example: one that asks who is there
  twophase kafka start --user etl
"""


@kafka.command(epilog=_START_EXAMPLE)
@click.option(
    "--nodes",
    type=click.Choice([str(count) for count in NODE_COUNTS]),
    help="How many brokers; three have replication factor 3 and min ISR 2.  [default: 1]",
)
@click.option("--version", type=click.Choice(VERSIONS), help=f"[default: {DEFAULT_VERSION}]")
@click.option(
    "--port",
    type=click.IntRange(1, _LARGEST_PORT - max(NODE_COUNTS) + 1),
    help="The first broker's port, the others follow it.  [default: free ports]",
)
@click.option(
    "--user",
    "users",
    metavar="NAME",
    multiple=True,
    help="With users, TLS, passwords and ACLs are on; a super user, admin, is made along.",
)
@output_option
def start(
    nodes: str | None,
    version: str | None,
    port: int | None,
    users: tuple[str, ...],
    output: str,
) -> None:
    """Start Kafka and leave it running.

    Returns when every broker answers. While it runs already, nothing is done. Each --user gets a
    password and a file for --command-config, whose names are shown.
    """
    done = detached.start(int(nodes) if nodes else None, version, port, users)
    said = "is ready" if done.changed else "is already running"
    cluster = done.cluster
    ready = f"Kafka {cluster.version} {said} at {cluster.bootstrap_servers}"
    show(done, output, ready, *_users(cluster))


_STOP_EXAMPLE = """\b
Example: stop, and go on with the same topics later
  twophase kafka stop --keep-data
"""


@kafka.command(epilog=_STOP_EXAMPLE)
@click.option("--keep-data", is_flag=True, help="The next start finds the topics as they are now.")
@output_option
def stop(*, keep_data: bool, output: str) -> None:
    """Stop Kafka cleanly and delete its data.

    Logs are kept until the next start. While it is not running, nothing is done.
    """
    done = detached.stop(keep_data=keep_data)
    show(done, output, "Kafka is stopped" if done.changed else "Kafka is not running")


_STATUS_EXAMPLE = """\b
Example: the address for a client
  twophase kafka status --output json | jq -r .bootstrap_servers
"""


@kafka.command(epilog=_STATUS_EXAMPLE)
@output_option
@click.pass_context
def status(context: click.Context, output: str) -> None:
    """Show whether Kafka runs, where, and where its logs are.

    The exit code is 0 when every broker runs, else 3.
    """
    now = detached.status()
    show(now, output, *_text(now))
    if now.state != "running":
        context.exit(NOT_RUNNING)


def _users(cluster: ClusterStatus) -> list[str]:
    return [f"--command-config of {name}: {path}" for name, path in cluster.users.items()]


def _text(now: ClusterStatus) -> list[str | Table]:
    if not now.nodes:
        return ["Kafka is not running"]
    table = Table("node", "state", "pid", "address", box=None)
    for node in now.nodes:
        table.add_row(str(node.node_id), node.state, str(node.pid), node.address)
    where = f" at {now.bootstrap_servers}" if now.bootstrap_servers else ""
    # Outside the table, which would cut them to the terminal's width.
    logs = [f"log of node {node.node_id}: {node.log_file}" for node in now.nodes]
    return [f"Kafka {now.version} is {now.state}{where}", table, *logs, *_users(now)]
