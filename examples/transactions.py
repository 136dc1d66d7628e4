"""Rows and messages that commit together: `python examples/transactions.py [URL]`."""

import sqlite3
import sys

import turnabout

URL = sys.argv[1] if len(sys.argv) > 1 else "sqlite:///example.db"


def connect_to_shop():
    """A connection of your own to the same database: here sqlite3's, or psycopg's."""
    if URL.startswith("sqlite:///"):
        return sqlite3.connect(URL.removeprefix("sqlite:///"))
    import psycopg

    return psycopg.connect(URL)


with turnabout.connect(URL) as mq:
    emails = mq.queue("emails")
    emails.create()
    shop = connect_to_shop()
    for table in ("orders", "letters"):
        shop.execute(f"drop table if exists {table}")
        shop.execute(f"create table {table} (number integer primary key)")
    shop.commit()

    # An order and its message: both, or neither.
    for end in (shop.rollback, shop.commit):
        shop.execute("insert into orders values (1)")
        emails.within(shop).send({"order": 1})
        end()
        orders = shop.execute("select count(*) from orders").fetchone()[0]
        print(orders, "orders,", len(emails.peek()), "messages")

    # The work and the ack: both, or neither. So there is one letter, even after a crash in between.
    (message,) = emails.receive()
    shop.execute("insert into letters values (1)")
    (outcome,) = emails.within(shop).ack([message.receipt])
    if outcome == turnabout.Acked():
        shop.commit()
    else:  # LeaseLost: somebody else has it
        shop.rollback()
    letters = shop.execute("select count(*) from letters").fetchone()[0]
    shop.close()
    print(letters, "letter,", len(emails.peek()), "messages")

    # Without your own connection: policies and sends of several queues, all or nothing.
    with mq.batch() as batch:
        sent = batch.queue("emails").send("welcome", channel="customer-1")
        batch.queue("audit").send("customer-1 is new")
    print(type(sent.outcome).__name__, len(mq.queue("emails").receive(10)))

# It prints:
#   0 orders, 0 messages
#   1 orders, 1 messages
#   1 letter, 0 messages
#   Sent 1
