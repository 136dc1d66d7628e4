"""What a process remembers of a queue is never older than what the file says: another process may
have changed the queue between two verbs.
"""

import pytest

from turnabout.sqlite.store import SqliteStore
from turnabout.words.entities import Failure, Outgoing, Receipt, Turn
from turnabout.words.errors import QueueNotFound
from turnabout.words.outcomes import Acked, ChannelFull, LeaseLost, QueueFull, Sent
from turnabout.words.policy import QueueSettings
from turnabout.words.verbs import (
    Ack,
    Endings,
    Events,
    Fail,
    History,
    PolicySet,
    QueueCreate,
    QueueDelete,
    QueueUpdate,
    Receive,
    Release,
    Send,
    Stats,
)

PLAIN = QueueSettings(history_seconds=0)


@pytest.fixture
def stores(url):
    """Two processes' stores. The first knows the queue `q`, and has a message of it leased."""
    here, there = SqliteStore(url), SqliteStore(url)
    here.run(QueueCreate("q", PLAIN))
    for _ in range(3):
        here.run(send("x"))
    yield here, there
    here.close()
    there.close()


def send(payload, **given) -> Send:
    return Send("q", (Outgoing(payload.encode(), **given),))


def leased(store: SqliteStore) -> Receipt:
    (delivery,) = store.run(Receive("q", 1)).deliveries
    return delivery.receipt


def test_a_new_limit_of_the_queue_refuses_the_next_send(stores):
    here, there = stores
    there.run(QueueUpdate("q", {"max_messages": 3}))
    assert here.run(send("x")) == QueueFull(3, 3)
    there.run(QueueUpdate("q", {"max_messages": None}))
    assert here.run(send("x")) == Sent((4,))


def test_so_does_one_of_a_channel(stores):
    here, there = stores
    there.run(PolicySet("q", "", {"max_size": 3}))
    assert here.run(send("x")) == ChannelFull("", 3, 3)
    assert here.run(send("x", channel="other")) == Sent((4,))


@pytest.mark.parametrize("most", [1, 2])
def test_a_limited_or_paused_queue_hands_out_what_it_may(stores, most):
    here, there = stores
    leased(here)
    there.run(PolicySet("q", "", {"max_concurrency": 1}))
    assert here.run(Receive("q", most)).deliveries == ()
    there.run(PolicySet("q", "", {"max_concurrency": None}))
    there.run(QueueUpdate("q", {"paused": True}))
    assert here.run(Receive("q", most)).deliveries == ()
    there.run(QueueUpdate("q", {"paused": False}))
    assert here.run(Receive("q", most)).deliveries


def test_an_ack_is_kept_from_when_history_is(stores):
    here, there = stores
    one, two = leased(here), leased(here)
    assert here.run(Ack("q", (one,))) == (Acked(),)
    there.run(QueueUpdate("q", {"history_seconds": 60.0}))
    assert here.run(Ack("q", (two,))) == (Acked(),)
    endings = here.run(Endings("q", (one.id, two.id)))
    assert [ending and ending.outcome for ending in endings] == ["unknown", "done"]
    assert here.run(Stats("q"))[0].done == 2


def test_history_is_kept_as_it_is_wanted_now(stores):
    here, there = stores
    there.run(QueueUpdate("q", {"history_seconds": 60.0}))
    one, two, three = (leased(here) for _ in range(3))
    assert here.run(Ack("q", (two, one))) == (Acked(), Acked())
    there.run(QueueUpdate("q", {"history_payload": True}))
    assert here.run(Ack("q", (three, two))) == (Acked(), LeaseLost("gone"))
    entries = here.run(History("q", 9)).entries
    assert [(entry.id, entry.payload) for entry in entries] == [
        (three.id, b"x"),
        (one.id, None),
        (two.id, None),
    ]
    assert here.run(Stats("q"))[0].done == 3


def test_events_are_noted_from_when_they_are_wanted(stores):
    here, there = stores
    there.run(QueueUpdate("q", {"events": "all"}))
    cursor = here.run(Events("q")).cursor
    here.run(send("x"))
    here.run(Ack("q", (leased(here),)))
    kinds = [event.kind for event in here.run(Events("q", cursor)).events]
    assert kinds == ["created", "leased", "done"]


def test_another_queue_of_the_same_name_is_another(stores):
    here, there = stores
    receipt = leased(here)
    there.run(QueueDelete("q"))
    with pytest.raises(QueueNotFound):
        here.run(Receive("q", 1))
    with pytest.raises(QueueNotFound):
        here.run(Ack("q", (receipt,)))
    there.run(QueueCreate("q", QueueSettings(history_seconds=0, max_messages=1)))
    assert here.run(Ack("q", (receipt,))) == (LeaseLost("gone"),)
    assert isinstance(here.run(send("x")), Sent)
    assert here.run(send("x")) == QueueFull(1, 1)


def test_receives_of_one_go_round_the_channels(stores):
    here, _ = stores
    for channel in ("b", "a", "b", "a"):
        here.run(send("x", channel=channel))
    turn, seen = Turn(), []
    for _ in range(7):
        (delivery,) = here.run(Receive("q", 1, turn=turn)).deliveries
        turn = Turn(delivery.channel, 1)
        seen.append(delivery.channel)
    assert seen == ["", "a", "b", "", "a", "b", ""]
    assert here.run(Receive("q", 1, turn=turn)).retry_after_ms is not None


def test_no_id_is_given_twice_whatever_is_acked_beside_it(stores):
    """The dead-letter queue's own newest message, and one whose id is of a later block."""
    here, _ = stores
    own = here.run(Send("p-dead", (Outgoing(b"own"),))).id
    tried = here.run(Receive("p-dead", 1)).deliveries[0].receipt
    here.run(Release("p-dead", (tried,)))
    here.run(Send("p", (Outgoing(b"dies"),)))
    dying = here.run(Receive("p", 1)).deliveries[0].receipt
    here.run(Fail("p", (Failure(dying, "x", retry=False),)))
    both = tuple(one.receipt for one in here.run(Receive("p-dead", 2)).deliveries)
    assert [receipt.attempt for receipt in both] == [2, 2]
    assert here.run(Ack("p-dead", both)) == (Acked(), Acked())
    assert here.run(Send("p-dead", (Outgoing(b"x"),))).id == own + 1
