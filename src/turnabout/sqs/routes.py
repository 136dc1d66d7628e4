"""The API's paths, `/sqs` and if asked for the root: who asks, what, and the answer."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from turnabout.server.auth.authorized_store import AuthorizedStore
from turnabout.server.context import ServerContext
from turnabout.server.http.delivery_response import DeliveryResponse
from turnabout.server.verbs import SIGN, signing_secret
from turnabout.sqs import moving, queues, receiving, sending, shapes
from turnabout.sqs.errors import SqsError, meaning
from turnabout.sqs.place import REGION, SqsMemory, SqsPlace
from turnabout.sqs.protocol import JSON, XML, SqsCall, call_of
from turnabout.sqs.signature import Signature, signature_of
from turnabout.words.errors import TurnaboutError

PREFIX = "/sqs"
IS_BUSY = True  # its routes come first
Action = Callable[[SqsPlace, Any], Awaitable[Any]]

ACTIONS: dict[str, tuple[type[shapes.SqsShape], Action]] = {
    "SendMessage": (shapes.SendMessage, sending.send_message),
    "SendMessageBatch": (shapes.SendBatch, sending.send_message_batch),
    "ReceiveMessage": (shapes.ReceiveMessage, receiving.receive_message),
    "DeleteMessage": (shapes.DeleteMessage, receiving.delete_message),
    "DeleteMessageBatch": (shapes.DeleteBatch, receiving.delete_message_batch),
    "ChangeMessageVisibility": (shapes.ChangeVisibility, receiving.change_message_visibility),
    "ChangeMessageVisibilityBatch": (
        shapes.ChangeBatch, receiving.change_message_visibility_batch,
    ),
    "CreateQueue": (shapes.CreateQueue, queues.create_queue),
    "GetQueueUrl": (shapes.QueueNamed, queues.get_queue_url),
    "ListQueues": (shapes.ListQueues, queues.list_queues),
    "DeleteQueue": (shapes.QueueShape, queues.delete_queue),
    "PurgeQueue": (shapes.QueueShape, queues.purge_queue),
    "GetQueueAttributes": (shapes.GetAttributes, queues.get_queue_attributes),
    "SetQueueAttributes": (shapes.SetAttributes, queues.set_queue_attributes),
    "TagQueue": (shapes.TagQueue, queues.tag_queue),
    "UntagQueue": (shapes.UntagQueue, queues.untag_queue),
    "ListQueueTags": (shapes.QueueShape, queues.list_queue_tags),
    "ListDeadLetterSourceQueues": (shapes.ListSources, queues.list_dead_letter_source_queues),
    "StartMessageMoveTask": (shapes.StartMove, moving.start_message_move_task),
    "ListMessageMoveTasks": (shapes.ListMoves, moving.list_message_move_tasks),
    "CancelMessageMoveTask": (shapes.CancelMove, moving.cancel_message_move_task),
}  # fmt: skip
NOT_HERE = ("AddPermission", "RemovePermission")


def routes(context: ServerContext) -> Sequence[BaseRoute]:
    """The routes below `/sqs`; with the server's option `sqs_root` those at the root, too."""
    memory, made = SqsMemory(), list[BaseRoute]()
    for prefix in (PREFIX, *([""] if context.options.sqs_root else [])):
        door, methods = SqsDoor(context, prefix, memory), ["GET", "POST"]
        made.append(Route(f"{prefix}/{{account:int}}/{{queue}}", door.answer, methods=methods))
        made.append(Route(f"{prefix}/", door.answer, methods=methods if prefix else ["POST"]))
        made += [Route(prefix, door.answer, methods=methods)] if prefix else []
    return made


class SqsDoor:
    """Answers requests of SQS's clients."""

    def __init__(self, context: ServerContext, prefix: str, memory: SqsMemory) -> None:
        self._context = context
        self._prefix = prefix
        self._memory = memory

    async def answer(self, request: Request) -> Response:
        """Answer a request, in the protocol that it came by."""
        body = await request.body()
        request_id = str(uuid.uuid4())
        call = SqsCall("", {}, is_form="x-amz-target" not in request.headers)
        try:
            caller, region = await self._caller(request, body)
            call = call_of(request, body)
            if call.is_form and "queue" in request.path_params:
                call.fields.setdefault("QueueUrl", request.url.path)
            most = self._context.options.max_payload_bytes
            at = SqsPlace(request, caller, region, self._prefix, self._memory, most)
            return await self._done(at, call, request_id)
        except TurnaboutError as error:
            refused = meaning(error)
        except SqsError as error:
            refused = error
        text, headers = call.refusal(refused, request_id)
        return Response(text, refused.status, {**self._headers(call, request_id), **headers})

    async def _done(self, at: SqsPlace, call: SqsCall, request_id: str) -> Response:
        if call.action in NOT_HERE:
            text = "Rights are those of tokens here: `turnabout token create` makes one."
            raise SqsError("UnsupportedOperation", text)
        if call.action not in ACTIONS:
            raise SqsError("InvalidAction", f"The action {call.action[:80]} is not valid.", 404)
        shape, action = ACTIONS[call.action]
        headers = self._headers(call, request_id)
        request = call.read(shape)
        found = await action(at, request)
        if isinstance(request, shapes.ReceiveMessage):
            found, received = found
            queue, body = at.name(request.queue_url), call.answer(found, request_id)
            raw_headers = [(name.encode(), value.encode()) for name, value in headers.items()]
            return DeliveryResponse(at.caller, queue, received, [body], headers=raw_headers)
        return Response(call.answer(found, request_id), 200, headers)

    async def _caller(self, request: Request, body: bytes) -> tuple[AuthorizedStore, str]:
        """The caller and his region: by a signature, else as in `/v1`. Raises: SqsError."""
        signature = signature_of(request)
        region = REGION if signature is None else signature.region
        if signature is None or self._context.options.auth == "none":
            return await self._context.caller(request), region
        return await self._signer(request, body, signature), region

    async def _signer(self, request: Request, body: bytes, signature: Signature) -> AuthorizedStore:
        known = await self._context.authenticator.signer(signature.key_id, request.scope)
        if known is None:
            raise SqsError(
                "InvalidClientTokenId",
                "The access key id is that of no token which is valid and has the scope "
                f"{SIGN}:*, as signatures need it.",
                403,
            )
        rights, digest = known
        signature.check(request, body, signing_secret(digest))
        self._context.authenticator.count(rights)
        return self._context.admit(request, rights)

    @staticmethod
    def _headers(call: SqsCall, request_id: str) -> dict[str, str]:
        return {"content-type": XML if call.is_form else JSON, "x-amzn-requestid": request_id}
