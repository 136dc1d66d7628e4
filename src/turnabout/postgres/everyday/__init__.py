"""Everyday statements: a verb's common case as a plain statement beside its function.

    receive.sql       one message
    receive_many.sql  several
    look.sql          now and then before these: whether time has brought anything
    ack.sql           one message
    ack_many.sql      several
    next.sql          ack one message and receive the next
    next_many.sql     ack the messages of a lease and receive the next ones
    send.sql          one message
    parts/            what several of them are made of: `{{part}}` (source.py)
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
from typing import Any, Final

from turnabout.postgres.revision import rendered
from turnabout.postgres.source import PARTS, with_parts

Now = int | None

SETTINGS: Final = b"""
select set_config('plan_cache_mode', 'force_generic_plan', false),
    set_config('enable_seqscan', 'off', false), set_config('jit', 'off', false)
from (select) t
where pg_backend_pid() = $1::int and has_table_privilege('turnabout.queue', 'select')
    and has_table_privilege('turnabout.channel', 'select')
    and has_table_privilege('turnabout.message', 'select, insert, update, delete')
    and has_sequence_privilege('turnabout.message_id_seq', 'usage')
    and has_table_privilege('turnabout.ready', 'select, insert, update, delete')
    and has_table_privilege('turnabout.lease', 'select, insert, update, delete')
    and has_table_privilege('turnabout.tally', 'insert')
    and has_table_privilege('turnabout.history', 'insert')
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
"""Longest time that receives go without a look at timers. Looking is a good part of a small
receive, most of all where many processes share the processors: the function is then in no
cache. If nothing is ready, timers are looked at anyway.
"""

PAUSE_SECONDS: Final = 0.1
"""Time for which a queue is left to the function, after a statement did nothing twice within it:
something special is going on there. A single miss is usually a head mark or an expired message.
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
    form: Form | None = None


BoundStatement = tuple[Everyday, Sequence[Any]]
"""A statement and its parameters."""

Form = tuple[bool, str]
"""Whether a queue keeps history, and how a batch is taken: which form of a statement a queue needs.
"""


def everyday(
    name: str,
    values: Callable[[Any, Now], Mapping[str, Any] | None],
    look: Everyday | None = None,
    form: Form | None = None,
    **parts: str,
) -> Everyday:
    """The statement in the file of that name, with the values that it names; `parts`: those that
    are others than usual.
    """
    keeps = form is not None and form[0]
    kept = {"kept": "in_history", "fields": "fields"} if keeps else {}
    text = _text(name, {**PARTS, **kept, **parts}, keeps=keeps)
    names = list(dict.fromkeys(_NAME.findall(text)))

    def parameters(verb: Any, now: Now) -> Sequence[Any] | None:
        found = values(verb, now)
        return None if found is None else [found[name] for name in names]

    sql = _NAME.sub(lambda found: f"${names.index(found[1]) + 1}", text)
    return Everyday(sql.encode(), parameters, look, form)


def _text(name: str, parts: Mapping[str, str] = PARTS, *, keeps: bool = False) -> str:
    return rendered(with_parts(f"{{{{{name}}}}}", parts).replace("{keeps}", str(keeps).lower()))


WAITERS: Final = _text("waiters").encode()
"""A row, if somebody waits in one of the queues $1."""

LINE, EACH, IN_TURN = "take_line", "take_one_each", "take_in_turn"
"""Ways to take a batch: from the only channel with messages, one from each, or by turns."""

BEHIND_MARK: Final = "take_behind_mark"
"""The way to take one message where the usual one meets a head mark."""


def _distance(form: Form | None, wanted: Form) -> tuple[bool, bool]:
    return (
        (False, False) if form is None else (form[0] != wanted[0], form[1] not in ("", wanted[1]))
    )


class Shortcuts:
    """A store's memory of its queues, for the choice between a call's statements."""

    __slots__ = ("_forms", "_looked", "_missed", "_orders", "_paused")

    def __init__(self) -> None:
        self._forms: dict[str, Form] = {}
        self._orders: dict[tuple[bytes, Form], Sequence[Everyday]] = {}
        """The statements of a call, known by its first one: those of a form first."""
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

    def look_next(self, queue: str) -> None:
        """Let the next receive look: a lease may have been ended sooner."""
        self._looked.pop(queue, None)

    def everyday(
        self, statements: Sequence[Everyday], verb: Any, now: Now, *, looks: bool = False
    ) -> Sequence[BoundStatement]:
        """The everyday statement for this verb, or its look and the statement, with their
        parameters; empty: none is for it, or this queue is known to be special.
        """
        form = self._forms.get(verb.queue) if statements else None
        if form is not None:
            call = statements[0].sql, form
            if call not in self._orders:
                self._orders[call] = sorted(statements, key=lambda o: _distance(o.form, form))
            statements = self._orders[call]
        for statement in statements:
            parameters = statement.parameters(verb, now)
            if parameters is None:
                continue
            if self._paused:
                until = self._paused.get((verb.queue, statement.sql))
                if until is not None and time.monotonic() < until:
                    continue
            bound = (statement, parameters)
            if looks and statement.look is not None:
                return (*self.everyday((statement.look,), verb, now), bound)
            return (bound,)
        return ()

    def answered(self, statement: Everyday, verb: Any, rows: Sequence[Any]) -> None:
        """The everyday statement did it: the next one will be of its form, or of a better one."""
        if statement.form is None:
            return
        keeps, take = statement.form
        before = self._forms.get(verb.queue, (False, ""))
        if len(rows[0]) > 1 and rows[0][0] is None:  # acked, and nothing leased
            self._note_miss(statement, verb)
        if not take or verb.max_messages == 1:
            take = before[1]
        elif len(rows) < verb.max_messages:
            take = IN_TURN
        else:
            channels = len({row[2] for row in rows})
            take = LINE if channels == 1 else EACH if 2 * channels >= len(rows) else IN_TURN
        if before != (keeps, take):
            self._set_form(verb.queue, (keeps, take))

    def _set_form(self, queue: str, form: Form) -> None:
        if len(self._forms) >= _QUEUES_MAX:
            self._forms.clear()
        self._forms[queue] = form

    def was_special(self, statement: Everyday, verb: Any) -> None:
        """The everyday statement did nothing."""
        if statement.form is not None:
            self._set_form(verb.queue, (not statement.form[0], statement.form[1]))
        self._note_miss(statement, verb)

    def _note_miss(self, statement: Everyday, verb: Any) -> None:
        if len(self._missed) >= _QUEUES_MAX:
            self._missed.clear()
            self._paused.clear()
        key, now = (verb.queue, statement.sql), time.monotonic()
        if now < self._missed.get(key, 0.0) + PAUSE_SECONDS:
            self._paused[key] = now + PAUSE_SECONDS
        self._missed[key] = now
