"""The parts of an epoch: even and in order, of one queue each, or a channel's in one part."""

import pytest

from tests.conformance.steps import sent
from tests.pipeline.steps import many, on_postgres

pytestmark = on_postgres


def check_parts(reader, epoch, rows):
    """The parts that are planned are those that the rows are in."""
    parts = reader.plan(epoch).parts
    assert [part.part for part in parts] == sorted({row["part"] for row in rows})
    for part in parts:
        mine = [row for row in rows if row["part"] == part.part]
        assert {row["queue"] for row in mine} == {part.queue}
        assert len(mine) == part.messages
    return parts


@pytest.mark.parametrize("size", [1, 2, 3, 4, 10, 100])
def test_parts_are_even_and_in_order(pipe, size):
    queue = pipe.queue()
    numbers = sent(queue, *many("a", 10), channel="a")
    reader = pipe.reader(queue, parts=size)
    reader.lease(0)
    rows = reader.rows(1)
    assert [row["message_id"] for row in rows] == numbers
    sizes = [part.messages for part in check_parts(reader, 1, rows)]
    assert len(sizes) == min(size, 10)
    assert max(sizes) - min(sizes) <= 1


def test_each_part_is_of_one_queue(pipe):
    queue, other = pipe.queue(), pipe.queue()
    sent(queue, *many("a", 6))
    sent(other, *many("b", 2))
    reader = pipe.reader(queue, other, parts=2)
    reader.lease(0)
    parts = check_parts(reader, 1, reader.rows(1))
    assert {part.queue for part in parts} == {queue.name, other.name}
    assert len({part.part for part in parts}) == len(parts)


def test_by_channel_all_of_a_channel_is_in_one_part_in_its_order(pipe):
    queue = pipe.queue()
    for n in range(12):
        sent(queue, str(n), channel="abcd"[n % 4], priority=-1 if n == 9 else 0)
    reader = pipe.reader(queue, parts=3, by_channel=True)
    reader.lease(0)
    rows = reader.rows(1)
    for channel in "abcd":
        mine = [row for row in rows if row["channel"] == channel]
        assert len({row["part"] for row in mine}) == 1
        places = [(row["priority"], row["message_id"]) for row in mine]
        assert places == sorted(places)
    assert len(check_parts(reader, 1, rows)) > 1, "channels are spread"
