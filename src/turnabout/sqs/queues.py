"""Actions on queues: make, find, list, delete and purge them; attributes and tags."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from turnabout.sqs import attributes as attrs
from turnabout.sqs import shapes
from turnabout.sqs.errors import SqsError, invalid
from turnabout.sqs.place import SqsPlace
from turnabout.words import verbs as v
from turnabout.words.entities import QueueEntry
from turnabout.words.errors import QueueNotFound
from turnabout.words.limits import DEAD_SUFFIX
from turnabout.words.outcomes import AlreadyExists
from turnabout.words.policy import QueueSettings

Found = dict[str, Any]
LISTED_MAX = 1_000


async def create_queue(at: SqsPlace, request: shapes.CreateQueue) -> Found:
    """Make a queue. One that is there and has the same attributes is answered."""
    name = request.queue_name
    fifo = request.attributes.get("FifoQueue") == "true"
    attrs.checked_name(name, fifo=fifo)
    if request.attributes.get("FifoQueue") == "false":
        raise SqsError("InvalidAttributeName", "Unknown Attribute FifoQueue.")
    kept = attrs.checked(request.attributes, fifo=fifo)
    attrs.check_tags(request.tags)
    await _check_redrive(at, name, kept, fifo=fifo)
    labels = attrs.labels(kept, request.tags)
    settings = QueueSettings(labels=labels, **attrs.settings_of_new(kept, fifo=fifo))
    outcome = await at.caller.run(v.QueueCreate(name, settings))
    if isinstance(outcome, AlreadyExists):
        found = attrs.own_attributes(outcome.queue, at.arn)
        for key, value in kept.items():
            if not _is_same(key, found.get(key, ""), value):
                raise SqsError(
                    "QueueNameExists",
                    "A queue already exists with the same name and a different value for "
                    f"attribute {key}",
                )
    at.memory.forget(at.caller, name)
    return {"QueueUrl": at.url(name)}


async def get_queue_url(at: SqsPlace, request: shapes.QueueNamed) -> Found:
    """Find the address of a queue."""
    entry = await at.queue(request.queue_name, v.QueueGet, fresh=True)
    return {"QueueUrl": at.url(entry.name)}


async def list_queues(at: SqsPlace, request: shapes.ListQueues) -> Found:
    """List queues by name. Dead-letter queues that nobody has made by this API are not among
    them.
    """
    entries = await at.caller.whole(v.QueueList())
    names = [
        entry.name
        for entry in entries
        if entry.name.startswith(request.queue_name_prefix)
        and (attrs.is_made_here(entry) or not entry.name.endswith(DEAD_SUFFIX))
    ]
    shown, token = page(names, request.next_token, request.max_results)
    found: Found = {"QueueUrls": [at.url(name) for name in shown]} if shown else {}
    return found | ({"NextToken": token} if token else {})


async def delete_queue(at: SqsPlace, request: shapes.QueueShape) -> None:
    """Delete a queue and its messages. Queues whose dead letters it took keep their messages."""
    entry = await at.queue(request.queue_url, v.QueueDelete)
    for source in await at.caller.insider().whole(v.QueueList()):
        if source.dead_letter == entry.name and source.name + DEAD_SUFFIX != entry.name:
            changes = {"dead_letter": None, "max_attempts": None}
            await at.caller.run(v.QueueUpdate(source.name, changes))
            at.memory.forget(at.caller, source.name)
    at.memory.forget(at.caller, entry.name)
    await at.caller.run(v.QueueDelete(entry.name))
    await _delete_empty_grave(at, entry)


async def purge_queue(at: SqsPlace, request: shapes.QueueShape) -> None:
    """Delete all messages of a queue; those in flight too."""
    entry = await at.queue(request.queue_url, v.Purge)
    await at.caller.run(v.Purge(entry.name))
    await at.caller.run(v.Purge(entry.name, state="leased"))


async def get_queue_attributes(at: SqsPlace, request: shapes.GetAttributes) -> Found:
    """Get attributes: those named, or `All`."""
    names = attrs.check_names(request.attribute_names)
    entry = await at.queue(request.queue_url, v.QueueGet, fresh=True)
    found = attrs.own_attributes(entry, at.arn)
    if names & {"All", *attrs.COUNTS}:
        (stats,) = await at.caller.insider().run(v.Stats(entry.name))
        found |= attrs.counts(stats)
    if "All" not in names:
        found = {name: value for name, value in found.items() if name in names}
    return {"Attributes": found} if found else {}


async def set_queue_attributes(at: SqsPlace, request: shapes.SetAttributes) -> None:
    """Set attributes; the others stay."""
    entry = await at.queue(request.queue_url, v.QueueUpdate, fresh=True)
    fifo = entry.settings.fifo
    if "FifoQueue" in request.attributes:
        raise SqsError("InvalidAttributeName", "Unknown Attribute FifoQueue.")
    changes = attrs.checked(request.attributes, fifo=fifo)
    await _check_redrive(at, entry.name, changes, fifo=fifo)
    kept = {n: text for n, text in {**attrs.kept_of(entry), **changes}.items() if text}
    labels = attrs.labels(kept, attrs.tags_of(entry))
    settings = {**attrs.settings_of(changes), "labels": labels}
    await at.caller.run(v.QueueUpdate(entry.name, settings))
    at.memory.forget(at.caller, entry.name)


async def tag_queue(at: SqsPlace, request: shapes.TagQueue) -> None:
    """Set tags; the others stay."""
    await _set_tags(at, request.queue_url, request.tags)


async def untag_queue(at: SqsPlace, request: shapes.UntagQueue) -> None:
    """Remove tags."""
    await _set_tags(at, request.queue_url, {}, frozenset(request.tag_keys))


async def list_queue_tags(at: SqsPlace, request: shapes.QueueShape) -> Found:
    """List the tags of a queue."""
    entry = await at.queue(request.queue_url, v.QueueGet, fresh=True)
    tags = attrs.tags_of(entry)
    return {"Tags": tags} if tags else {}


async def list_dead_letter_source_queues(at: SqsPlace, request: shapes.ListSources) -> Found:
    """List the queues whose dead letters go to this one."""
    entry = await at.queue(request.queue_url, v.QueueGet)
    names = [one.name for one in await sources_of(at, entry.name)]
    shown, token = page(names, request.next_token, request.max_results)
    found: Found = {"queueUrls": [at.url(name) for name in shown]}
    return found | ({"NextToken": token} if token else {})


async def sources_of(at: SqsPlace, name: str) -> Sequence[QueueEntry]:
    """The queues whose dead letters go to that one, as far as the caller may know."""
    entries = await at.caller.whole(v.QueueList())
    return [
        one
        for one in entries
        if one.dead_letter == name and one.settings.max_attempts is not None and one.name != name
    ]


def page(
    names: Sequence[str], token: str | None, most: int | None
) -> tuple[Sequence[str], str | None]:
    """A page of names, and the token of the next one. Raises: SqsError."""
    if most is not None and not 1 <= most <= LISTED_MAX:
        raise invalid("MaxResults", most, "Must be between 1 and 1000.")
    rest = [name for name in names if token is None or name > token]
    many = most or LISTED_MAX
    return rest[:many], rest[many - 1] if len(rest) > many and most else None


async def _set_tags(
    at: SqsPlace, url: str, new: Mapping[str, str], gone: Container[str] = ()
) -> None:
    entry = await at.queue(url, v.QueueUpdate, fresh=True)
    old = attrs.tags_of(entry)
    tags = {name: text for name, text in {**old, **new}.items() if name not in gone}
    attrs.check_tags(tags)
    is_here = attrs.is_made_here(entry)
    labels = attrs.labels(attrs.kept_of(entry), tags) if is_here else dict(tags)
    await at.caller.run(v.QueueUpdate(entry.name, {"labels": labels}))
    at.memory.forget(at.caller, entry.name)


async def _check_redrive(
    at: SqsPlace, name: str, changes: Mapping[str, str], *, fifo: bool
) -> None:
    """Raises: SqsError for a dead-letter queue that is not there, or does not take them."""
    redrive = attrs.redrive_of(changes)
    if redrive is None:
        return
    target, text = redrive[0], changes["RedrivePolicy"]
    try:
        entry = await at.queue(target, v.Send, fresh=True)
    except SqsError as error:
        raise invalid("RedrivePolicy", text, "Dead letter target does not exist.") from error
    if target == name:
        raise invalid("RedrivePolicy", text, "A queue cannot be its own dead-letter queue.")
    if entry.settings.fifo != fifo:
        raise invalid(
            "RedrivePolicy", text, "A dead-letter queue is of the same type as its source."
        )
    if not attrs.may_take_dead(entry, name):
        raise invalid("RedrivePolicy", text, "The target's RedriveAllowPolicy does not allow it.")


async def _delete_empty_grave(at: SqsPlace, entry: QueueEntry) -> None:
    """Delete the dead-letter queue that came with a queue, if nobody needs it."""
    grave, insider = entry.name + DEAD_SUFFIX, at.caller.insider()
    try:
        found = await insider.run(v.QueueGet(grave))
        (stats,) = await insider.run(v.Stats(grave))
        if not attrs.is_made_here(found) and not (stats.ready or stats.leased or stats.scheduled):
            await insider.run(v.QueueDelete(grave))
    except QueueNotFound:
        return


def _is_same(name: str, there: str, wanted: str) -> bool:
    if name == "RedrivePolicy" and there and wanted:
        return attrs.redrive_of({name: there}) == attrs.redrive_of({name: wanted})
    return there == wanted
