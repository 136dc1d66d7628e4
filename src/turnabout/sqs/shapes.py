"""The requests of SQS's actions, with the fields of the API reference: `QueueUrl` as queue_url.

Values are looked at where they are used, as each has an error of its own.
"""

from __future__ import annotations

from msgspec import Struct, field


class SqsShape(Struct, rename="pascal", frozen=True):
    """Fields of a request, or of a part of one."""


class QueueShape(SqsShape, frozen=True):
    queue_url: str


class AttributeValue(SqsShape, frozen=True):
    data_type: str | None = None
    string_value: str | None = None
    binary_value: str | None = None


class CreateQueue(SqsShape, frozen=True):
    queue_name: str
    attributes: dict[str, str] = {}
    tags: dict[str, str] = field(default={}, name="tags")


class QueueNamed(SqsShape, frozen=True):
    queue_name: str


class ListQueues(SqsShape, frozen=True):
    queue_name_prefix: str = ""
    next_token: str | None = None
    max_results: int | None = None


class GetAttributes(QueueShape, frozen=True):
    attribute_names: list[str] = []


class SetAttributes(QueueShape, frozen=True):
    attributes: dict[str, str]


class TagQueue(QueueShape, frozen=True):
    tags: dict[str, str]


class UntagQueue(QueueShape, frozen=True):
    tag_keys: list[str]


class ListSources(QueueShape, frozen=True):
    next_token: str | None = None
    max_results: int | None = None


class MessageShape(SqsShape, frozen=True):
    message_body: str
    delay_seconds: int | None = None
    message_attributes: dict[str, AttributeValue] = {}
    message_system_attributes: dict[str, AttributeValue] = {}
    message_deduplication_id: str | None = None
    message_group_id: str | None = None


class SendMessage(MessageShape, frozen=True, kw_only=True):
    queue_url: str


class SendEntry(MessageShape, frozen=True, kw_only=True):
    id: str


class SendBatch(QueueShape, frozen=True):
    entries: list[SendEntry] = []


class ReceiveMessage(QueueShape, frozen=True):
    attribute_names: list[str] = []
    message_system_attribute_names: list[str] = []
    message_attribute_names: list[str] = []
    max_number_of_messages: int = 1
    visibility_timeout: int | None = None
    wait_time_seconds: int | None = None
    receive_request_attempt_id: str | None = None


class ReceiptShape(SqsShape, frozen=True):
    receipt_handle: str
    id: str = ""  # in a batch


class DeleteMessage(ReceiptShape, frozen=True, kw_only=True):
    queue_url: str


class DeleteBatch(QueueShape, frozen=True):
    entries: list[ReceiptShape] = []


class ChangeEntry(ReceiptShape, frozen=True, kw_only=True):
    visibility_timeout: int


class ChangeVisibility(ChangeEntry, frozen=True, kw_only=True):
    queue_url: str


class ChangeBatch(QueueShape, frozen=True):
    entries: list[ChangeEntry] = []


class StartMove(SqsShape, frozen=True):
    source_arn: str
    destination_arn: str | None = None
    max_number_of_messages_per_second: int | None = None


class ListMoves(SqsShape, frozen=True):
    source_arn: str
    max_results: int | None = None


class CancelMove(SqsShape, frozen=True):
    task_handle: str
