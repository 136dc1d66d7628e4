"""The port: what every store is. One method carries out a verb; the rest is about waiting.

A store runs a verb in one transaction and answers with that verb's outcome. It holds no
transaction and no lock while anybody waits. SQLite, PostgreSQL and the HTTP client each have a
class for either colour; these files know none of them.
"""

from turnabout.store._async.port import AsyncForwardingStore, AsyncJoined, AsyncStore
from turnabout.store._sync.port import ForwardingStore, Joined, Store
from turnabout.store.connections import AsyncConnections, Connections, OnLoop

__all__ = [
    "AsyncConnections",
    "AsyncForwardingStore",
    "AsyncJoined",
    "AsyncStore",
    "Connections",
    "ForwardingStore",
    "Joined",
    "OnLoop",
    "Store",
]
