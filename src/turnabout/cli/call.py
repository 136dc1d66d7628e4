"""`call`: any verb by its name, with JSON for what goes in and what comes out: for programs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import click

from turnabout import slices
from turnabout.cli import _json, _places, _show
from turnabout.cli._app import App, negative, pass_app
from turnabout.cli._declare import Command, Group, write_block
from turnabout.cli._interrupt import unbroken
from turnabout.cli.receive import receive_in_slices
from turnabout.words import verbs as v
from turnabout.words.errors import UsageError
from turnabout.words.outcomes import refusal_in

EXAMPLES: Mapping[str, Any] = {
    "channel": "customer-42",
    "deferrals": [{"receipt": "4711.1"}],
    "due_at": 1790000000000,
    "failures": [{"receipt": "4711.1", "error": "550"}],
    "id": 7,
    "ids": [4711],
    "messages": [{"payload": {"text": "Hello"}}],
    "next_at": None,
    "queue": "emails",
    "receipts": ["4711.1"],
    "schedule": "nightly",
    "which": "done",
}
"""Values of fields in examples."""
MAKES_A_FILE = (v.Send, v.QueueCreate, v.ScheduleSet)
EVENTS_LOOK_SECONDS = 1.0

Kind = type[v.Verb[Any]]


@cache
def kinds() -> Mapping[str, Kind]:
    """Collect all verbs by name: the core's, and those of the slices that are here."""
    own = [kind for module in slices.modules("verbs") for kind in module.VERBS]
    return {kind.name: kind for kind in (*v.VOCABULARY, *own) if not kind.bulk}


class VerbCommand(Command):
    """The command of one verb, whose help is worked out from its fields."""

    def __init__(self, kind: Kind) -> None:
        fields = click.Argument(["fields"], required=False, metavar="[JSON]")

        @pass_app
        def run(app: App, fields: str | None) -> None:
            _run(app, kind, fields)

        super().__init__(kind.name, help=kind.__doc__, callback=run, params=[fields])
        self.kind = kind

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show its fields with their types, its answer, and a call of it."""
        from msgspec.structs import fields

        from turnabout.wire import object_of
        from turnabout.wire.plans import answer_of

        inputs = fields(object_of(self.kind))
        width = max((len(one.encode_name) for one in inputs), default=0)
        lines = list[str]()
        for one in inputs:
            text = _json.form(one.type, typed=True) + (
                "" if one.required else "  (may be left out)"
            )
            lines += _json.wrapped(f"{one.encode_name:{width}}  {text}", width + 2)
        answer = _json.form(answer_of(self.kind).type).replace(', "next"?', "")
        write_block(formatter, "Fields", lines)
        write_block(formatter, "Answer", _json.wrapped(answer))
        write_block(formatter, "Notes", _json.notes(f"{lines} {answer}"))
        write_block(formatter, "Examples", [example_of(self.kind)])


class Verbs(Group):
    """The verbs as commands, each made when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the verbs."""
        return list(kinds())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb of that name."""
        kind = kinds().get(cmd_name)
        return None if kind is None else VerbCommand(kind)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """A line for each, which is not a link to a section of its own in the docs."""
        width = max(map(len, kinds()))
        texts = {name: VerbCommand(kind).get_short_help_str(68) for name, kind in kinds().items()}
        write_block(formatter, "Verbs", [f"{name:{width}}  {text}" for name, text in texts.items()])


@click.group(
    "call",
    cls=Verbs,
    examples=[
        'turnabout call ack \'{"queue": "emails", "receipts": ["4711.1"]}\'',
        'turnabout call endings \'{"queue": "emails", "ids": [4711], "wait_seconds": 30}\'',
        "jq -c '{queue: \"emails\", receipts: [.receipt]}' batch.jsonl | turnabout call ack -",
    ],
    short_help="Any verb by its name, with JSON: for programs.",
    subcommand_metavar="VERB [JSON]",
)
def call() -> None:
    """Carry out one verb, as a program does over HTTP.

    What goes in is a JSON object of the verb's fields; what comes out is the answer of /v1 to the
    same verb. With "-" each line of the input is such an object, and gets a line. What fields a
    verb has is in its own --help.

    Exit code 1 if an outcome refuses: `lease_lost`, `not_waiting`, `channel_full`, `queue_full`,
    `not_due`, `already_exists`. It is printed all the same.
    """


def example_of(kind: Kind) -> str:
    """A call of the verb with the fields that it needs, if their values are known."""
    from msgspec.structs import fields

    from turnabout.wire import ROUTE_OF, object_of

    needed = [one.encode_name for one in fields(object_of(kind)) if one.required]
    if not needed:
        return f"turnabout call {kind.name}"
    if kind not in ROUTE_OF or not EXAMPLES.keys() >= set(needed):
        return f"turnabout call {kind.name} '{{…}}'"
    body = json.dumps({name: EXAMPLES[name] for name in needed})
    return f"turnabout call {kind.name} '{body}'"


# --- carrying out ---------------------------------------------------------------------------------


def _run(app: App, kind: Kind, fields: str | None) -> None:
    from turnabout.wire import ROUTE_OF, load_object

    if kind not in ROUTE_OF and _places.is_server(app.url):
        raise UsageError(f"no server carries out {kind.name}: name the database behind it")
    refused = False
    with app.open(create=kind in MAKES_A_FILE) as turnabout:
        for number, text in _objects(fields):
            try:
                item = load_object(kind, text)
                answer = _carry_out(turnabout.store, item)
            except UsageError as error:
                raise type(error)(f"line {number}: {error}" if number else str(error)) from error
            _print(turnabout.store, item.verb, answer)
            refused = refused or refusal_in(answer) is not None
    if refused:
        negative()


def _print(store: Any, verb: v.Verb[Any], answer: Any) -> None:
    """Print the answer. Messages that nobody sees go to others."""
    from turnabout.wire import dump_answer

    try:
        _show.out(_json.writable(_json.one_line(dump_answer(type(verb), answer))))
        _show.flush()
    except (OSError, KeyboardInterrupt):
        if isinstance(verb, v.Receive):
            store.run(v.Release(verb.queue, tuple(one.receipt for one in answer.deliveries)))
        raise


def _objects(fields: str | None) -> Iterator[tuple[int, bytes]]:
    """The JSON of each call, with its line in the input."""
    if fields != "-":
        yield 0, (fields or "{}").encode(errors="surrogateescape")
        return
    for number, line in enumerate(sys.stdin.buffer, 1):
        if line.strip():
            yield number, line


def _carry_out(store: Any, item: Any) -> Any:
    """The answer to a verb. Some wait for it as a server does, and what a server would fill in,
    such as a schedule's first due time, is filled in here.
    """
    from turnabout._sync.schedules import Schedules
    from turnabout._sync.shared import Shared
    from turnabout._sync.waiting import wait_for

    verb, shared = item.verb, Shared(store)
    match verb:
        case v.Receive():
            return receive_in_slices(shared, verb, item.wait_seconds)
        case v.Endings() if item.wait_seconds:
            return wait_for(shared, verb.queue, verb.ids, item.wait_seconds)
        case v.Events() if item.wait_seconds and verb.cursor is not None:
            return _next_events(store, verb, time.monotonic() + item.wait_seconds)
        case v.ScheduleSet() if "next_at" in item.left_out:
            keeps_pause = "paused" in item.left_out
            return Schedules(shared)._set(verb.schedule, keeps_pause=keeps_pause)
        case _:
            with unbroken():
                return store.run(verb)


def _next_events(store: Any, verb: v.Events, ends_at: float) -> Any:
    """The events after the cursor, as soon as there is one."""
    while True:
        seen = store.signal(verb.queue)
        page = store.run(verb)
        left = ends_at - time.monotonic()
        if page.events or left <= 0:
            return page
        store.wait(verb.queue, seen, min(left, EVENTS_LOOK_SECONDS))
