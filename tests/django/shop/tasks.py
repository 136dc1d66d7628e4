"""Tasks of all kinds."""

from importlib.util import find_spec

from tests.django.shop.models import Order
from turnabout.django import channel
from turnabout.worker import GiveUp

if find_spec("django.tasks"):
    from django.tasks import task
else:
    from django_tasks import task


def by_default(task, args, kwargs):
    return f"of-{task.name}"


@task
def add(a, b=1):
    return a + b


@channel(lambda customer, **_: customer)
@task(queue_name="emails", priority=10)
def send_email(to, customer="nobody", **options):
    return {"to": to, **options}


@task
@channel("fixed")
def fixed(): ...


@task(takes_context=True)
def who(context, n):
    return [n, context.attempt, context.task_result.id]


@task
async def later(n):
    return n * 2


@task
def confirm(order):
    Order.objects.filter(id=order).update(state="confirmed")


@task(queue_name="bad")
def boom(text):
    raise LookupError(text)


@task(queue_name="bad")
def give_up():
    raise GiveUp("there is no point")


@task(takes_context=True)
def flaky(context):
    if context.attempt < 2:
        raise ConnectionError("down")
    return context.attempt
