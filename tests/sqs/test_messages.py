"""Messages by boto3: bodies, attributes, receipts, batches, delays, visibility."""

import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from tests.sqs.conftest import client_of
from tests.support.served import WIDE, served
from turnabout import Policy

ATTRIBUTES = {
    "text": {"DataType": "String", "StringValue": "é <&> \r\n"},
    "number": {"DataType": "Number.int", "StringValue": "-1.5e3"},
    "bytes": {"DataType": "Binary.png", "BinaryValue": b"\0\1\xff"},
}


@pytest.fixture
def url(sqs: Any) -> str:
    return sqs.create_queue(QueueName="jobs")["QueueUrl"]


def received(sqs: Any, url: str, most: int = 10, **more: Any) -> list[Any]:
    return sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=most, **more).get("Messages", [])


def test_a_message_comes_as_it_was_sent(sqs: Any, url: str) -> None:
    trace = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-2-3"}}
    sent = sqs.send_message(
        QueueUrl=url, MessageBody="<b>é</b>\t😀", MessageAttributes=ATTRIBUTES,
        MessageSystemAttributes=trace, MessageGroupId="tenant-1",
    )  # fmt: skip
    names = {"MessageAttributeNames": ["All"], "MessageSystemAttributeNames": ["All"]}
    (got,) = received(sqs, url, **names)
    assert (got["Body"], got["MessageAttributes"]) == ("<b>é</b>\t😀", ATTRIBUTES)
    for digest in ("MD5OfMessageBody", "MD5OfMessageAttributes"):
        assert sent[digest] == got[digest.replace("MD5OfMessageBody", "MD5OfBody")]
    assert sent["MD5OfMessageSystemAttributes"]
    assert sent["MessageId"] == got["MessageId"]
    told = got["Attributes"]
    assert (told["MessageGroupId"], told["AWSTraceHeader"]) == ("tenant-1", "Root=1-2-3")
    assert told["ApproximateReceiveCount"] == "1"
    assert abs(int(told["SentTimestamp"]) / 1000 - time.time()) < 60
    sqs.delete_message(QueueUrl=url, ReceiptHandle=got["ReceiptHandle"])
    sqs.delete_message(QueueUrl=url, ReceiptHandle=got["ReceiptHandle"])  # a second time: no error
    assert received(sqs, url) == []


def test_large_attributes_come_too(sqs: Any, url: str) -> None:
    large = {"big": {"DataType": "String", "StringValue": "x" * 100_000}}
    sqs.send_message(QueueUrl=url, MessageBody="body", MessageAttributes=large)
    (got,) = received(sqs, url, MessageAttributeNames=["big"])
    assert (got["Body"], got["MessageAttributes"]) == ("body", large)


@pytest.mark.parametrize(
    ("names", "found"),
    [([], []), (["text"], ["text"]), (["t.*", "none"], ["text"]), ([".*"], [*ATTRIBUTES])],
)
def test_attributes_come_as_asked(sqs: Any, url: str, names: list[str], found: list[str]) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x", MessageAttributes=ATTRIBUTES)
    (got,) = received(sqs, url, MessageAttributeNames=names)
    assert sorted(got.get("MessageAttributes", {})) == sorted(found)
    assert ("MD5OfMessageAttributes" in got) == bool(found)


def test_messages_of_others_are_shown(service: Any, sqs: Any, url: str) -> None:
    service.mq.queue("jobs").send({"n": 1}, headers={"team": "mail"}, channel="a")
    service.mq.queue("jobs").send(b"\xff\x00")
    second, first = received(sqs, url, MessageAttributeNames=["All"])
    assert (first["Body"], second["Body"]) == ('{"n":1}', "/wA=")
    assert first["MessageAttributes"]["team"]["StringValue"] == "mail"


def test_groups_take_turns(sqs: Any, url: str) -> None:
    for group in ("noisy", "noisy", "noisy", "quiet"):
        sqs.send_message(QueueUrl=url, MessageBody=group, MessageGroupId=group)
    assert {one["Body"] for one in received(sqs, url, 2)} == {"noisy", "quiet"}


def test_limits_of_a_group_are_those_of_a_channel(service: Any, sqs: Any, url: str) -> None:
    service.mq.queue("jobs").channel("g").set_policy(Policy(max_concurrency=1))
    for _ in range(2):
        sqs.send_message(QueueUrl=url, MessageBody="x", MessageGroupId="g")
    assert len(received(sqs, url)) == 1


def test_what_is_not_deleted_comes_back(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x")
    (one,) = received(sqs, url, VisibilityTimeout=1)
    assert received(sqs, url) == []
    (two,) = received(sqs, url, WaitTimeSeconds=5, AttributeNames=["ApproximateReceiveCount"])
    assert two["Attributes"] == {"ApproximateReceiveCount": "2"}
    assert one["ReceiptHandle"] != two["ReceiptHandle"]


def test_a_late_delete_deletes_what_nobody_has_received_since(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x")
    (late,) = received(sqs, url, VisibilityTimeout=0)
    time.sleep(0.1)
    sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
    sqs.delete_message(QueueUrl=url, ReceiptHandle=late["ReceiptHandle"])
    assert received(sqs, url) == []


def test_visibility_is_changed_either_way(sqs: Any, url: str, refused: Any) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x")
    (got,) = received(sqs, url, VisibilityTimeout=30)
    which = {"QueueUrl": url, "ReceiptHandle": got["ReceiptHandle"]}
    sqs.change_message_visibility(**which, VisibilityTimeout=0)
    (again,) = received(sqs, url)
    refused(sqs.change_message_visibility, "ReceiptHandleIsInvalid", **which, VisibilityTimeout=9)
    which["ReceiptHandle"] = again["ReceiptHandle"]
    sqs.change_message_visibility(**which, VisibilityTimeout=43_200)
    refused(
        sqs.change_message_visibility, "InvalidParameterValue", **which, VisibilityTimeout=43_201
    )
    sqs.delete_message(**which)
    refused(sqs.change_message_visibility, "InvalidParameterValue", **which, VisibilityTimeout=1)


def test_what_is_visible_at_once_is_first_again(sqs: Any, url: str) -> None:
    for body in "123":
        sqs.send_message(QueueUrl=url, MessageBody=body)
    for _ in range(5):
        (got,) = received(sqs, url, 1)
        assert got["Body"] == "1"
        sqs.change_message_visibility(
            QueueUrl=url, ReceiptHandle=got["ReceiptHandle"], VisibilityTimeout=0
        )


@pytest.mark.slow
def test_a_delay_holds_a_message_back(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="later", DelaySeconds=3)
    sqs.send_message(QueueUrl=url, MessageBody="now")
    assert [one["Body"] for one in received(sqs, url)] == ["now"]
    count = "ApproximateNumberOfMessagesDelayed"
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[count])
    assert found["Attributes"] == {count: "1"}
    assert [one["Body"] for one in received(sqs, url, WaitTimeSeconds=9)] == ["later"]


def test_a_batch_succeeds_in_part(sqs: Any, url: str, refused: Any) -> None:
    entries = [{"Id": "a", "MessageBody": "a"}, {"Id": "b", "MessageBody": "\x01"}]
    told = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    assert [one["Id"] for one in told["Successful"]] == ["a"]
    (failed,) = told["Failed"]
    assert (failed["Id"], failed["Code"], failed["SenderFault"]) == (
        "b", "InvalidMessageContents", True,
    )  # fmt: skip
    (got,) = received(sqs, url)
    entries = [
        {"Id": "1", "ReceiptHandle": got["ReceiptHandle"]},
        {"Id": "2", "ReceiptHandle": "?"},
    ]
    changes = [{**one, "VisibilityTimeout": 60} for one in entries]
    for told in (
        sqs.change_message_visibility_batch(QueueUrl=url, Entries=changes),
        sqs.delete_message_batch(QueueUrl=url, Entries=entries),
    ):
        assert [one["Id"] for one in told["Successful"]] == ["1"]
        assert [one["Code"] for one in told["Failed"]] == ["ReceiptHandleIsInvalid"]
    prefix = "AWS.SimpleQueueService."
    many = [{"Id": str(n), "MessageBody": "x"} for n in range(11)]
    send = sqs.send_message_batch
    refused(send, prefix + "TooManyEntriesInBatchRequest", QueueUrl=url, Entries=many)
    refused(send, prefix + "BatchEntryIdsNotDistinct", QueueUrl=url, Entries=[many[0], many[0]])
    refused(send, prefix + "EmptyBatchRequest", QueueUrl=url, Entries=[])
    refused(
        send, prefix + "InvalidBatchEntryId",
        QueueUrl=url, Entries=[{"Id": "a b", "MessageBody": "x"}],
    )  # fmt: skip
    long = [{"Id": str(n), "MessageBody": "x" * 600_000} for n in range(2)]
    refused(send, prefix + "BatchRequestTooLong", QueueUrl=url, Entries=long)


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        ("MissingParameter", {"MessageBody": ""}),
        ("InvalidMessageContents", {"MessageBody": "\ufffe"}),
        ("InvalidParameterValue", {"MessageBody": "x" * 1_048_577}),
        ("InvalidParameterValue", {"DelaySeconds": 901}),
        ("InvalidParameterValue", {"MessageGroupId": "a b"}),
        ("InvalidParameterValue", {"MessageGroupId": "x" * 129}),
        ("InvalidParameterValue", {"MessageDeduplicationId": "x"}),
        ("InvalidParameterValue", {"MessageAttributes": {"a": {"DataType": "Text"}}}),
        (
            "InvalidParameterValue",
            {"MessageAttributes": {"AWS.x": {"DataType": "String", "StringValue": "x"}}},
        ),
        (
            "InvalidParameterValue",
            {"MessageAttributes": {"n": {"DataType": "Number", "StringValue": "x"}}},
        ),
        (
            "InvalidParameterValue",
            {"MessageAttributes": {"n": {"DataType": "String", "StringValue": ""}}},
        ),
    ],
)
def test_wrong_messages_are_refused(
    sqs: Any, url: str, refused: Any, code: str, fields: Any
) -> None:
    refused(sqs.send_message, code, **{"QueueUrl": url, "MessageBody": "x", **fields})
    assert received(sqs, url) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"MaxNumberOfMessages": 0}, {"MaxNumberOfMessages": 11}, {"WaitTimeSeconds": 21},
        {"VisibilityTimeout": 43_201}, {"VisibilityTimeout": -1},
    ],
)  # fmt: skip
def test_wrong_receives_are_refused(sqs: Any, url: str, refused: Any, fields: Any) -> None:
    refused(sqs.receive_message, "InvalidParameterValue", QueueUrl=url, **fields)
    refused(sqs.receive_message, "InvalidAttributeName", QueueUrl=url, AttributeNames=["Size"])
    refused(sqs.delete_message, "ReceiptHandleIsInvalid", QueueUrl=url, ReceiptHandle="bm9uZQ==")


def test_a_long_poll_hears_of_a_message(sqs: Any, service: Any, url: str) -> None:
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"ReceiveMessageWaitTimeSeconds": "20"})
    threading.Timer(0.3, service.mq.queue("jobs").send, ("x",)).start()
    began = time.monotonic()
    assert len(received(sqs, url)) == 1
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("kept", ["[", '{"a": 5}', '{"a": ["Binary", "?"]}', '{"a": ["Odd", "x"]}'])
def test_headers_that_only_look_like_ours_harm_nobody(
    service: Any, sqs: Any, url: str, kept: str
) -> None:
    queue = service.mq.queue("jobs")
    queue.send("first", headers={"sqs-attributes": kept})
    queue.send("[", content_type="application/vnd.turnabout.sqs+json")
    got = received(sqs, url, MessageAttributeNames=["All"], AttributeNames=["All"])
    assert [one["Body"] for one in got] == ["first", "["]


def test_the_server_s_limit_holds(tmp_path: Any, refused: Any) -> None:
    options = replace(WIDE, auth="none", max_payload_bytes=2_000)
    with served(f"sqlite:///{tmp_path}/app.db", options=options) as server:
        sqs = client_of(f"{server.url}/sqs", aws_access_key_id="a", aws_secret_access_key="b")
        url = sqs.create_queue(QueueName="jobs")["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody="x" * 2_000)
        refused(sqs.send_message, "InvalidParameterValue", QueueUrl=url, MessageBody="x" * 2_001)
