"""Actions that move dead letters: message move tasks, which are redrives here."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from typing import Any

from turnabout.sqs import shapes
from turnabout.sqs.attributes import name_in_arn
from turnabout.sqs.errors import SqsError, invalid, wrong
from turnabout.sqs.place import SqsPlace
from turnabout.sqs.queues import sources_of
from turnabout.words import verbs as v
from turnabout.words.limits import INTEGER_MAX
from turnabout.words.records import Redrive

Found = dict[str, Any]
PER_SECOND_MAX = 500
LISTED_MAX = 10
STATES = {"running": "RUNNING", "done": "COMPLETED", "cancelled": "CANCELLED"}


async def start_message_move_task(at: SqsPlace, request: shapes.StartMove) -> Found:
    """Move messages from a dead-letter queue, back to where they died or to another queue."""
    source = await _queue(at, request.source_arn, "SourceArn", v.RedriveStart)
    if not await sources_of(at, source):
        raise wrong("Source queue must be configured as a Dead Letter Queue.")
    target = request.destination_arn and await _queue(
        at, request.destination_arn, "DestinationArn", v.Send
    )
    rate = request.max_number_of_messages_per_second
    if rate is not None and not 1 <= rate <= PER_SECOND_MAX:
        raise invalid("MaxNumberOfMessagesPerSecond", rate, "Must be between 1 and 500.")
    running = await at.caller.run(v.RedriveList(source, LISTED_MAX))
    if any(one.state == "running" for one in running):
        raise wrong("There is already a task running. A source queue may have one at a time.")
    await at.caller.insider().run(v.Maintain(source))  # what was received, and is visible again
    verb = v.RedriveStart(source, target, per_second=rate, max_redrives=INTEGER_MAX)
    return {"TaskHandle": _handle(at, await at.caller.run(verb))}


async def list_message_move_tasks(at: SqsPlace, request: shapes.ListMoves) -> Found:
    """List the newest such tasks of a queue."""
    source = await _queue(at, request.source_arn, "SourceArn", v.RedriveList)
    most = 1 if request.max_results is None else request.max_results
    if not 1 <= most <= LISTED_MAX:
        raise invalid("MaxResults", most, "Must be between 1 and 10.")
    found = await at.caller.run(v.RedriveList(source, most))
    return {"Results": [_shown(at, one) for one in found if one.state in STATES]}


async def cancel_message_move_task(at: SqsPlace, request: shapes.CancelMove) -> Found:
    """Stop such a task."""
    try:
        fields = json.loads(b64decode(request.task_handle, validate=True))
        id_, source = int(fields["taskId"]), name_in_arn(str(fields["sourceArn"]), "TaskHandle")
    except (Base64Error, ValueError, KeyError, TypeError) as error:
        raise invalid("TaskHandle", request.task_handle, "It is not a task's handle.") from error
    found = await at.caller.run(v.RedriveList(source, 1_000))
    if not any(one.id == id_ and one.state == "running" for one in found):
        text = "There is no such task, or it is not running any more."
        raise SqsError("ResourceNotFoundException", text, 404)
    stopped = await at.caller.run(v.RedriveCancel(id_))
    return {"ApproximateNumberOfMessagesMoved": stopped.moved}


async def _queue(at: SqsPlace, arn: str, parameter: str, verb: type[v.Verb[Any]]) -> str:
    name = name_in_arn(arn, parameter)
    try:
        return (await at.queue(name, verb, fresh=True)).name
    except SqsError as error:
        text = f"The resource that you specified for the {parameter} parameter doesn't exist."
        raise SqsError("ResourceNotFoundException", text, 404) from error


def _handle(at: SqsPlace, task: Redrive) -> str:
    fields = {"taskId": str(task.id), "sourceArn": at.arn(task.queue)}
    return b64encode(json.dumps(fields).encode()).decode()


def _shown(at: SqsPlace, task: Redrive) -> Found:
    found: Found = {
        "Status": STATES[task.state],
        "SourceArn": at.arn(task.queue),
        "ApproximateNumberOfMessagesMoved": task.moved,
        "StartedTimestamp": task.created_at,
    }
    if task.state == "running":
        found["TaskHandle"] = _handle(at, task)
    if task.target is not None:
        found["DestinationArn"] = at.arn(task.target)
    if task.per_second is not None:
        found["MaxNumberOfMessagesPerSecond"] = task.per_second
    return found
