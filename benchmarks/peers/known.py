"""The peers, in the order of the tables. `--peer` chooses by name; ours is always measured."""

from benchmarks.peers.celery import Celery
from benchmarks.peers.dramatiq import Dramatiq
from benchmarks.peers.graphile_worker import GraphileWorker
from benchmarks.peers.huey import Huey, HueyConsumer
from benchmarks.peers.litequeue import Litequeue
from benchmarks.peers.lonnymq import LonnyMq
from benchmarks.peers.our_worker import TurnaboutTasks, TurnaboutTasksOnSqlite, TurnaboutWorker
from benchmarks.peers.ours import (
    Turnabout,
    TurnaboutByTwoCalls,
    TurnaboutOnSqlite,
    TurnaboutOnSqliteWithoutHistory,
    TurnaboutWithoutHistory,
)
from benchmarks.peers.peer import Peer
from benchmarks.peers.persist_queue import PersistQueue
from benchmarks.peers.pg_boss import PgBoss
from benchmarks.peers.pgmq import Pgmq, PgmqArchive
from benchmarks.peers.pgqueuer import PgQueuer
from benchmarks.peers.procrastinate import Procrastinate
from benchmarks.peers.raw import Raw, RawCombined, RawGeneric, RawOneStep
from benchmarks.peers.raw_sqlite import RawOnSqlite
from benchmarks.peers.saq import Saq

US = "turnabout"
"""How the names of our own begin."""
OURS: dict[str, str] = {"PostgreSQL": Turnabout.name, "SQLite": TurnaboutOnSqlite.name}
"""Which peer is us, by store."""
TASKS: dict[str, str] = {
    "PostgreSQL": TurnaboutTasks.name,
    "SQLite": TurnaboutTasksOnSqlite.name,
}
"""Which peer is us where workers run tasks, and the cells where they do."""
TASK_CELLS = ("tasks", "sqlite-tasks")

PEERS: tuple[Peer, ...] = (
    Turnabout(),
    TurnaboutWithoutHistory(),
    TurnaboutByTwoCalls(),
    TurnaboutWorker(),
    TurnaboutTasks(),
    Raw(),
    RawCombined(),
    RawGeneric(),
    RawOneStep(),
    Pgmq(),
    PgmqArchive(),
    LonnyMq(),
    PgQueuer(),
    Procrastinate(),
    Celery(),
    Dramatiq(),
    Saq(),
    GraphileWorker(),
    PgBoss(),
    TurnaboutOnSqlite(),
    TurnaboutOnSqliteWithoutHistory(),
    TurnaboutTasksOnSqlite(),
    RawOnSqlite(),
    Huey(),
    HueyConsumer(),
    Litequeue(),
    PersistQueue(),
)
BY_NAME: dict[str, Peer] = {peer.name: peer for peer in PEERS}


def ours(cell: str, store: str) -> str:
    """Which peer is us in a cell."""
    return (TASKS if cell in TASK_CELLS else OURS)[store]
