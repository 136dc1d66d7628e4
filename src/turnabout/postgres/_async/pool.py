"""Connections of a store: those that are idle, and a limit on all of them."""

from __future__ import annotations

import os
import socket
from asyncio import Condition
from collections import deque
from contextlib import suppress

import psycopg

from turnabout.postgres import install
from turnabout.postgres._async.libpq import AsyncConnection
from turnabout.postgres.async_socket import wait_for_async
from turnabout.postgres.errors import translate
from turnabout.postgres.url import PostgresOptions
from turnabout.words.errors import Busy, UsageError

CHECK_SCHEMA = install.CHECK.encode()


class AsyncPool:
    """The last one in is the first one out, so that few stay in use.

    In the common case a call takes one and puts it back without any lock.
    """

    def __init__(self, options: PostgresOptions) -> None:
        self._options = options
        self._idle: deque[AsyncConnection] = deque()
        self._changed = Condition()
        self._open = 0
        self._waiting = 0
        self._borrowed = 0
        self._pid = os.getpid()
        self._checked = False
        self._closed = False

    async def take(self) -> AsyncConnection:
        """A connection, for this caller alone until it is put back."""
        if self._closed:
            raise UsageError("this connection was closed: open another by turnabout.aio.connect")
        if self._pid != os.getpid():
            self._after_fork()
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                if await self._may_open():
                    return await self._connect()
                continue
            if connection.is_fresh():
                return connection
            await self._drop(connection)

    def borrow(self) -> AsyncConnection | None:
        """One that nobody uses, for a moment: who finds none meanwhile waits instead of opening
        another.
        """
        if self._pid != os.getpid():
            return None
        self._borrowed += 1
        try:
            return self._idle.pop()
        except IndexError:
            self._borrowed -= 1
            return None

    @property
    def has_lost_one(self) -> bool:
        """Whether the server has hung up on the one that is next, as it does when it crashes.
        Others may take it meanwhile, so this only peeks: what they read is still there.
        """
        try:
            with socket.socket(fileno=os.dup(self._idle[-1].raw.fileno())) as peeked:
                peeked.recv(1, socket.MSG_PEEK)  # libpq has made it non-blocking
        except (IndexError, OSError, psycopg.Error):
            return False
        return True

    @property
    def has_any(self) -> bool:
        """Whether a connection is open."""
        return self._open > 0

    async def put(self, connection: AsyncConnection, *, borrowed: bool = False) -> None:
        """Give it back; one that broke is dropped."""
        if borrowed:
            self._borrowed -= 1
        if self._closed or connection.closed:
            await self._drop(connection)
            if connection.is_lost:
                await self.forget()
        else:
            self._idle.append(connection)
            if self._closed:  # since we looked
                await self.forget()
            if self._waiting:
                async with self._changed:
                    self._changed.notify(self._waiting if borrowed else 1)

    async def forget(self) -> None:
        """Close what is idle: the server is another one now."""
        with suppress(IndexError):  # others do the same
            while True:
                await self._drop(self._idle.pop())

    async def check_again(self) -> None:
        """Whether the schema is this library's still. Raises: WrongVersion, and as `take`."""
        self._checked = False
        await self.forget()
        await self.put(await self.take())

    async def close(self) -> None:
        """Close what is idle now, and the others when they are put back."""
        self._closed = True
        await self.forget()

    def measures(self) -> dict[str, float]:
        """Count the connections, and the calls that wait for one."""
        return {
            "connections_open": self._open,
            "connections_idle": len(self._idle),
            "connections_max": self._options.max_connections,
            "calls_waiting": self._waiting,
        }

    async def _drop(self, connection: AsyncConnection) -> None:
        await connection.close()
        await self._free()

    async def _free(self) -> None:
        """Make room for one more connection."""
        async with self._changed:
            self._open -= 1
            self._changed.notify()

    async def _may_open(self) -> bool:
        """True: there is room for one more, and it is counted. False: one is idle by now."""
        async with self._changed:
            if not self._has_some() and not await self._wait():
                raise Busy(
                    f"all {self._options.max_connections} connections were busy for "
                    f"{self._options.busy_seconds:g} seconds: nothing happened, repeat the call"
                )
            if self._idle:
                return False
            self._open += 1
            return True

    def _has_some(self) -> bool:
        return bool(self._idle) or (
            self._open < self._options.max_connections and not self._borrowed
        )

    async def _wait(self) -> bool:
        self._waiting += 1
        try:
            seconds = self._options.busy_seconds
            return await wait_for_async(self._changed, self._has_some, seconds)
        except BaseException:
            self._changed.notify()  # another may have what we were notified of
            raise
        finally:
            self._waiting -= 1

    async def _connect(self) -> AsyncConnection:
        try:
            return await self._connect_checked()
        except BaseException:
            await self._free()
            raise

    async def _connect_checked(self) -> AsyncConnection:
        """Open a connection; the first one asks whether the schema is this library's."""
        try:
            connection = await AsyncConnection.open(self._options)
            try:
                if not self._checked:
                    step, oldest, ours, newest = (await connection.run(CHECK_SCHEMA, ()))[0]
                    install.check_schema(step, oldest, ours, newest, self._options.url)
                    self._checked = True
                await connection.find_out()
            except BaseException:
                await connection.close()
                raise
        except psycopg.Error as error:
            raise translate(error, self._options.url) from error
        return connection

    def _after_fork(self) -> None:
        """A child must not speak on its parent's sockets: leave them alone, open new ones."""
        self._idle, self._open, self._waiting, self._borrowed = deque(), 0, 0, 0
        self._changed = Condition()
        self._pid = os.getpid()
