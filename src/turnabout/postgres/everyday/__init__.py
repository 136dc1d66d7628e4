"""Everyday statements: a verb's common case as a plain statement beside its function.

    receive.sql       one message
    receive_many.sql  up to MANY_MAX
    look.sql          now and then before these: whether time has brought anything
    ack.sql           one message
    ack_many.sql      up to MANY_MAX
    send.sql          one message
    waiters.sql       after a change: whether anybody is to be notified of it

Each does the whole work where nothing special is going on (no limits, no pause, no channel with a
policy that has a say just now, no events to note), and else does nothing and answers no row: then
the function is called, which knows everything and gives the same answer. To start a function and
its statements is a good part of a small call's time. Each names a function of this library's set: a
newer version that leaves this one behind drops the set, and so ends them, too.

Plans of a plain statement follow the session's settings, so they are used only on connections that
are ours alone: see SETTINGS. Functions that need other ones set their own (source.py).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from turnabout.postgres.revision import rendered

Now = int | None

SETTINGS: Final = b"""
select set_config('plan_cache_mode', 'force_generic_plan', false),
    set_config('enable_seqscan', 'off', false), set_config('jit', 'off', false)
from (select) t
where pg_backend_pid() = $1::int
    and has_table_privilege('turnabout.queue', 'select')
    and has_table_privilege('turnabout.channel', 'select')
    and has_table_privilege('turnabout.message', 'select, insert, update, delete')
    and has_table_privilege('turnabout.ready', 'select, insert, update, delete')
    and has_table_privilege('turnabout.lease', 'select, insert, update, delete')
    and has_table_privilege('turnabout.tally', 'insert')
    and has_table_privilege('turnabout.recent_change', 'select')
    and has_table_privilege('turnabout.waiter', 'select')
    and exists (select from turnabout.whole)
"""
"""Make the settings of a session for everyday statements; no row where they may not be used.

$1 is the server's process as the connection's start named it. A pooler names another, or hands out
another server's process for each transaction; settings would then reach strangers. Whether the
unlogged tables are whole is asked once: a crash ends every session.
"""

LOOK_MS: Final = 50
"""How long receives go on without a look for what time has brought. Looking is a good part of a
small receive, most of all where many processes share the processors: the function that does it is
then in no cache. If nothing is ready, it is done anyway.
"""

MANY_MAX: Final = 20
"""The largest batch of a receive by a plain statement: above, the function is as quick."""

PAUSE_SECONDS: Final = 0.1
"""How long a queue is left to the function where something special is going on: where a statement
did nothing twice within this time. Once is a channel's head mark, or a message that expires.
"""

OWN_SETTINGS: Final = b"""
select count(set_config(o.name, o.value, false))
from (values
    ('default_transaction_isolation', 'read committed', true), ('array_nulls', 'on', true),
    ('statement_timeout', '0', false), ('lock_timeout', '0', false)
) o (name, value, always)
where pg_backend_pid() = $1::int
    and (o.always or (select s.source from pg_settings s where s.name = o.name) <> 'client')
having pg_backend_pid() = $1::int
"""
"""Make the settings that every session of ours needs, whatever an administrator has set for its
role; no row behind a pooler. Our calls lock first and read next, bound each wait by themselves, and
have a deadline by `call_seconds`; a rebuild after a crash takes its time. Timeouts that the URL
itself names are the caller's wish.
"""

READS_ONLY: Final = b"""
select null from pg_settings s
where s.name = 'default_transaction_read_only' and s.source in ('user', 'database user')
"""
"""Whether it is set for the role; for a whole database it may end soon, as after a failover."""

_QUEUES_MAX: Final = 1_000
_NAME = re.compile(r"\$([a-z_]+)")


@dataclass(frozen=True, slots=True)
class Everyday:
    """`parameters`: those of a verb, or None where it is none for this statement. `look`: what to
    ask before it when it is time to, where a row means that the statement may be tried.
    """

    sql: bytes
    parameters: Callable[[Any, Now], Sequence[Any] | None]
    look: Everyday | None = None


Asked = tuple[Everyday, Sequence[Any]]
"""A statement and its parameters."""


NO_POLICIES: Final = {
    "$no_limits": "(select 1 from turnabout.channel c where c.queue_id = q.id limit 1) is null",
    "$open": "true",
}
"""No channel has a policy."""

NONE_AWAKE: Final = {
    "$no_limits": """(
            select 1 from turnabout.channel c
            where c.queue_id = q.id and c.awake_name is not null limit 1
        ) is null and (
            select 1 from turnabout.channel c
            where c.queue_id = q.id and c.wake_at <= coalesce($now::bigint, turnabout.clock_ms())
            limit 1
        ) is null and (
            select 1 from turnabout.wake w where w.queue_id = q.id limit 1
        ) is null""",
    "$open": """(
            select 1 from turnabout.channel c
            where c.queue_id = (select f.id from facts f) and c.name = place.channel
        ) is null""",
}
"""Channels with policies are asleep: the others go on as if there were none. (What such a channel
has from before its policy is left to the function.)
"""


def everyday(
    name: str,
    values: Callable[[Any, Now], Mapping[str, Any] | None],
    look: Everyday | None = None,
    conditions: Mapping[str, str] = NO_POLICIES,
) -> Everyday:
    """The statement in the file of that name, with the values that it names."""
    text = _text(name, conditions)
    names = list(dict.fromkeys(_NAME.findall(text)))

    def parameters(verb: Any, now: Now) -> Sequence[Any] | None:
        found = values(verb, now)
        return None if found is None else [found[name] for name in names]

    sql = _NAME.sub(lambda found: f"${names.index(found[1]) + 1}", text)
    return Everyday(sql.encode(), parameters, look)


def _text(name: str, conditions: Mapping[str, str] = NO_POLICIES) -> str:
    text = (files(__name__) / f"{name}.sql").read_text(encoding="utf-8")
    for condition, sql in conditions.items():
        text = text.replace(condition, sql)
    return rendered(text)


WAITERS: Final = _text("waiters").encode()
"""A row, if somebody waits in one of the queues $1."""


class Shortcuts:
    """What a store remembers of its queues, to choose between a call's statements."""

    __slots__ = ("_looked", "_missed", "_paused")

    def __init__(self) -> None:
        self._looked: dict[str, int] = {}
        self._missed: dict[tuple[str, bytes], float] = {}
        self._paused: dict[tuple[str, bytes], float] = {}

    def is_time_to_look(self, queue: str, now: Now) -> bool:
        """Whether this receive is to look for what time has brought: the first one in a while, or
        at an instant that was passed in.
        """
        at, lasts = (now, 1) if now is not None else (time.monotonic_ns() // 1_000_000, LOOK_MS)
        if self._looked.get(queue, at + 1) <= at < self._looked[queue] + lasts:
            return False
        if len(self._looked) >= _QUEUES_MAX:
            self._looked.clear()
        self._looked[queue] = at
        return True

    def everyday(
        self, statements: Sequence[Everyday], verb: Any, now: Now, *, looks: bool = False
    ) -> Sequence[Asked]:
        """The everyday statement for this verb, or its look and the statement, with their
        parameters; empty: none is for it, or this queue is known to be special.
        """
        for statement in statements:
            parameters = statement.parameters(verb, now)
            if parameters is None:
                continue
            if self._paused:
                until = self._paused.get((verb.queue, statement.sql))
                if until is not None and time.monotonic() < until:
                    continue
            asked = (statement, parameters)
            if looks and statement.look is not None:
                return (*self.everyday((statement.look,), verb, now), asked)
            return (asked,)
        return ()

    def was_special(self, statement: Everyday, verb: Any) -> None:
        """The everyday statement did nothing."""
        if len(self._missed) >= _QUEUES_MAX:
            self._missed.clear()
            self._paused.clear()
        key, now = (verb.queue, statement.sql), time.monotonic()
        if now < self._missed.get(key, 0.0) + PAUSE_SECONDS:
            self._paused[key] = now + PAUSE_SECONDS
        self._missed[key] = now
