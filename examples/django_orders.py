"""Django's models and messages, committed together: `python examples/django_orders.py [URL]`."""

import sys
from contextlib import closing

import django
from django.conf import settings
from django.db import connection, models, transaction

import turnabout
from turnabout.worker import Worker

URL = sys.argv[1] if len(sys.argv) > 1 else "sqlite:///example.db"
if URL.startswith("sqlite:///"):
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": URL.removeprefix("sqlite:///")}
else:
    from psycopg.conninfo import conninfo_to_dict

    where = conninfo_to_dict(URL)
    database = {"ENGINE": "django.db.backends.postgresql", "NAME": where.pop("dbname")}
    database["OPTIONS"] = where
settings.configure(DATABASES={"default": database})  # yours are in settings.py
django.setup()


class Order(models.Model):
    state = models.TextField(default="new")

    class Meta:
        app_label = "shop"


mq = turnabout.connect(URL)  # once, in a module that views and workers import
emails = mq.queue("emails")
worker = Worker(URL)


@worker.handler("emails")
def confirm(message):
    with closing(connection), transaction.atomic():  # a thread's connection is its own to close
        Order.objects.filter(id=message.json()["order"]).update(state="confirmed")
        (outcome,) = emails.within(connection).ack([message.receipt])
        if outcome != turnabout.Acked():
            raise RuntimeError("the lease was lost, so nothing of this is to stay")
    message.mark_settled()  # what the transaction did, the worker need not do


with connection.schema_editor() as editor:  # as migrations do
    editor.create_model(Order)
with transaction.atomic():  # in a view
    order = Order.objects.create()
    emails.within(connection).send({"order": order.id}, channel="customer-1")
print(worker.run(until_empty=True).handled, Order.objects.get().state, len(emails.peek()))
with closing(connection), connection.schema_editor() as editor:
    editor.delete_model(Order)
mq.close()

# It prints:
#   1 confirmed 0
