"""The memory of answers: bounded, shared by namespace, and counted to the last write."""

import asyncio
import json
import socket
from collections.abc import Callable

import pytest

from tests.server.running import running
from tests.server.test_long_poll_live import post, send
from tests.support.each import each
from tests.support.until import until
from turnabout.server.options import ServerOptions
from turnabout.server.tenants import answer_room
from turnabout.server.tenants.answer_room import SMALL_BYTES, AnswerRoom, AnswerShare
from turnabout.words.errors import Busy

MB = 1_000_000


class Answers:
    """A room of ten megabytes, answers that are written until they are cut, and questions."""

    def __init__(self) -> None:
        self.room = AnswerRoom(10 * MB, 30.0)
        self.cut: list[str] = []

    async def unread(self, namespace: str, megabytes: int) -> asyncio.Task[None]:
        """An answer that nobody reads."""
        end = asyncio.Event()

        def cut(limit: str) -> None:
            self.cut.append(f"{namespace} {limit}")
            end.set()

        async def write() -> None:
            with self.room.writing(namespace, megabytes * MB, cut):
                await end.wait()

        task = asyncio.ensure_future(write())
        await asyncio.sleep(0)
        return task

    async def ask(
        self,
        namespace: str,
        wanted: int,
        least: int = 1,
        act: Callable[[AnswerShare], None] = lambda _: None,
    ) -> int:
        """The megabytes that the database may be asked for."""
        async with self.room.asking(namespace, wanted * MB, least * MB) as asked:
            act(asked)
            return asked.size // MB


async def test_there_is_less_where_less_is_free_and_in_the_end_nothing() -> None:
    answers = Answers()
    assert await answers.ask("acme", 8) == 8
    await answers.unread("acme", 7)
    assert await answers.ask("acme", 8) == 3
    await answers.unread("acme", 3)
    with pytest.raises(Busy, match="read them, or ask for fewer"):
        await answers.ask("acme", 8)
    assert not answers.cut


async def test_what_the_database_was_asked_for_is_given_back_but_for_what_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answer_room, "HAND_OVER_SECONDS", 0.0)
    answers = Answers()
    async with answers.room.asking("acme", 10 * MB, MB) as asked:
        waits = asyncio.ensure_future(answers.ask("bob", 9))
        await asyncio.sleep(0)
        asked.brought(2 * MB)
    assert await waits == 8, "what came is counted until somebody writes it"
    await asyncio.sleep(0.001)
    assert answers.room.taken == 0
    assert await answers.ask("acme", 9, act=lambda asked: asked.brought(SMALL_BYTES)) == 9
    assert answers.room.taken == 0


async def test_who_holds_more_than_his_share_gives_his_oldest_answer_up() -> None:
    answers = Answers()
    for megabytes in (4, 3, 2):
        await answers.unread("acme", megabytes)
    await answers.unread("bob", 1)
    assert await answers.ask("carol", 3) == 3
    assert answers.cut == ["acme answers"]
    assert answers.room.taken == 6 * MB
    with pytest.raises(Busy):
        await answers.ask("acme", 5, 5)
    assert answers.cut == ["acme answers"], "it has its share"


async def test_nobody_waits_for_those_who_do_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What others only asked for comes back in a moment; so long a receive waits, and no longer."""
    monkeypatch.setattr(answer_room, "WAIT_SECONDS", 0.0)
    answers = Answers()
    async with answers.room.asking("bob", 10 * MB, MB):
        with pytest.raises(Busy):
            await answers.ask("acme", 1)
    assert answers.room.taken == 0


@pytest.mark.slow
@each("reads", [False, True])
def test_an_answer_that_is_not_taken_in_time_is_cut(reads: bool) -> None:
    """Also where a client takes a bit now and then; its messages are there for others."""
    with running(ServerOptions(auth="none", port=0, write_seconds=0.5)) as server:
        room = server.context.admission.answers
        for _ in range(2):
            send(server, *["x" * 100_000] * 25)
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.connect(("127.0.0.1", server.port))
            client.sendall(post("receive", max_messages=50))
            until(lambda: room.taken >= 50 * 100_000)
            until(lambda: (reads and not client.recv(1_000)) or not room.taken)
            assert server.counted("refusals_total", limit="write_seconds") == 1
        again = json.loads(server.ask(post("receive", max_messages=50, wait_seconds=20)).body)
        assert [one["attempt"] for one in again["deliveries"]] == [2] * 50
