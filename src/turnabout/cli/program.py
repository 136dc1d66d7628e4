"""The program `turnabout`, with the commands of the core and of the slices that are here."""

from __future__ import annotations

import click

from turnabout import __version__, slices
from turnabout.cli import (
    by_id,
    call,
    channel,
    completion,
    doctor,
    history,
    migrate,
    queue,
    receive,
    redrive,
    schedule,
    send,
    stats,
    worker,
)
from turnabout.cli._declare import Root


@click.group(
    "turnabout",
    cls=Root,
    examples=[
        "turnabout send emails 'Hello' --channel customer-42",
        "turnabout receive emails --ack",
        "turnabout top --url postgresql://app@localhost/app",
    ],
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="turnabout %(version)s")
def main() -> None:
    """A fair, multi-tenant message queue in the database you already run.

    --url and --json stand before or after a command's name. A password in a URL can be seen by
    other users of this machine: put it in TURNABOUT_URL, or in ~/.pgpass.

    Exit codes: 0 ok; 1 a negative result (a lost lease, a full channel, nothing to receive, a
    failed check); 2 a wrong call; 3 the database is away or busy, repeat later; 130 Ctrl-C.
    """


main.add_section(
    "Messages", send.send, receive.receive, receive.peek, by_id.cancel, by_id.retry, queue.purge
)
main.add_section("Records", history.history, redrive.redrive)
main.add_section("Queues", queue.queue, channel.channel, channel.policy, stats.stats, stats.top)
main.add_section("Schedules", schedule.schedule)
main.add_section("Database", migrate.migrate, migrate.sql, doctor.doctor)
main.add_section("Programs", worker.worker, call.call, completion.completion)

for _slice in slices.modules("commands"):
    for _title, _commands in _slice.SECTIONS.items():
        main.add_section(_title, *_commands)
