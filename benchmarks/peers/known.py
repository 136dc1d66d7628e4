"""The peers, in the order of the tables. `--peer` chooses by name; ours is always measured."""

from benchmarks.peers.graphile_worker import GraphileWorker
from benchmarks.peers.huey import Huey
from benchmarks.peers.litequeue import Litequeue
from benchmarks.peers.lonnymq import LonnyMq
from benchmarks.peers.our_worker import TurnaboutTasks, TurnaboutWorker
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

US = "turnabout"
"""How the names of our own begin."""
OURS: dict[str, str] = {"PostgreSQL": Turnabout.name, "SQLite": TurnaboutOnSqlite.name}
"""Which peer is us, by store."""

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
    GraphileWorker(),
    PgBoss(),
    TurnaboutOnSqlite(),
    TurnaboutOnSqliteWithoutHistory(),
    RawOnSqlite(),
    Huey(),
    Litequeue(),
    PersistQueue(),
)
BY_NAME: dict[str, Peer] = {peer.name: peer for peer in PEERS}
