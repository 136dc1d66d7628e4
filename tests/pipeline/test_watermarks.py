"""How far archives have come, and what they leave to do."""

from tests.pipeline.steps import ended
from turnabout.pipeline import verbs as p


def marks(pipe, prefix):
    return [m for m in pipe.run(p.WatermarkList()) if m.archive.startswith(prefix)]


def test_a_watermark_is_noted_and_moved(pipe, clock):
    queue, archive = pipe.queue(), pipe.name()
    ended(queue, "a", "b")
    first = pipe.next(pipe.run(p.LogAt(clock.now)), 1).until
    assert pipe.run(p.WatermarkSet(archive, first, 1)) is None
    (mark,) = marks(pipe, archive)
    assert (mark.archive, mark.position, mark.messages) == (archive, first, 1)
    assert mark.set_at == clock.now
    clock.advance(1)
    pipe.run(p.WatermarkSet(archive, pipe.end(), 2))
    (mark,) = marks(pipe, archive)
    assert (mark.position, mark.messages, mark.set_at) == (pipe.end(), 2, clock.now)


def test_the_lag_is_what_came_since(pipe, clock):
    queue, archive = pipe.queue(), pipe.name()
    ended(queue, "a")
    pipe.run(p.WatermarkSet(archive, pipe.end(), 1))
    (mark,) = marks(pipe, archive)
    assert (mark.lag, mark.lag_ms) == (0, 0)
    clock.advance(10)
    (mark,) = marks(pipe, archive)
    assert (mark.lag, mark.lag_ms) == (0, 0), "time alone is no lag"
    ended(queue, "b")
    clock.advance(5)
    ended(queue, "c", "d")
    clock.advance(1)
    (mark,) = marks(pipe, archive)
    assert (mark.lag, mark.lag_ms) == (3, 6_000)
    pipe.run(p.WatermarkSet(archive, pipe.end(), 4))
    (mark,) = marks(pipe, archive)
    assert (mark.lag, mark.lag_ms) == (0, 0)


def test_archives_are_listed_by_name_and_forgotten(pipe):
    queue, name = pipe.queue(), pipe.name()
    ended(queue, "a")
    for letter in "bac":
        pipe.run(p.WatermarkSet(f"{name}-{letter}", pipe.end(), 1))
    pipe.run(p.WatermarkSet(f"acme/{name}", pipe.end(), 1))
    assert [m.archive for m in marks(pipe, name)] == [f"{name}-{letter}" for letter in "abc"]
    assert len(marks(pipe, f"acme/{name}")) == 1
    assert pipe.run(p.WatermarkDelete(f"{name}-a")) is True
    assert pipe.run(p.WatermarkDelete(f"{name}-a")) is False
    assert [m.archive for m in marks(pipe, name)] == [f"{name}-b", f"{name}-c"]
    for archive in (f"{name}-b", f"{name}-c", f"acme/{name}"):
        assert pipe.run(p.WatermarkDelete(archive))


def test_a_watermark_outlives_the_rows_that_it_covers(pipe, clock):
    queue, archive = pipe.queue(), pipe.name()
    ended(queue, "a", "b")
    end = pipe.end()
    pipe.run(p.WatermarkSet(archive, end, 2))
    pipe.run(p.LogPurge(end, clock.now + 1))
    queue.delete()
    (mark,) = marks(pipe, archive)
    assert (mark.position, mark.lag) == (end, 0)
    assert pipe.next(end).messages == 0
