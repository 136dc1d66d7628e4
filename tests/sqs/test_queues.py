"""Queues by boto3: attributes, tags, dead letters and their way back, FIFO, errors."""

import json
import time
from typing import Any

import pytest

FIFO = {"FifoQueue": "true"}
NONE = "AWS.SimpleQueueService.NonExistentQueue"


def made(sqs: Any, name: str, **attributes: str) -> str:
    return sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]


def attributes(sqs: Any, url: str, *names: str) -> dict[str, str]:
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names or ("All",))
    return found.get("Attributes", {})


def arn(sqs: Any, url: str) -> str:
    return attributes(sqs, url, "QueueArn")["QueueArn"]


def bodies(sqs: Any, url: str, **more: Any) -> list[str]:
    more = {"MaxNumberOfMessages": 10, **more}
    return [one["Body"] for one in sqs.receive_message(QueueUrl=url, **more).get("Messages", [])]


def test_a_queue_is_made_found_listed_and_deleted(sqs: Any, service: Any, refused: Any) -> None:
    url = made(sqs, "jobs", VisibilityTimeout="5", DelaySeconds="2")
    assert url == f"{service.url}/sqs/000000000000/jobs"
    assert sqs.get_queue_url(QueueName="jobs")["QueueUrl"] == url
    assert made(sqs, "jobs", VisibilityTimeout="5") == url
    refused(
        sqs.create_queue, "QueueAlreadyExists", "VisibilityTimeout",
        QueueName="jobs", Attributes={"VisibilityTimeout": "6"},
    )  # fmt: skip
    settings = service.mq.queue("jobs").settings()
    assert (settings.lease_seconds, settings.delay_seconds, settings.max_attempts) == (5, 2, None)
    made(sqs, "other")
    assert sqs.list_queues()["QueueUrls"] == [url, url.replace("jobs", "other")]
    assert sqs.list_queues(QueueNamePrefix="o")["QueueUrls"] == [url.replace("jobs", "other")]
    first = sqs.list_queues(MaxResults=1)
    assert first["QueueUrls"] == [url]
    rest = sqs.list_queues(MaxResults=1, NextToken=first["NextToken"])
    assert (rest["QueueUrls"], "NextToken" in rest) == ([url.replace("jobs", "other")], False)
    sqs.delete_queue(QueueUrl=url)
    refused(sqs.get_queue_url, NONE, QueueName="jobs")
    refused(sqs.send_message, NONE, QueueUrl=url, MessageBody="x")
    assert {one.name for one in service.mq.queues()} == {"other", "other-dead"}


def test_attributes_are_read_and_set(sqs: Any, refused: Any) -> None:
    url = made(sqs, "jobs")
    found = attributes(sqs, url)
    assert found["MaximumMessageSize"] == "1048576"
    assert found["QueueArn"] == "arn:aws:sqs:eu-west-1:000000000000:jobs"
    assert abs(int(found["CreatedTimestamp"]) - time.time()) < 60
    change = {"VisibilityTimeout": "0", "MaximumMessageSize": "1024", "Policy": '{"Id": "x"}'}
    sqs.set_queue_attributes(QueueUrl=url, Attributes=change)
    assert {name: attributes(sqs, url)[name] for name in change} == change
    refused(
        sqs.send_message, "InvalidParameterValue", "1024", QueueUrl=url, MessageBody="x" * 1_025
    )
    assert attributes(sqs, url, "DelaySeconds") == {"DelaySeconds": "0"}
    for wrong in ({"DelaySeconds": "901"}, {"VisibilityTimeout": "x"}, {"Policy": "{"}):
        refused(sqs.set_queue_attributes, "InvalidAttributeValue", QueueUrl=url, Attributes=wrong)
    for wrong in ({"Nothing": "1"}, {"ContentBasedDeduplication": "true"}, FIFO):
        refused(sqs.set_queue_attributes, "InvalidAttributeName", QueueUrl=url, Attributes=wrong)
    refused(
        sqs.get_queue_attributes, "InvalidAttributeName", QueueUrl=url, AttributeNames=["Nothing"]
    )


@pytest.mark.parametrize("name", ["a b", "x" * 81, "ü", "x.y", "jobs.fifo", "_x", ""])
def test_wrong_names_are_refused(sqs: Any, refused: Any, name: str) -> None:
    refused(sqs.create_queue, "InvalidParameterValue", QueueName=name)
    made(sqs, "x" * 80)


def test_tags(sqs: Any, service: Any, refused: Any) -> None:
    url = sqs.create_queue(QueueName="jobs", tags={"team": "mail", "a": ""})["QueueUrl"]
    sqs.tag_queue(QueueUrl=url, Tags={"team": "ü", "env": "prod"})
    sqs.untag_queue(QueueUrl=url, TagKeys=["a", "none"])
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "ü", "env": "prod"}
    assert service.mq.queue("jobs").settings().labels["env"] == "prod"
    refused(sqs.tag_queue, "InvalidParameterValue", QueueUrl=url, Tags={"aws:x": "y"})
    many = {str(n): "x" for n in range(51)}
    refused(sqs.tag_queue, "InvalidParameterValue", QueueUrl=url, Tags=many)
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "1"})
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"]["env"] == "prod"


@pytest.mark.slow
def test_a_purge_leaves_nothing(sqs: Any) -> None:
    url = made(sqs, "jobs", VisibilityTimeout="1")
    for delay in (0, 0, 5):
        sqs.send_message(QueueUrl=url, MessageBody="x", DelaySeconds=delay)
    assert len(bodies(sqs, url, MaxNumberOfMessages=1)) == 1
    sqs.purge_queue(QueueUrl=url)
    time.sleep(1.1)
    assert bodies(sqs, url) == []


def test_dead_letters_go_and_come_back(sqs: Any, refused: Any) -> None:
    dead, jobs = made(sqs, "graveyard"), made(sqs, "jobs")
    policy = {"deadLetterTargetArn": arn(sqs, dead), "maxReceiveCount": "2"}
    sqs.set_queue_attributes(QueueUrl=jobs, Attributes={"RedrivePolicy": json.dumps(policy)})
    assert json.loads(attributes(sqs, jobs)["RedrivePolicy"]) == policy
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [jobs]
    sent = sqs.send_message(QueueUrl=jobs, MessageBody="poison", MessageGroupId="g")
    for _ in range(2):
        assert bodies(sqs, jobs, VisibilityTimeout=0, WaitTimeSeconds=5) == ["poison"]
        time.sleep(0.05)
    assert bodies(sqs, jobs) == []
    (letter,) = sqs.receive_message(
        QueueUrl=dead, VisibilityTimeout=0, AttributeNames=["All"], WaitTimeSeconds=5
    )["Messages"]
    assert letter["MessageId"] == sent["MessageId"]
    assert letter["Attributes"]["DeadLetterQueueSourceArn"] == arn(sqs, jobs)
    assert letter["Attributes"]["MessageGroupId"] == "g"
    time.sleep(0.05)
    task = sqs.start_message_move_task(SourceArn=arn(sqs, dead))["TaskHandle"]
    assert bodies(sqs, jobs, WaitTimeSeconds=10) == ["poison"]
    (told,) = sqs.list_message_move_tasks(SourceArn=arn(sqs, dead))["Results"]
    assert (told["Status"], told["ApproximateNumberOfMessagesMoved"]) == ("COMPLETED", 1)
    refused(sqs.cancel_message_move_task, "ResourceNotFoundException", TaskHandle=task)
    refused(sqs.start_message_move_task, "InvalidParameterValue", SourceArn=arn(sqs, jobs))
    refused(
        sqs.start_message_move_task, "ResourceNotFoundException",
        SourceArn=arn(sqs, jobs).replace("jobs", "none"),
    )  # fmt: skip
    sqs.set_queue_attributes(QueueUrl=jobs, Attributes={"RedrivePolicy": ""})
    assert "RedrivePolicy" not in attributes(sqs, jobs)
    sqs.set_queue_attributes(QueueUrl=jobs, Attributes={"RedrivePolicy": json.dumps(policy)})
    sqs.delete_queue(QueueUrl=dead)
    assert sqs.list_queues()["QueueUrls"] == [jobs]


def test_a_move_is_cancelled(sqs: Any) -> None:
    dead = made(sqs, "graveyard")
    policy = {"deadLetterTargetArn": arn(sqs, dead), "maxReceiveCount": 1}
    jobs, rest = made(sqs, "jobs", RedrivePolicy=json.dumps(policy)), made(sqs, "rest")
    for _ in range(5):
        sqs.send_message(QueueUrl=jobs, MessageBody="x")
    assert len(bodies(sqs, jobs, VisibilityTimeout=0)) == 5
    time.sleep(0.05)
    assert bodies(sqs, jobs) == []
    task = sqs.start_message_move_task(
        SourceArn=arn(sqs, dead), DestinationArn=arn(sqs, rest), MaxNumberOfMessagesPerSecond=1
    )["TaskHandle"]
    (told,) = sqs.list_message_move_tasks(SourceArn=arn(sqs, dead))["Results"]
    assert (told["Status"], told["TaskHandle"]) == ("RUNNING", task)
    stopped = sqs.cancel_message_move_task(TaskHandle=task)
    assert stopped["ApproximateNumberOfMessagesMoved"] <= 2


@pytest.mark.parametrize(
    ("policy", "word"),
    [
        ({"maxReceiveCount": 1}, "mandatory"),
        ({"deadLetterTargetArn": "arn:aws:sqs:eu-west-1:000000000000:none"}, "mandatory"),
        ({"deadLetterTargetArn": "none", "maxReceiveCount": 1}, "ARN"),
        (
            {"deadLetterTargetArn": "arn:aws:sqs:eu-west-1:0:none", "maxReceiveCount": 1},
            "does not exist",
        ),
        (
            {"deadLetterTargetArn": "arn:aws:sqs:eu-west-1:0:dead", "maxReceiveCount": 1_001},
            "1000",
        ),
        (
            {"deadLetterTargetArn": "arn:aws:sqs:eu-west-1:0:dead.fifo", "maxReceiveCount": 1},
            "same type",
        ),
        (
            {"deadLetterTargetArn": "arn:aws:sqs:eu-west-1:0:closed", "maxReceiveCount": 1},
            "allow",
        ),
    ],
)
def test_wrong_redrive_policies(sqs: Any, refused: Any, policy: Any, word: str) -> None:
    made(sqs, "dead")
    made(sqs, "dead.fifo", **FIFO)
    made(sqs, "closed", RedriveAllowPolicy='{"redrivePermission": "denyAll"}')
    given = {"RedrivePolicy": json.dumps(policy)}
    refused(sqs.create_queue, "InvalidParameterValue", word, QueueName="jobs", Attributes=given)


# --- FIFO ----------------------------------------------------------------------------------------


@pytest.fixture
def fifo(sqs: Any) -> str:
    return made(sqs, "jobs.fifo", **FIFO, ContentBasedDeduplication="true")


def test_a_group_is_in_order_and_closed_while_it_is_out(sqs: Any, fifo: str) -> None:
    numbers = [
        sqs.send_message(QueueUrl=fifo, MessageBody=str(n), MessageGroupId="g")["SequenceNumber"]
        for n in range(12)
    ]
    assert numbers == sorted(numbers)
    assert {len(one) for one in numbers} == {20}
    got = sqs.receive_message(QueueUrl=fifo, MaxNumberOfMessages=10)["Messages"]
    assert [one["Body"] for one in got] == [str(n) for n in range(10)]
    assert bodies(sqs, fifo) == []
    entries = [{"Id": str(n), "ReceiptHandle": m["ReceiptHandle"]} for n, m in enumerate(got)]
    sqs.delete_message_batch(QueueUrl=fifo, Entries=entries[:9])
    assert bodies(sqs, fifo) == [], "one of the run is out"
    sqs.change_message_visibility(
        QueueUrl=fifo, ReceiptHandle=entries[9]["ReceiptHandle"], VisibilityTimeout=0
    )
    assert bodies(sqs, fifo) == ["9", "10", "11"]


def test_groups_do_not_wait_for_each_other(sqs: Any, fifo: str) -> None:
    for group in "ab":
        sqs.send_message(QueueUrl=fifo, MessageBody=group, MessageGroupId=group)
    assert bodies(sqs, fifo, MaxNumberOfMessages=1) == ["a"]
    assert bodies(sqs, fifo) == ["b"]


def test_what_is_sent_twice_is_sent_once(sqs: Any, fifo: str) -> None:
    def send(body: str, **more: str) -> tuple[str, str]:
        told = sqs.send_message(QueueUrl=fifo, MessageBody=body, **{"MessageGroupId": "g", **more})
        return told["MessageId"], told["SequenceNumber"]

    first = send("x")
    assert send("x") == first
    assert send("x", MessageGroupId="h") == first, "the queue's scope"
    other = send("x", MessageDeduplicationId="1")
    assert other != first
    assert send("y", MessageDeduplicationId="1") == other
    got = sqs.receive_message(QueueUrl=fifo, MaxNumberOfMessages=10, AttributeNames=["All"])
    assert [one["MessageId"] for one in got["Messages"]] == [first[0], other[0]]
    assert got["Messages"][1]["Attributes"]["MessageDeduplicationId"] == "1"
    for one in got["Messages"]:
        sqs.delete_message(QueueUrl=fifo, ReceiptHandle=one["ReceiptHandle"])
    assert send("x") == first, "also after it was deleted"
    assert bodies(sqs, fifo) == []


def test_a_scope_of_groups(sqs: Any) -> None:
    url = made(sqs, "g.fifo", **FIFO, DeduplicationScope="messageGroup")
    for group in "aab":
        sqs.send_message(
            QueueUrl=url, MessageBody=group, MessageGroupId=group, MessageDeduplicationId="1"
        )
    assert sorted(bodies(sqs, url)) == ["a", "b"]


def test_wrong_sends_and_deletes_of_fifo_queues(sqs: Any, refused: Any) -> None:
    url = made(sqs, "jobs.fifo", **FIFO)
    send = {"QueueUrl": url, "MessageBody": "x"}
    refused(sqs.send_message, "InvalidParameterValue", "ContentBased", **send, MessageGroupId="g")
    refused(sqs.send_message, "MissingParameter", **send, MessageDeduplicationId="1")
    both = {"MessageGroupId": "g", "MessageDeduplicationId": "1"}
    refused(sqs.send_message, "InvalidParameterValue", **send, **both, DelaySeconds=1)
    sqs.send_message(**send, **both)
    (got,) = sqs.receive_message(QueueUrl=url, VisibilityTimeout=0)["Messages"]
    time.sleep(0.05)
    assert bodies(sqs, url) == ["x"]
    which = {"QueueUrl": url, "ReceiptHandle": got["ReceiptHandle"]}
    refused(sqs.delete_message, "InvalidParameterValue", "expired", **which)
    refused(sqs.create_queue, "InvalidParameterValue", QueueName="jobs", Attributes=FIFO)


def test_a_receive_is_repeated_by_its_attempt_id(sqs: Any, fifo: str) -> None:
    sqs.send_message(QueueUrl=fifo, MessageBody="x", MessageGroupId="g")
    one = sqs.receive_message(QueueUrl=fifo, ReceiveRequestAttemptId="1")["Messages"]
    assert sqs.receive_message(QueueUrl=fifo, ReceiveRequestAttemptId="1")["Messages"] == one
    assert bodies(sqs, fifo, ReceiveRequestAttemptId="2") == []


def test_an_attempt_that_lost_its_messages_is_not_repeated(sqs: Any, fifo: str) -> None:
    sqs.send_message(QueueUrl=fifo, MessageBody="x", MessageGroupId="g")
    ask = {"QueueUrl": fifo, "ReceiveRequestAttemptId": "1"}
    (one,) = sqs.receive_message(**ask)["Messages"]
    which = {"QueueUrl": fifo, "ReceiptHandle": one["ReceiptHandle"]}
    sqs.change_message_visibility(**which, VisibilityTimeout=0)
    (again,) = sqs.receive_message(QueueUrl=fifo)["Messages"]
    assert "Messages" not in sqs.receive_message(**ask)
    sqs.delete_message(QueueUrl=fifo, ReceiptHandle=again["ReceiptHandle"])


# --- queues of others ----------------------------------------------------------------------------


def test_what_is_not_set_stays_as_another_program_has_it(sqs: Any, service: Any) -> None:
    queue = service.mq.queue("jobs")
    queue.create(lease_seconds=7, max_attempts=3, backoff_seconds=9, dedup_window_seconds=60)
    before = queue.settings()
    url = sqs.get_queue_url(QueueName="jobs")["QueueUrl"]
    found = attributes(sqs, url)
    assert found["VisibilityTimeout"] == "7"
    assert json.loads(found["RedrivePolicy"])["deadLetterTargetArn"].endswith(":jobs-dead")
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "5"})
    after = queue.settings()
    assert after.delay_seconds == 5
    assert after.changed({"delay_seconds": 0.0, "labels": None}) == before
    queue.update(lease_seconds=9)
    assert attributes(sqs, url)["VisibilityTimeout"] == "9"


def test_a_deleted_dead_letter_queue_does_not_come_back(sqs: Any, service: Any) -> None:
    dead = made(sqs, "graveyard")
    policy = json.dumps({"deadLetterTargetArn": arn(sqs, dead), "maxReceiveCount": 1})
    url = made(sqs, "jobs", RedrivePolicy=policy)
    sqs.delete_queue(QueueUrl=dead)
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "0"})
    assert "RedrivePolicy" not in attributes(sqs, url)
    assert "graveyard" not in {one.name for one in service.mq.queues()}
