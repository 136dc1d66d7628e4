"""The SQLite store for asyncio: one writer thread, fed by a queue, that commits in groups."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from turnabout.sqlite._clock import Clock
from turnabout.sqlite._engine import Engine, Transaction
from turnabout.sqlite._url import place
from turnabout.sqlite._writer import GROUP_MAX, Pending
from turnabout.sqlite.joined import AsyncSqliteJoined, SqliteConnections
from turnabout.store import AsyncStore
from turnabout.words.errors import UsageError
from turnabout.words.outcomes import Received
from turnabout.words.verb import Change
from turnabout.words.verbs import Receive, Release, Verb

A = TypeVar("A")
_Errand = tuple[Pending[Any], "asyncio.Future[Any]"]


class AsyncSqliteStore(AsyncStore):
    """A queue in a file or in memory, for the tasks of one event loop. Opened at the first call.

    A call whose task is cancelled may still happen. Messages that were leased for nobody that
    way are released at once.
    """

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        self._place = place(url)
        self._clock = clock
        self._opened: Engine | None = None
        self._opening: asyncio.Task[None] | None = None
        self._errands: queue.SimpleQueue[_Errand | None] = queue.SimpleQueue()
        self._writing: threading.Thread | None = None
        self._aside = ThreadPoolExecutor(1, thread_name_prefix="turnabout-sqlite-reader")
        self._late: list[Pending[Any]] = []
        """Calls to be given back when the writer's thread has ended."""
        self._closed = False

    async def run(self, verb: Verb[A]) -> A:
        """Carry out a verb in one transaction; from many tasks, in one commit."""
        engine = await self._engine()
        answer = verb.nothing_to_do()
        if answer is not None:
            return answer
        if engine.reads_aside(verb):
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._aside, engine.read, verb)
        return await self._through_writer(verb)

    async def run_transaction(
        self, verbs: Sequence[Verb[Any]], *, all_or_none: bool = False
    ) -> list[Any]:
        """Carry out some verbs in one transaction, in this order; their outcomes, or none."""
        await self._engine()
        return await self._through_writer(Transaction(tuple(verbs), all_or_none))

    async def signal(self, queue: str, change: Change = Change.ANY) -> int:
        """A version, which changes after every commit that may matter to receivers of the queue."""
        return (await self._open()).notifier.signal(queue, change)

    async def wait(
        self, queue: str, seen: int, seconds: float, change: Change = Change.ANY
    ) -> None:
        """Return when `signal(queue)` is no longer `seen`, or after `seconds`, or at `close`."""
        await (await self._open()).notifier.wait_async(queue, seen, seconds, change)

    def within(self, connection: object) -> AsyncSqliteJoined:
        """A store that runs verbs in the caller's transaction."""
        return AsyncSqliteJoined(self._open, connection)

    def connections(self) -> SqliteConnections:
        """Connections for handlers that work in a transaction; for while the store is open."""

        def engine() -> Engine:
            if self._opened is None:
                raise UsageError("the store is not open yet")
            return self._opened

        return SqliteConnections(self._place, engine)

    def measures(self) -> dict[str, float]:
        """This process's view of its callers and its file, without a query."""
        found: dict[str, float] = {"calls_waiting": self._errands.qsize()}
        if self._opened is not None:
            found |= self._opened.measures()
        return found

    async def close(self) -> None:
        """Finish what waits, then close the file. Later calls raise UsageError."""
        if self._closed:
            return
        self._closed = True
        if self._opening is not None:
            await asyncio.wait({self._opening})
        engine, writing = self._opened, self._writing
        if engine is not None and writing is not None and engine.pid == os.getpid():
            engine.notifier.close()
            self._errands.put(None)
            try:
                await asyncio.to_thread(writing.join)
            finally:
                await asyncio.to_thread(self._finish, engine)

    async def _engine(self) -> Engine:
        engine = self._opened
        if engine is None or self._closed or engine.pid != os.getpid():
            engine = await self._open()
        return engine

    async def _through_writer(self, verb: Verb[A]) -> A:
        """Have the writer carry it out."""
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        pending = Pending(verb)
        self._errands.put((pending, future))
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._give_back(pending)  # it was on its way to a task that is gone
            raise

    async def _open(self) -> Engine:
        if self._closed:
            raise UsageError("the store is closed: connect again")
        if self._opened is None:
            if self._opening is None:
                self._opening = asyncio.ensure_future(self._begin())
                self._opening.add_done_callback(lambda task: task.cancelled() or task.exception())
            await asyncio.shield(self._opening)
            if self._closed:
                raise UsageError("the store was closed meanwhile: connect again")
        assert self._opened is not None
        if self._opened.pid != os.getpid():
            raise UsageError("an async store does not survive a fork: connect again in the child")
        return self._opened

    async def _begin(self) -> None:
        """Open the file, in a separate task: its caller may be cancelled meanwhile."""
        try:
            engine = await asyncio.to_thread(Engine, self._place, self._clock)
            self._writing = threading.Thread(
                target=self._write, args=(engine,), name="turnabout-sqlite-writer", daemon=True
            )
            self._writing.start()
            self._opened = engine
        finally:
            self._opening = None

    def _finish(self, engine: Engine) -> None:
        self._aside.shutdown()
        for pending in self._late:
            engine.writer.commit((pending,))
        engine.close()

    # --- the writer's thread --------------------------------------------------------------------

    def _write(self, engine: Engine) -> None:
        """Commit all that waits, in groups, until `close`."""
        open_ = True
        while open_:
            errands: list[_Errand] = []
            errand = self._errands.get()
            while True:
                if errand is None:
                    open_ = False
                    break
                if not errand[1].cancelled():
                    errands.append(errand)
                if len(errands) == GROUP_MAX or self._errands.empty():
                    break
                errand = self._errands.get()
            if errands:
                engine.writer.commit([pending for pending, _ in errands])
                with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens
                    errands[0][1].get_loop().call_soon_threadsafe(self._answer, errands)

    def _answer(self, errands: list[_Errand]) -> None:
        """Hand out the answers, in the loop."""
        for pending, future in errands:
            if future.cancelled():
                self._give_back(pending)
            elif pending.error is not None:
                future.set_exception(pending.error)
            else:
                future.set_result(pending.answer)

    def _give_back(self, pending: Pending[Any]) -> None:
        """A cancelled `receive` has leased messages for nobody: others may have them at once."""
        verbs, answers = (pending.verb,), (pending.answer,)
        if isinstance(pending.verb, Transaction):
            verbs, answers = pending.verb.verbs, pending.answer or ()
        for verb, answer in zip(verbs, answers, strict=False):  # no answers: there was an error
            if isinstance(verb, Receive) and isinstance(answer, Received):
                receipts = tuple(d.receipt for d in answer.deliveries)
                if not receipts:
                    continue
                release = Pending(Release(verb.queue, receipts))
                if self._closed:
                    self._late.append(release)
                else:
                    self._errands.put((release, asyncio.get_running_loop().create_future()))
