"""The shape of a peer: what it is, how it is set up, and the client that its users would write."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Literal

from benchmarks.jobs import Client, Job, SelfDriven
from benchmarks.on_postgres import PostgresBase
from benchmarks.on_sqlite import SqliteBase

Store = Literal["PostgreSQL", "SQLite"]
Skill = Literal["send", "receive", "channels", "leased", "flow", "wait", "bytes", "tasks"]
"""What a peer can be measured at."""
BATCHES = (1, 10, 100)
NOT_INSTALLED = "the package {} is not installed: `python3 dev.py bench --peers` does that"


class LeftOut(Exception):
    """A peer can't be measured here. The text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What messages are like."""

    channels: int = 1
    size: int = 100

    @property
    def payload(self) -> bytes:
        """Of each message."""
        return b"x" * self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerJob(Job):
    """Work for a client of a peer."""

    size: int = 100

    def open(self) -> Client | SelfDriven:
        """The peer's client."""
        from benchmarks.peers.known import BY_NAME

        return BY_NAME[self.side].open(self)


class Peer:
    """One system that can hold messages. A subclass says how; `known.py` lists them."""

    name: ClassVar[str]
    store: ClassVar[Store]
    about: ClassVar[str]
    """What its users should know of the comparison, in a sentence for the page."""
    skills: ClassVar[Collection[Skill]]
    batches: ClassVar[Collection[int]] = BATCHES
    """Messages a call. A framework for workers takes so many at once."""
    waiting: ClassVar[str] = ""
    """The statement that counts what waits, where the store has a server."""
    backlog_max: ClassVar[int] = 1_000_000_000
    """More than it does in a slice; or where a call is the slower the more there is."""
    slices: ClassVar[int] = 1
    """How many times longer its slices are: a worker needs its time to start."""
    processes_max: ClassVar[int] = 1_000
    package: ClassVar[str] = ""
    """What has to be installed, as its index calls it."""
    module: ClassVar[str] = ""

    def check(self) -> None:
        """Raise `LeftOut` where it can't run."""
        if self.module and importlib.util.find_spec(self.module) is None:
            raise LeftOut(NOT_INSTALLED.format(self.package))

    def version(self) -> str:
        """Its version, for the line that says what was measured."""
        return importlib.metadata.version(self.package)

    def install(self, base: Any) -> None:
        """Make what it needs in a fresh base."""

    def fill(self, base: Any, count: int, shape: Shape) -> None:
        """Have so many messages waiting, and the store tidy."""
        raise NotImplementedError

    def empty(self, base: Any) -> None:
        """Have no messages at all."""
        raise NotImplementedError

    def lease(self, base: Any, count: int) -> None:
        """Lease that many of the waiting messages for an hour."""
        raise NotImplementedError

    def open(self, job: PeerJob) -> Client | SelfDriven:
        """Its client, in a process of its own."""
        raise NotImplementedError


class PostgresPeer(Peer):
    """A peer whose messages can be put into its tables by a statement."""

    store = "PostgreSQL"
    tables: ClassVar[tuple[str, ...]]
    insert: ClassVar[str]
    """Has `{count}` more waiting, of `{size}` bytes each."""

    def fill(self, base: PostgresBase, count: int, shape: Shape) -> None:
        """Insert what is missing, as its own bulk send would leave it."""
        self.add(base, count, size=shape.size)

    def add(self, base: PostgresBase, count: int, **words: Any) -> None:
        """The same, with what its statement names besides `{count}`."""
        missing = count - base.say(self.waiting)[0][0]
        if missing > 0:
            base.say(self.insert.format(count=missing, **words))
        for table in self.tables:
            base.say(f"vacuum (analyze, skip_locked) {table}")

    def empty(self, base: PostgresBase) -> None:
        """Truncate its tables."""
        base.say(f"truncate {', '.join(self.tables)} cascade")


class FilePeer(PostgresPeer):
    """A peer that is functions in the database, made by a file of SQL that the user names."""

    option: ClassVar[str]
    """The option that names the file."""
    how: ClassVar[str]
    """Which file that is."""

    def __init__(self, file: Path | None = None) -> None:
        self.file = file

    def check(self) -> None:
        """A file that was named has to be there."""
        if self.file is not None and not self.file.is_file():
            raise LeftOut(f"there is no file {self.file}; {self.how}")

    def sql(self) -> str:
        """What is in the file."""
        if self.file is None:
            raise LeftOut(f"no file was named; {self.how}")
        return self.file.read_text(encoding="utf-8")

    def version(self) -> str:
        """The file's digest: it names no version."""
        return f"a file of SHA-256 {sha256(self.sql().encode()).hexdigest()[:8]}…"


class SqlitePeer(Peer):
    """A peer with a file of its own beside ours. It is made anew to be emptied."""

    store = "SQLite"
    skills = ("send", "receive")
    batches = (1,)

    @staticmethod
    def path(url: str) -> str:
        """Its file."""
        return url.removeprefix("sqlite:///").partition("?")[0] + ".peer"

    @staticmethod
    def synchronous(url: str) -> str:
        """What it is to be set to."""
        return "full" if url.endswith("full") else "normal"

    def fill(self, base: SqliteBase, count: int, shape: Shape) -> None:
        """Send them, all in one transaction."""
        raise NotImplementedError
