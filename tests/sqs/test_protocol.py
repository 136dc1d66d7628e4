"""Signatures, rights, and the protocol of forms and XML, as older clients speak it."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree as ET

import httpx2
import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.sqs.conftest import Service, client_of

XML = "{http://queue.amazonaws.com/doc/2012-11-05/}"


class OldClient:
    """A client that sends forms, signed by botocore."""

    def __init__(self, service: Service, path: str = "/sqs/") -> None:
        keys = service.keys("operate", "sign")
        self.url = service.url + path
        self.keys = Credentials(keys["aws_access_key_id"], keys["aws_secret_access_key"])

    def call(self, action: str, status: int = 200, url: str = "", **fields: str) -> ET.Element:
        form = {"Action": action, "Version": "2012-11-05", **fields}
        request = AWSRequest("POST", url or self.url, data=form)
        request.headers["Content-Type"] = "application/x-www-form-urlencoded; charset=utf-8"
        SigV4Auth(self.keys, "sqs", "us-east-1").add_auth(request)
        ready = request.prepare()
        answer = httpx2.post(ready.url, content=ready.body, headers=dict(ready.headers))
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"].startswith("text/xml")
        return ET.fromstring(answer.text)


def texts(found: ET.Element, tag: str) -> list[str]:
    return [one.text or "" for one in found.iter(XML + tag)]


def test_forms_and_xml(service: Service) -> None:
    old = OldClient(service)
    made = old.call(
        "CreateQueue", QueueName="jobs", **{
            "Attribute.1.Name": "DelaySeconds", "Attribute.1.Value": "0",
            "Tag.1.Key": "team", "Tag.1.Value": "mail",
        },
    )  # fmt: skip
    (url,) = texts(made, "QueueUrl")
    assert made.tag == f"{XML}CreateQueueResponse"
    assert texts(made, "RequestId")
    assert texts(old.call("ListQueueTags", QueueUrl=url), "Value") == ["mail"]
    sent = old.call(
        "SendMessage", QueueUrl=url, MessageBody="a <&> \r\n é", **{
            "MessageAttribute.1.Name": "n", "MessageAttribute.1.Value.DataType": "Number",
            "MessageAttribute.1.Value.StringValue": "5", "DelaySeconds": "0",
        },
    )  # fmt: skip
    got = old.call(
        "ReceiveMessage", url=url, **{
            "MaxNumberOfMessages": "10", "AttributeName.1": "All", "MessageAttributeName.1": "All"
        },
    )  # fmt: skip
    assert texts(got, "Body") == ["a <&> \r\n é"]
    assert texts(got, "MD5OfMessageAttributes") == texts(sent, "MD5OfMessageAttributes")
    names = [one.find(f"{XML}Name").text for one in got.iter(f"{XML}Attribute")]  # type: ignore[union-attr]
    assert "SentTimestamp" in names
    (handle,) = texts(got, "ReceiptHandle")
    old.call("ChangeMessageVisibility", url=url, ReceiptHandle=handle, VisibilityTimeout="60")
    batch = old.call(
        "DeleteMessageBatch", url=url, **{
            "DeleteMessageBatchRequestEntry.1.Id": "a",
            "DeleteMessageBatchRequestEntry.1.ReceiptHandle": handle,
            "DeleteMessageBatchRequestEntry.2.Id": "b",
            "DeleteMessageBatchRequestEntry.2.ReceiptHandle": "?",
        },
    )  # fmt: skip
    assert [
        one.find(f"{XML}Id").text for one in batch.iter(f"{XML}DeleteMessageBatchResultEntry")
    ] == ["a"]  # type: ignore[union-attr]
    assert texts(batch, "Code") == ["ReceiptHandleIsInvalid"]
    many = {}
    for n in range(1, 3):
        many[f"SendMessageBatchRequestEntry.{n}.Id"] = f"m{n}"
        many[f"SendMessageBatchRequestEntry.{n}.MessageBody"] = "x"
    assert len(texts(old.call("SendMessageBatch", url=url, **many), "MessageId")) == 2
    found = old.call("GetQueueAttributes", url=url, **{"AttributeName.1": "All"})
    values = dict(zip(texts(found, "Name"), texts(found, "Value"), strict=True))
    assert values["ApproximateNumberOfMessages"] == "2"
    assert texts(old.call("ListQueues"), "QueueUrl") == [url]
    old.call("DeleteQueue", url=url)
    error = old.call("GetQueueUrl", 400, QueueName="jobs")
    assert texts(error, "Code") == ["AWS.SimpleQueueService.NonExistentQueue"]
    assert texts(error, "Type") == ["Sender"]


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        ("InvalidAction", {"Action": "Nothing"}),
        ("MissingParameter", {"Action": "CreateQueue"}),
        ("SerializationException", {"Action": "ReceiveMessage", "QueueUrl": "x",
                                    "MaxNumberOfMessages": "many"}),
    ],
)  # fmt: skip
def test_wrong_forms(service: Service, code: str, fields: dict[str, str]) -> None:
    action, status = fields["Action"], 404 if code == "InvalidAction" else 400
    fields = {name: value for name, value in fields.items() if name != "Action"}
    assert texts(OldClient(service).call(action, status, **fields), "Code") == [code]


def test_the_root_serves_too(service: Service) -> None:
    sqs = service.client(path="")
    url = sqs.create_queue(QueueName="jobs")["QueueUrl"]
    assert url == f"{service.url}/000000000000/jobs"
    sqs.send_message(QueueUrl=url, MessageBody="x")
    assert httpx2.get(service.url + "/", follow_redirects=False).status_code == 307


def test_a_presigned_request(service: Service) -> None:
    old = OldClient(service)
    request = AWSRequest("GET", old.url + "?Action=ListQueues&QueueNamePrefix=a%20b")
    SigV4QueryAuth(old.keys, "sqs", "us-east-1", expires=60).add_auth(request)
    assert httpx2.get(request.url).status_code == 200
    assert httpx2.get(request.url.replace("a%20b", "c")).status_code == 403
    asked = parse_qs(urlsplit(request.url).query)
    assert asked["X-Amz-Expires"] == ["60"]


def test_signatures_that_do_not_hold(service: Service, refused: Any) -> None:
    keys = service.keys("operate", "sign")
    good = client_of(f"{service.url}/sqs", **keys)
    good.list_queues()
    wrong = client_of(f"{service.url}/sqs", **{**keys, "aws_secret_access_key": "x"})
    refused(wrong.list_queues, "SignatureDoesNotMatch")
    unknown = client_of(f"{service.url}/sqs", **{**keys, "aws_access_key_id": "AKIAIOSFODNN7"})
    refused(unknown.list_queues, "InvalidClientTokenId")
    unsigned = service.client("operate")
    refused(unsigned.list_queues, "InvalidClientTokenId", "sign:*")
    assert httpx2.post(f"{service.url}/sqs/", data={"Action": "ListQueues"}).status_code == 403
    token = {"Authorization": f"Bearer {service.bearer}"}
    answer = httpx2.post(f"{service.url}/sqs/", data={"Action": "ListQueues"}, headers=token)
    assert answer.status_code == 200, "a token by itself, for curl"


@pytest.mark.parametrize(("minutes", "holds"), [(0, True), (-14, True), (-16, False), (16, False)])
def test_an_old_signature_does_not_hold(
    service: Service, monkeypatch: Any, minutes: int, holds: bool
) -> None:
    old = OldClient(service)
    at = datetime.now(UTC) + timedelta(minutes=minutes)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: at.replace(tzinfo=None))
    old.call("ListQueues", 200 if holds else 403)


def test_rights_and_namespaces(service: Service, refused: Any) -> None:
    operator = service.client()
    url = operator.create_queue(QueueName="jobs")["QueueUrl"]
    sender = service.client("produce:jobs", "sign")
    sender.send_message(QueueUrl=url, MessageBody="x")
    refused(sender.receive_message, "AccessDenied", QueueUrl=url)
    refused(sender.create_queue, "AccessDenied", QueueName="other")
    refused(sender.purge_queue, "AccessDenied", QueueUrl=url)
    tenant = service.client("operate", "sign", namespace="acme")
    refused(tenant.send_message, "AWS.SimpleQueueService.NonExistentQueue",
            QueueUrl=url, MessageBody="x")  # fmt: skip
    theirs = tenant.create_queue(QueueName="jobs")["QueueUrl"]
    assert re.fullmatch(r"\d{12}", theirs.split("/")[-2])
    assert theirs != url
    assert "Messages" not in tenant.receive_message(QueueUrl=theirs)
    assert tenant.list_queues()["QueueUrls"] == [theirs]


@pytest.mark.parametrize(
    ("body", "target"),
    [
        (b"{", "AmazonSQS.ListQueues"), (b"[]", "AmazonSQS.SendMessage"), (b"", "Other.ListQueues"),
        (b'{"QueueUrl": 5, "MessageBody": "x"}', "AmazonSQS.SendMessage"),
        (b"[" * 100_000, "AmazonSQS.SendMessage"), (b'"\xff"', "AmazonSQS.SendMessage"),
        (b'{"QueueUrl": "\\ud800", "MessageBody": "x"}', "AmazonSQS.SendMessage"),
        (b'{"QueueUrl": "http://x/../\\u0000", "MessageBody": "x"}', "AmazonSQS.SendMessage"),
    ],
)  # fmt: skip
def test_hostile_json(service: Service, body: bytes, target: str) -> None:
    service.keys("operate")
    headers = {"X-Amz-Target": target, "Authorization": f"Bearer {service.bearer}"}
    answer = httpx2.post(f"{service.url}/sqs/", content=body, headers=headers)
    assert answer.status_code in (400, 404), answer.text
    assert answer.json()["__type"].startswith("com.amazonaws.sqs#")


@pytest.mark.parametrize(
    "value", ["\xe9", "Credential=a/b/c/sqs/aws4_request, SignedHeaders=host, Signature=\xe9", "x"]
)
def test_hostile_signatures(service: Service, value: str) -> None:
    id_ = service.keys("operate", "sign")["aws_access_key_id"]
    text = f"AWS4-HMAC-SHA256 {value}".replace("=a/b/c", f"={id_}/20260101/x")
    now = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    headers = {"Authorization": text.replace("20260101", now[:8]).encode("latin-1"),
               "X-Amz-Date": now.encode(), "X-Amz-Target": b"AmazonSQS.ListQueues"}  # fmt: skip
    answer = httpx2.post(f"{service.url}/sqs/", content=b"{}", headers=headers)
    assert answer.status_code == 403, answer.text


@pytest.mark.parametrize("seconds", ["0", "604801", "0" * 9 + "9" * 5_000, "\u0665", "x"])
def test_hostile_lifetimes(service: Service, seconds: str) -> None:
    asked = {"Action": "ListQueues", "X-Amz-Algorithm": "AWS4-HMAC-SHA256"}
    answer = httpx2.get(f"{service.url}/sqs/", params={**asked, "X-Amz-Expires": seconds})
    assert answer.status_code == 403, answer.text


def test_an_address_that_is_none(service: Service, refused: Any) -> None:
    for wrong in ("http://[x", "", "a b"):
        refused(service.client().purge_queue, "InvalidAddress", QueueUrl=wrong)
