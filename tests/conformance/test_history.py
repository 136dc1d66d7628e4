"""History: a row for each message that ended, how long it stays, and how it is asked for."""

import pytest

from tests.conformance.steps import acked, counts, finished, grave_of, maintained, one, sent
from tests.support.each import each
from turnabout import QueueNotFound, UsageError, message


def ended(queue, outcome, text="x", *, clock=None, **options):
    """Send a message and end it so; its id."""
    options |= {"ttl_seconds": 0.001} if outcome == "expired" else {}
    number = queue.send_many([message(text, **options)]).id
    match outcome:
        case "done":
            acked(queue, one(queue), "fine")
        case "dead":
            one(queue).fail(f"error of {text}", retry=False)
        case "cancelled":
            queue.cancel((number,))
        case "expired":
            clock.advance(ms=1)
            assert not queue.receive()
    return number


OUTCOMES = ["done", "dead", "cancelled", "expired"]


@pytest.mark.parametrize("payload", [False, True])
@pytest.mark.driving
def test_a_row_tells_the_whole_story(door, clock, payload):
    queue = door.fresh(history_payload=payload, backoff_seconds=0)
    began = clock.now
    (number,) = sent(queue, "a", channel="c", headers={"h": "v"}, content_type="text/x")
    clock.advance(1)
    one(queue).fail("first error")
    clock.advance(1)
    last = one(queue)
    clock.advance(1)
    acked(queue, last, {"n": 1})
    (row,) = finished(queue)
    assert (row.id, row.channel, row.outcome) == (number, "c", "done")
    assert (row.sent_at, row.leased_at, row.finished_at) == (began, began + 2_000, began + 3_000)
    assert (row.attempt, row.failures, row.crashes) == (2, 1, 0)
    assert row.error == "first error"
    assert row.result.json() == {"n": 1}
    kept = (b"a", "text/x", {"h": "v"}) if payload else (None, None, None)
    headers = None if row.headers is None else dict(row.headers)
    assert (row.payload, row.content_type, headers) == kept


@pytest.mark.parametrize(("payload", "headers"), [(True, {}), (False, None)])
def test_a_message_without_headers_had_none(door, payload, headers):
    queue = door.fresh(history_payload=payload)
    sent(queue, "a")
    acked(queue, one(queue))
    assert finished(queue)[0].headers == headers


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_the_payload_is_kept_whatever_the_outcome(door, clock, outcome):
    queue = door.fresh(history_payload=True)
    ended(queue, outcome, "kept", clock=clock)
    (row,) = finished(queue)
    assert (row.outcome, row.payload) == (outcome, b"kept")
    assert (row.leased_at is None) == (outcome in ("cancelled", "expired"))


@pytest.mark.driving
def test_the_newest_come_first_page_by_page(queue, clock):
    numbers = []
    for n in range(25):
        numbers.append(ended(queue, "done", str(n)))
        clock.advance(ms=n % 2)  # some end in the same millisecond
    pages, cursor = [], None
    while True:
        page = queue.history(limit=10, cursor=cursor)
        pages.append([entry.id for entry in page.entries])
        if (cursor := page.cursor) is None:
            break
    assert [number for page in pages for number in page] == numbers[::-1]
    assert max(map(len, pages)) == 10
    assert len(pages) <= 4


def test_endings_of_one_message_in_one_millisecond_are_all_told(queue, clock):
    """It dies, comes back and ends again, while other messages end, too."""
    before = ended(queue, "done")
    number = ended(queue, "dead")
    for _ in range(3):
        assert grave_of(queue).redrive().moved == 1
        one(queue).fail("again", retry=False)
    assert grave_of(queue).redrive(target=queue.name, max_redrives=9).moved == 1
    queue.cancel((number,))
    after = ended(queue, "done")
    wanted = [(after, "done", 1), (number, "cancelled", 4)]
    wanted += [(number, "dead", attempt) for attempt in (4, 3, 2, 1)] + [(before, "done", 1)]
    for limit in (1, 2, 3, 4, 1000):
        assert [(e.id, e.outcome, e.attempt) for e in finished(queue, limit=limit)] == wanted
    dead = finished(queue, limit=2, outcome="dead")
    assert [(e.id, e.attempt) for e in dead] == [(number, attempt) for attempt in (4, 3, 2, 1)]


def test_what_ends_between_two_pages_moves_nothing(queue, clock):
    numbers = [ended(queue, "done") for _ in range(4)]
    page = queue.history(limit=2)
    clock.advance(1)
    ended(queue, "done")
    rest = finished(queue, cursor=page.cursor)
    assert [entry.id for entry in rest] == numbers[1::-1]


@pytest.mark.driving
def test_history_is_asked_by_outcome_channel_error_and_time(queue, clock):
    began, numbers = clock.now, {}
    for outcome in OUTCOMES:
        clock.now = began + 1_000 * (1 + OUTCOMES.index(outcome))
        numbers[outcome] = ended(queue, outcome, "100%_x", clock=clock, channel=outcome[0])
    ids = {number: outcome for outcome, number in numbers.items()}

    def found(**asked):
        return [ids[entry.id] for entry in finished(queue, **asked)]

    assert found() == OUTCOMES[::-1]
    for outcome in OUTCOMES:
        assert found(outcome=outcome) == [outcome]
    assert found(channel="d") == ["dead", "done"]
    assert found(channel="d", outcome="dead") == ["dead"]
    assert found(channel="nobody") == []
    for text in ("error of", "100%_x", "%_", "r"):
        assert found(error=text) == ["dead"], text
    for text in ("100%x", "ERROR", "_%", "nothing"):
        assert found(error=text) == [], text
    assert found(finished_from=began + 2_000) == ["expired", "cancelled", "dead"]
    assert found(finished_from=began + 2_001) == ["expired", "cancelled"]
    assert found(finished_until=began + 2_000) == ["done"]
    assert found(finished_until=began + 2_001) == ["dead", "done"]
    assert found(finished_from=began + 2_000, finished_until=began + 3_000) == ["dead"]
    assert found(finished_from=began + 2_000, limit=1) == ["expired", "cancelled", "dead"]


@pytest.mark.driving
def test_history_of_another_queue_is_another(door):
    queue, other = door.fresh(), door.fresh()
    ended(queue, "done")
    ended(queue, "dead")
    assert finished(other) == []
    assert finished(grave_of(queue)) == []
    with pytest.raises(QueueNotFound):
        finished(door.mq.queue("nosuch"))


@pytest.mark.parametrize(
    ("settings", "after", "left"),
    [
        ({"history_seconds": 10}, 9.999, 2),
        ({"history_seconds": 10}, 11, 0),
        ({"history_seconds": 10, "history_failed_seconds": 100}, 11, 1),
        ({"history_seconds": 100, "history_failed_seconds": 10}, 11, 1),
        ({"history_seconds": 10, "history_failed_seconds": 100}, 101, 0),
    ],
    ids=str,
)
def test_rows_stay_as_long_as_the_queue_says(door, clock, settings, after, left):
    queue = door.fresh(**settings)
    ended(queue, "done")
    ended(queue, "dead")
    clock.advance(after)
    maintained(queue, 3)
    assert len(finished(queue)) == left
    assert (counts(queue).done, counts(queue).dead) == (1, 1), "counts stay when rows are swept"


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"history_seconds": 0}, []),
        ({"history_seconds": 0, "history_failed_seconds": 60}, OUTCOMES[1:]),
        ({"history_seconds": 60, "history_failed_seconds": 0}, ["done"]),
    ],
    ids=str,
)
def test_no_time_keeps_no_rows(door, clock, settings, kept):
    queue = door.fresh(**settings)
    for outcome in OUTCOMES:
        ended(queue, outcome, clock=clock)
        maintained(queue)
    assert sorted(row.outcome for row in finished(queue)) == sorted(kept)
    stats = counts(queue)
    assert (stats.done, stats.dead, stats.cancelled, stats.expired) == (1, 1, 1, 1)


def test_what_was_leased_before_there_was_a_history_is_in_it(door):
    queue = door.fresh(history_seconds=0, history_failed_seconds=0)
    queue.send(b"1")
    queue.send(b"2")
    first, second = queue.receive(1)[0], queue.receive(1)[0]
    first.ack()
    queue.update(history_seconds=60)
    second.ack()
    assert [row.id for row in queue.history().entries] == [second.id]


def test_a_shorter_time_holds_for_rows_that_are_there(queue, clock):
    ended(queue, "done")
    clock.advance(20)
    queue.update(history_seconds=10)
    maintained(queue, 3)
    assert finished(queue) == []


def test_sweeping_many_takes_a_few_rounds_and_no_more(door, clock):
    queue = door.fresh(history_seconds=1)
    queue.send_many([message("x") for _ in range(2_500)])
    while batch := queue.receive(1000):
        queue.ack([m.receipt for m in batch])
    clock.advance(2)
    maintained(queue, 12)
    assert finished(queue) == []


@each(
    "changes",
    [{"history_failed_seconds": -1}, {"history_failed_seconds": "1"}, {"history_payload": 1}],
)
def test_wrong_settings_are_refused(queue, changes):
    with pytest.raises(UsageError):
        queue.update(**changes)


@each("cursor", ["", "x", "-", "1;2", "9" * 40])
@pytest.mark.driving
def test_a_cursor_of_nobody_s_is_refused(queue, cursor):
    with pytest.raises(UsageError):
        queue.history(cursor=cursor)
