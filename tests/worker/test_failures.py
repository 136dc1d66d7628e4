"""What a worker logs of handlers that fail: enough to act on, and never a payload."""

import logging
from typing import Any

import pytest

from tests.worker.support import Place, alive
from turnabout.worker import AsyncMessage, Defer, GiveUp, Message


def errors(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What Python shows even where no logging is configured."""
    return [r for r in caplog.records if r.name == "turnabout.worker" and r.levelname == "ERROR"]


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_failure_tells_which_attempt_of_how_many_what_comes_next_and_why(
    caplog: pytest.LogCaptureFixture, colour: str
) -> None:
    @alive
    async def check(place: Place) -> None:
        await place.queue.create(max_attempts=2, backoff_seconds=3600, backoff_jitter=0)
        worker = place.worker()
        if colour == "sync":

            @worker.handler("work")
            def handle(_message: Message) -> None:
                raise ValueError("the carrier said no")

        else:

            @worker.handler("work")
            async def handle_async(_message: AsyncMessage) -> None:
                raise ValueError("the carrier said no")

        await place.worked_off(worker, "secret payload")
        place.clock.advance(3600)
        await worker.run_async(until_empty=True)

    check()
    first, last = errors(caplog)
    assert first.getMessage().startswith(
        "handler for work failed on message 1 (attempt 1 of 2): ValueError: the carrier said no; "
        "retry in 3,"
    )
    assert last.getMessage() == (
        "handler for work failed on message 1 (attempt 2 of 2): ValueError: the carrier said no; "
        "dead: moved to work-dead"
    )
    for record in (first, last):
        assert record.exc_info is not None
        kind, error, trace = record.exc_info
        assert (kind, str(error)) == (ValueError, "the carrier said no")
        assert trace is not None
        assert trace.tb_frame.f_code.co_name.startswith("handle")  # none of ours before it
    assert "secret payload" not in caplog.text


def test_deaths_that_a_handler_asks_for_are_errors_deferrals_are_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @alive
    async def check(place: Place) -> None:
        worker = place.worker()

        @worker.handler("work")
        async def handle(message: AsyncMessage) -> None:
            match message.text():
                case "give up":
                    raise GiveUp("no such user")
                case "own":
                    await message.fail("no use", retry=False)
                case "late":
                    await message.ack()
                    raise ValueError("after the ack")
                case _:
                    await message.defer(delay_seconds=3600)

        await place.worked_off(worker, "give up", "own", "late", "defer")

    check()
    said = [record.getMessage() for record in errors(caplog)]
    assert said.pop(0) == (
        "handler for work failed on message 1 (attempt 1 of 5): GiveUp: no such user; "
        "dead: moved to work-dead"
    )
    assert said == [
        "message 2.1 of work is dead: its handler failed it",
        "handler for work raised on message 3, which it had settled: ValueError: after the ack",
    ]


def test_a_failure_that_the_database_does_not_count_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @alive
    async def check(place: Place) -> None:
        worker = place.worker()

        @worker.handler("work", heartbeat=False)
        async def handle(message: AsyncMessage) -> None:
            place.clock.advance(3600)
            assert len(await place.queue.receive()) == 1  # another worker has it now
            raise ValueError("too late")

        await place.worked_off(worker, "x")

    check()
    (record,) = errors(caplog)
    assert record.getMessage().endswith("not counted, as its lease was lost: the message is leased")


class Rude(Exception):
    """It raises at whatever it is asked for."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__

    @property
    def __notes__(self) -> list[str]:
        raise RuntimeError("no notes")


class Unsaid(GiveUp):
    __str__ = Rude.__str__


class Exits(Exception):
    def __str__(self) -> str:
        raise SystemExit


class Unseen(ValueError):
    """As a proxy outside of what it stands for."""

    __class__ = property(Rude.__str__)  # type: ignore[assignment]


class Unmade(Defer):
    def __init__(self) -> None:
        """Without what one is made of."""


def remade() -> Defer:
    error = Defer()
    error.state = "text"  # type: ignore[assignment]
    return error


def caused() -> Exception:
    error = ValueError("outer")
    error.__cause__ = Rude(Rude())
    return error


RUDE = {"text": Rude, "argument": lambda: ValueError(Rude()), "cause": caused, "give up": Unsaid}
RUDE |= {"defer": Unmade, "state": remade, "exits": Exits, "class": Unseen}


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("kind", RUDE)
def test_an_error_that_raises_costs_no_place(
    caplog: pytest.LogCaptureFixture, kind: str, colour: str
) -> None:
    """Whatever is done with what a handler raised: the next message is handled."""

    @alive
    async def check(place: Place) -> None:
        await place.queue.create(backoff_seconds=3600)
        worker = place.worker()

        def handle(message: Message | AsyncMessage) -> object:
            if message.text() == "bad":
                raise RUDE[kind]()  # noqa: RSE102 - a function
            return {"odd": Rude(), "proxy": Unseen()}.get(message.text())

        async def handle_async(message: AsyncMessage) -> object:
            return handle(message)

        worker.handler("work")(handle if colour == "sync" else handle_async)
        stats = await place.worked_off(worker, "bad", "odd", "proxy", "good")
        assert (stats.handled, stats.failed) == (3, 1)
        (left,) = [one for one in await place.queue.peek() if one.text() == "bad"] or [None]
        assert left is None if kind == "give up" else left is not None

    check()
    (record,) = errors(caplog)
    assert "failed on message 1" in record.getMessage()
    assert "None" not in record.getMessage()


@pytest.mark.parametrize("where", ["consumer.ending_of", "report.text_of", "log"])
def test_whatever_goes_wrong_as_messages_are_settled_places_become_free(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    tries = list[int]()

    def once(*_given: object) -> Any:
        monkeypatch.undo()
        raise RuntimeError("it went wrong")

    @alive
    async def check(place: Place) -> None:
        await place.queue.create(backoff_seconds=3600)
        worker = place.worker()

        @worker.handler("work")
        async def handle(message: AsyncMessage) -> None:
            tries.append(message.id)
            if message.id == 1:
                what = "report.log.log" if where == "log" else where
                monkeypatch.setattr(f"turnabout.worker.{what}", once)
                raise ValueError

        stats = await place.worked_off(worker, "x", "y")
        assert (stats.handled, stats.failed, tries) == (1, 1, [1, 2])

    check()
    assert len(errors(caplog)) == (0 if where == "log" else 1)  # that one was printed
