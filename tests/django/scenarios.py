"""What is tried in the project, in a process of its own: see `test_backend.py`."""

# ruff: noqa: E402 - Django is set up first
import asyncio
import json
import os
import time
import traceback
from datetime import timedelta

import django

django.setup()

from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client
from django.test.utils import setup_test_environment
from django.utils import timezone

from tests.django.shop import tasks
from tests.django.shop.models import Order
from turnabout.django.api import TaskResultDoesNotExist, signals, task_backends
from turnabout.django.runner import worker_of

backend = task_backends["default"]
LIST = "/admin/turnabout/queuemessage/"


def work():
    return worker_of(backend, sorted(backend.queues), 2).run(until_empty=True)


def purge():
    for name in (*backend.queues, "bad-dead"):
        backend.connection.queue(name).purge()


def raised(kind, call):
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"{kind} was not raised")


def migrate_brings_schema_and_queues():
    call_command("migrate", run_syncdb=True, verbosity=0)
    names = {entry.name: entry.settings for entry in backend.connection.queues()}
    assert backend.queues <= names.keys()
    assert names["emails"].history_payload
    assert names["emails"].max_attempts == 2
    call_command("migrate", verbosity=0)
    call_command("makemigrations", "turnabout", check=True, dry_run=True, verbosity=0)
    call_command("check")


def a_commit_sends_and_a_rollback_does_not():
    with transaction.atomic():
        order = Order.objects.create()
        sent = tasks.confirm.enqueue(order.id)
    try:
        with transaction.atomic():
            tasks.add.enqueue(order.id)
            raise KeyError
    except KeyError:
        pass
    with transaction.atomic():
        kept = tasks.add.enqueue(1)
        try:
            with transaction.atomic():
                tasks.add.enqueue(2)
                raise KeyError
        except KeyError:
            pass
    assert work().handled == 2
    order.refresh_from_db()
    assert order.state == "confirmed"
    sent.refresh()
    kept.refresh()
    assert (sent.return_value, kept.return_value) == (None, 2)


def the_first_send_of_all_in_a_transaction():
    backend.connection.queue("default").delete()
    backend.close()
    with transaction.atomic():
        Order.objects.create()
        result = tasks.add.enqueue(20, b=3)
    assert work().handled == 1
    assert backend.get_result(result.id).return_value == 23


def channel_and_priority():
    purge()
    tasks.send_email.enqueue("a", customer="acme", cc="x")
    tasks.send_email.enqueue("b", "other")
    tasks.send_email.using(priority=-5).enqueue("c")
    tasks.fixed.enqueue()
    tasks.add.enqueue(1)
    emails = backend.connection.queue("emails").peek()
    assert [one.channel for one in emails] == ["acme", "other", "nobody"]
    assert [one.priority for one in emails] == [-10, -10, 5]
    assert emails[0].json() == {"args": ["a"], "kwargs": {"customer": "acme", "cc": "x"}}
    channels = [one.channel for one in backend.connection.queue("default").peek()]
    assert channels == ["fixed", "of-add"]
    purge()


def run_after_is_an_instant():
    at = timezone.now() + timedelta(hours=1)
    result = tasks.add.using(run_after=at).enqueue(1)
    (one,) = backend.connection.queue("default").peek()
    assert one.state == "scheduled"
    assert 0 <= one.due_at - at.timestamp() * 1000 < 1
    assert work().handled == 0
    assert backend.get_result(result.id).status == "READY"
    purge()
    past = tasks.add.using(run_after=timezone.now() - timedelta(hours=1)).enqueue(1)
    work()
    past.refresh()
    assert past.return_value == 2


def results():
    seen = []

    def heard(sender, task_result, signal, **_):
        seen.append((task_result.task.name, task_result.status.value, signal))

    for signal in (signals.task_enqueued, signals.task_started, signals.task_finished):
        signal.connect(heard)
    one, two = tasks.who.enqueue(7), tasks.later.enqueue(4)
    assert (one.status, one.attempts, one.is_finished) == ("READY", 0, False)
    assert one.status.label == "Ready"
    work()
    one.refresh()
    assert one.status == "SUCCESSFUL"
    assert (one.return_value, one.attempts, one.args) == ([7, 1, one.id], 1, [7])
    assert one.enqueued_at <= one.started_at <= one.finished_at
    assert one.errors == []
    assert tasks.later.get_result(two.id).return_value == 8
    assert [status for name, status, _ in seen if name == "who"] == [
        "READY", "RUNNING", "SUCCESSFUL",
    ]  # fmt: skip
    for signal in (signals.task_enqueued, signals.task_started, signals.task_finished):
        signal.disconnect(heard)
    for wrong in ("default:999999", "nothing:1", "default:x", "x", "", "default:0"):
        raised(TaskResultDoesNotExist, lambda wrong=wrong: backend.get_result(wrong))


def errors():
    ended = []

    def heard(sender, task_result, **_):
        ended.append((task_result.task.name, task_result.status.value, len(task_result.errors)))

    signals.task_finished.connect(heard)
    bad, gave_up, flaky = (
        tasks.boom.enqueue("no\nway"),
        tasks.give_up.enqueue(),
        tasks.flaky.enqueue(),
    )
    stats = work()
    signals.task_finished.disconnect(heard)
    assert stats.failed == 4
    assert sorted(ended) == [
        ("boom", "FAILED", 1), ("flaky", "SUCCESSFUL", 0), ("give_up", "FAILED", 1),
    ]  # fmt: skip
    bad.refresh()
    assert (bad.status, bad.attempts) == ("FAILED", 2)
    assert [one.exception_class for one in bad.errors] == [LookupError, LookupError]
    assert "Traceback" in bad.errors[0].traceback
    assert "raise LookupError(text)" in bad.errors[0].traceback
    assert raised(ValueError, lambda: bad.return_value) == "Task failed"
    gave_up.refresh()
    assert [one.traceback for one in gave_up.errors] == ["there is no point"]
    assert gave_up.errors[0].exception_class.__name__ == "GiveUp"
    flaky.refresh()
    assert (flaky.return_value, flaky.attempts) == (2, 2)
    assert [one.exception_class for one in flaky.errors] == [ConnectionError]
    stopped = tasks.add.enqueue(1)
    backend.connection.queue("default").cancel([int(stopped.id.rpartition(":")[2])])
    stopped.refresh()
    assert (stopped.status, stopped.errors[0].traceback[:18]) == ("FAILED", "outcome: cancelled")
    assert stopped.errors[0].exception_class.__name__ == "TaskStopped"
    purge()


def messages_of_others():
    queue = backend.connection.queue("bad")
    queue.send({"args": [], "kwargs": {}}, headers={"task": "os.getcwd"})
    queue.send({"args": []}, headers={"task": "tests.django.shop.tasks.boom"})
    queue.send(b"\xff")
    assert work().failed == 3
    dead = [one.origin.last_error for one in backend.connection.queue("bad-dead").peek()]
    assert dead[0] == "os.getcwd is not a task: it needs Django's @task (header `task`)"
    assert dead[1].startswith("the payload is not")
    assert dead[2].startswith("the task '' can't be imported")
    purge()


def on_asyncio():
    async def main():
        result = await tasks.later.aenqueue(21)
        await asyncio.to_thread(work)
        await result.arefresh()
        return result.return_value, (await tasks.later.aget_result(result.id)).return_value

    assert asyncio.run(main()) == (42, 42)


def refusals():
    assert "not valid for backend" in raised(Exception, lambda: tasks.add.using(queue_name="no"))
    raised(TypeError, lambda: tasks.add.enqueue(object()))
    queue = backend.connection.queue("default")
    queue.update(max_messages=1)
    tasks.add.enqueue(1)
    assert "QueueFull" in raised(Exception, lambda: tasks.add.enqueue(1))
    queue.update(max_messages=None)
    purge()
    made = type(backend)(
        "x", {"BACKEND": "", "QUEUES": ["no good"], "OPTIONS": {"settings": {"a": 1}}}
    )
    assert len(list(made.check())) == 2
    assert "unknown OPTIONS: urls" in raised(
        Exception, lambda: type(backend)("x", {"OPTIONS": {"urls": ""}})
    )


def browser(*permissions):
    user = User.objects.create_user(f"u{time.monotonic_ns()}", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


def the_admin_lists_and_filters():
    purge()
    client = browser("view_queuemessage")
    bad, waits = tasks.boom.enqueue("<b>"), tasks.send_email.enqueue("ada", customer="acme")
    worker_of(backend, ["bad"], 1).run(until_empty=True)
    page = client.get(LIST, {"queue": "default:emails"}).content.decode()
    assert "tests.django.shop.tasks.send_email" in page
    assert "acme" in page
    assert 'name="key"' not in page  # no permission to change
    assert (
        "There are none"
        in client.get(LIST, {"queue": "default:emails", "channel": "x"}).content.decode()
    )
    assert (
        "There are none"
        in client.get(LIST, {"queue": "default:emails", "state": "leased"}).content.decode()
    )
    page = client.get(LIST, {"queue": "default:bad", "state": "dead"}).content.decode()
    assert "LookupError: &lt;b&gt;" in page
    page = client.get(f"{LIST}default_3A{bad.id.replace(':', '_3A')}/change/").content.decode()
    assert page.count("Traceback") == 2  # of each attempt
    assert "Died in bad" in page
    assert client.get(f"{LIST}default_3Abad_3A999999/change/").status_code == 302
    assert client.get(f"{LIST}add/").status_code == 403
    assert browser().get(LIST).status_code == 403
    assert browser().get("/admin/").status_code == 200
    waits.refresh()
    assert waits.status == "READY"


def the_admin_retries_and_cancels():
    purge()
    bad, waits = tasks.boom.enqueue("x"), tasks.send_email.enqueue("ada")
    worker_of(backend, ["bad"], 1).run(until_empty=True)
    keys = [f"default:{bad.id}", f"default:{waits.id}"]
    denied = browser("view_queuemessage").post(LIST, {"action": "retry", "key": keys})
    assert denied.status_code == 403
    client = browser("view_queuemessage", "change_queuemessage")
    page = client.post(LIST, {"action": "retry", "key": keys}, follow=True).content.decode()
    assert "2 messages: ready again." in page
    assert backend.get_result(bad.id).status == "READY"
    page = client.post(LIST, {"action": "cancel", "key": [*keys, "x"]}, follow=True)
    assert "2 messages: cancelled" in page.content.decode()
    assert backend.get_result(waits.id).status == "FAILED"
    page = client.post(LIST, {"action": "cancel", "key": keys}, follow=True).content.decode()
    assert "2 messages had ended before" in page
    assert "Choose messages" in client.post(LIST, {}, follow=True).content.decode()


def the_driver_and_the_framework():
    if connection.vendor == "postgresql":
        wanted = os.environ.get("TURNABOUT_TEST_DRIVER", "psycopg")
        connection.ensure_connection()
        assert type(connection.connection).__module__.partition(".")[0] == wanted


ALL = [
    migrate_brings_schema_and_queues,
    the_driver_and_the_framework,
    a_commit_sends_and_a_rollback_does_not,
    the_first_send_of_all_in_a_transaction,
    channel_and_priority,
    run_after_is_an_instant,
    results,
    errors,
    messages_of_others,
    on_asyncio,
    refusals,
    the_admin_lists_and_filters,
    the_admin_retries_and_cancels,
]

if __name__ == "__main__":
    setup_test_environment()
    told = {}
    for scenario in ALL:
        try:
            scenario()
            told[scenario.__name__] = ""
        except BaseException:  # noqa: BLE001 - the others are told, too
            told[scenario.__name__] = traceback.format_exc()
    connection.close()
    task_backends["default"].close()
    print(json.dumps(told))  # noqa: T201 - for the test
