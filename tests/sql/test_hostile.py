"""Roles that mean harm: whatever a role with a permission says to the functions that it may call,
it meets clean errors, and consumers of other queues receive what was sent to them.

The walk is generated: every function, under each kind of permission, with hostile values of the
type of each argument, one at a time and many at once.
"""

import random
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

import turnabout
from tests.postgres.asking import ask
from tests.sql.roles import name_of
from tests.support.each import each
from tests.support.seeds import EVERYTHING, run_seed
from turnabout import Acked, UsageError

pytestmark = pytest.mark.slow  # a database for each

KINDS = ("produce", "consume", "operate")
YEAR_MS = 366 * 86_400_000
LONG = "x" * 10_000
SHARE = 0.25
"""Of the walk, in each run another part: the whole of it with `--all`."""
REFUSED = (psycopg.DataError, psycopg.IntegrityError, psycopg.OperationalError)


@pytest.fixture
def producer(role) -> str:
    return role("produce")


@pytest.fixture
def consumer(role) -> str:
    return role("consume")


# --- one by one ----------------------------------------------------------------------------------


@each(
    "headers",
    [
        "not json",
        "null",
        "[]",
        '"text"',
        '{"a": 1}',
        '{"a": null}',
        '{"a": ["b"]}',
        '{"a": {}}',
        '{"": "b"}',
        '{"a": "\\u0000"}',
        '{"a": "\\ud800"}',
        '{}},{"receipt":"999.1","id":999,"channel":"vip","headers":{}',
        "{" + ",".join(f'"{n}": ""' for n in range(65)) + "}",
        '{"a": "' + "x" * 100_000 + '"}',
        '{"a": ' + "[" * 100_000,
    ],
)
def test_headers_are_an_object_of_texts(owner, producer, headers):
    """What is stored goes into the answer to a receive, which others read."""
    with pytest.raises(REFUSED):
        send(producer, payloads=[b"bad"], header_texts=[headers])
    with pytest.raises(REFUSED):
        send(producer, payloads=[b"good", b"bad"], header_texts=[None, headers])
    assert ask(owner, "select count(*) from turnabout.message") == [(0,)]


def test_headers_may_be_as_long_as_the_library_allows(owner, role):
    with turnabout.connect(role("produce")) as mq:
        for headers in (
            {"a": "\x01" * (16 * 1024 - 1)},
            {"a": "ü" * (8 * 1024 - 1)},
            {f"{n:02}": '"' * 254 for n in range(64)},
        ):
            mq.queue("work").send("x", headers=headers)
            with turnabout.connect(owner) as own:
                (message,) = own.queue("work").receive()
                assert message.headers == headers
                message.ack()


@each(
    "given",
    [
        {"queue": ""},
        {"queue": "evil\nname/<script>"},
        {"queue": "a/b/c"},
        {"queue": "acme/"},
        {"queue": "x" * 81},
        {"queue": "good\n"},
        {"queue": None},
        {"channels": ["x" * 256]},
        {"channels": ["ü" * 128]},
        {"content_type": ""},
        {"content_type": "x" * 256},
        {"content_type": "text/plain\r\nX-Evil: 1"},
        {"content_types": ["text/plain\x7f"]},
        {"delays": [-1]},
        {"delays": [YEAR_MS + 1]},
        {"ttls": [0]},
        {"ttls": [2**63 - 1]},
        {"dedup_keys": [""]},
        {"dedup_keys": ["k" * 256]},
        {"dedup_keys": ["k"], "dedup_modes": ["often"]},
        {"dedup_keys": ["k"], "dedup_scopes": ["world"]},
        {"dedup_keys": ["k"], "dedup_windows": [0]},
        {"priorities": [40_000]},
        {"payloads": [None]},
    ],
)
def test_a_send_is_checked_whoever_makes_it(owner, producer, given):
    with pytest.raises(REFUSED):
        send(producer, **given)
    assert ask(owner, "select count(*) from turnabout.message") == [(0,)]


def test_none_but_the_owner_tells_the_time(owner, role):
    """By another clock messages would expire, come early, be taken from their holders, and history
    would go.
    """
    with turnabout.connect(owner) as mq:
        fill(mq.queue("audit"))
    before = ask(owner, SNAPSHOT)
    for kind in KINDS:
        somebody = role(kind)
        told = [f for f in functions(owner, somebody) if "now_ms" in f.arguments]
        assert told
        for function in told:
            with pytest.raises(
                psycopg.errors.CheckViolation, match=r"only.the.owner.tells.the.time"
            ):
                function.call(somebody, {"now_ms": 2**41})
        with turnabout.connect(somebody, clock=lambda: 2**41) as mq:
            queue = mq.queue("audit")
            with pytest.raises(UsageError, match=r"only.the.owner.tells.the.time"):
                queue.receive() if kind == "consume" else queue.send("x")
    assert ask(owner, SNAPSHOT) == before


SNAPSHOT = """
select (select jsonb_agg(m order by m.id) from turnabout.message m),
    (select jsonb_agg(l order by l.id) from turnabout.lease l),
    (select jsonb_agg(h order by h.id) from turnabout.history h)
"""


@each(
    "settings",
    [
        {"lease_ms": 0},
        {"lease_ms": 604_800_001},
        {"lease_ms": None},
        {"max_attempts": 0},
        {"backoff_ms": -1},
        {"backoff_max_ms": YEAR_MS + 1},
        {"backoff_jitter_percent": 101},
        {"delay_ms": -1},
        {"ttl_ms": 0},
        {"on_exhausted": "explode"},
        {"pause_reason": "x" * 1025},
        {"dead_letter": "<b>"},
        {"max_messages": 0},
        {"dedup_mode": "often"},
        {"dedup_window_ms": 0},
        {"dedup_scope": "world"},
        {"history_ms": -1},
        {"history_failed_ms": 2**62},
        {"events": "some"},
        {"max_concurrency": -5},
        {"rate_count": 0},
        {"rate_period_ms": 0},
        {"rate_burst": 0},
        {"rate_interval_us": 0},
        {"max_size": 0},
        {"weight": 1001},
    ],
)
def test_settings_are_checked_whoever_makes_a_queue(owner, consumer, settings):
    with pytest.raises(REFUSED):
        ask(consumer, "select turnabout.queue_create('q', %s)", Jsonb(settings))
    assert ask(owner, "select count(*) from turnabout.queue") == [(0,)]


@pytest.fixture
def operator(owner, role) -> str:
    """The URL of a role that may do everything, in a database with the queue `q`."""
    ask(owner, "select turnabout.queue_create('q', '{}')")
    return role("operate")


@each(
    "policy",
    [
        {"max_concurrency": 0},
        {"max_concurrency": "many"},
        {"rate_count": 0},
        {"rate_period_ms": 86_400_001},
        {"rate_burst": 1_000_001},
        {"rate_interval_us": 0},
        {"max_size": -1},
        {"weight": 1001},
        {"pause_reason": LONG},
    ],
)
def test_policies_are_checked_whoever_sets_them(owner, operator, policy):
    with pytest.raises(REFUSED):
        ask(operator, "select turnabout.policy_set('q', 'c', %s)", Jsonb(policy))
    assert ask(owner, "select count(*) from turnabout.wake") == [(0,)]


SCHEDULE = {
    "name": "s", "queue": "q", "zone": "UTC", "every_ms": 60_000, "anchor": 0, "missed": "once",
    "overlap": "allow", "gap": "after", "fold": "first", "paused": False, "template": {},
}  # fmt: skip


@each(
    "wrong",
    [
        {"template": {"channel": LONG}},
        {"template": {"headers": {"a": 1}}},
        {"template": {"content_type": ""}},
        {"template": {"delay_ms": -1}},
        {"template": {"priority": 2**20}},
        {"template": {"dedup_key": "k", "dedup_mode": "often"}},
        {"every_ms": 999},
        {"every_ms": None},
        {"cron": "* * * * *"},
        {"missed": "all of them"},
        {"next_at": -1},
    ],
)
def test_schedules_are_checked_whoever_sets_them(owner, operator, wrong):
    """Who fires schedules reads them all: a wrong one would stop the others."""
    with pytest.raises(REFUSED):
        ask(operator, "select turnabout.schedule_set(%s, 'x')", Jsonb(SCHEDULE | wrong))
    assert ask(owner, "select count(*) from turnabout.schedule") == [(0,)]


# --- every function ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_hostile_role_harms_no_other_queue(owner, role, kind):
    hostile = role(kind)
    with turnabout.connect(owner) as mq:
        mq.queue("mine").create()
        mq.queue("mine").send("a")
        victim = mq.queue("victim")
        held = fill(victim)
        before = ask(owner, SNAPSHOT_OF_VICTIM)

        draw = random.Random(f"{kind} {run_seed()}")
        broken: set[str] = set()
        with psycopg.connect(hostile, autocommit=True) as connection:
            connection.execute("set statement_timeout = '20s'")  # nothing goes on for ever
            for function in functions(owner, hostile):
                if function.name == "log_purge":  # the history of all queues is what it purges
                    continue
                for given in walks(function, draw):
                    if not EVERYTHING and draw.random() > SHARE:
                        continue
                    try:
                        function.run(connection, given)
                    except psycopg.Error as error:
                        if not is_clean(error):
                            broken.add(f"{function.name}: {error.sqlstate} {error}")
                assert not connection.closed, function
        assert not broken
        assert ask(owner, SNAPSHOT_OF_VICTIM) == before
        assert held.ack() == Acked()
        got = victim.receive(10)
        assert [(m.text(), m.channel, dict(m.headers)) for m in got] == [
            ("ready", "b", {"trace": "1"})
        ]
        # What the role has left in queues of its own can be read.
        for entry in mq.queues():
            queue = mq.queue(entry.name)
            queue.peek(1000)
            assert all(isinstance(m.headers, Mapping) for m in queue.receive(1000))
        mq.stats()
        mq.schedules.list()


def fill(queue: Any) -> Any:
    """One message is done, one held, one ready, one due later: answers with the one held."""
    queue.send("done")
    queue.receive(1)[0].ack()
    queue.send("held", channel="a")
    (held,) = queue.receive(1, lease_seconds=3600)
    queue.send("ready", channel="b", headers={"trace": "1"}, ttl_seconds=86_400)
    queue.send("later", delay_seconds=86_400)
    return held


SNAPSHOT_OF_VICTIM = """
select (select to_jsonb(q) - 'timers_since' from turnabout.queue q where q.name = 'victim'),
    (select jsonb_agg(m order by m.id) from turnabout.message m where m.queue_id = v.id),
    (select jsonb_agg(l order by l.id) from turnabout.lease l where l.queue_id = v.id),
    (select jsonb_agg(h order by h.id) from turnabout.history h where h.queue_id = v.id)
from turnabout.queue v where v.name = 'victim'
"""


class Function(NamedTuple):
    """A function that a role may call. `arguments`: names and types, without domains."""

    place: str
    name: str
    arguments: dict[str, str]

    def run(self, connection: psycopg.Connection, given: Mapping[str, Any]) -> None:
        """Call it with these values, and null for the others."""
        values = sql.SQL(", ").join(
            sql.SQL("{} => {}::{}").format(
                sql.Identifier(name), sql.Literal(given.get(name)), sql.SQL(kind)
            )
            for name, kind in self.arguments.items()
        )
        name = sql.Identifier(self.place, self.name)
        connection.execute(sql.SQL("select * from {}({})").format(name, values))

    def call(self, url: str, given: Mapping[str, Any]) -> None:
        """The same by a connection of its own."""
        with psycopg.connect(url, autocommit=True) as connection:
            self.run(connection, given)


def functions(owner: str, url: str) -> list[Function]:
    """All that this role may call, in each set."""
    rows = ask(
        owner,
        "select n.nspname, p.proname, p.proargnames[1:p.pronargs], array("
        "   select coalesce(format_type(nullif(t.typbasetype, 0), null),"
        "       format_type(nullif(e.typbasetype, 0), null) || '[]', format_type(t.oid, null))"
        "   from unnest(p.proargtypes) with ordinality a (oid, nr)"
        "   join pg_type t on t.oid = a.oid left join pg_type e on e.oid = t.typelem"
        "   order by a.nr)"
        " from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
        " where n.nspname ~ '^turnabout' and p.prorettype <> 'trigger'::regtype"
        " and has_function_privilege(%s, p.oid, 'execute') order by 1, 2, p.oid",
        name_of(url),
    )
    return [
        Function(place, name, dict(zip(names or (), types, strict=True)))
        for place, name, names, types in rows
    ]


def walks(function: Function, draw: random.Random) -> Iterator[dict[str, Any]]:
    """What to call it with: each hostile value of each argument beside plain ones, then many."""
    plain = {name: PLAIN.get(name) for name in function.arguments}
    for name, kind in function.arguments.items():
        for value in hostile_values(kind):
            yield {**plain, name: value}
    for _ in range(20):
        yield {
            name: draw.choice([*hostile_values(kind), plain[name]])
            for name, kind in function.arguments.items()
        }


PLAIN = {
    "queue": "mine",
    "queues": "{mine}",
    "payload": "x",
    "payloads": "{x}",
    "content_type": "text/plain",
    "max_messages": 1,
    "lease_ms": 1000,
    "most": 10,
    "served": 0,
    "process": "p",
    "changes": "{3}",
    "valid_ms": 1000,
    "ids": "{1}",
    "attempts": "{1}",
    "leases": "{1}",
    "channel": "c",
    "name": "mine",
    "settings": "{}",
    "check_due": True,
    "bare": False,
}
"""Arguments as a caller would say them that means no harm."""

_TEXTS = (
    "",
    "other",
    "evil\nname/<script>",
    "'; drop table turnabout.message; --",
    '{}},{"receipt": "9.1", "headers": {}',
    "\x01\u202e\U0010ffff",
    "ü" * 200,
    LONG,
)
_NUMBERS = (-(2**63), -(2**31), -1, 0, 1, 2, 3, 2**31 - 1, 2**63 - 1)
_VALUES: dict[str, tuple[Any, ...]] = {
    "text": _TEXTS,
    "bytea": ("", "\\x00ff", LONG),
    "smallint": (-(2**15), -1, 0, 1, 2**15 - 1),
    "integer": tuple(n for n in _NUMBERS if abs(n) <= 2**31),
    "bigint": _NUMBERS,
    "boolean": (True, False),
    "double precision": ("nan", "infinity", "-infinity", -1, 0, 1e308),
    "timestamp with time zone": ("infinity", "-infinity", "1969-01-01", "9999-01-01", "2000-01-01"),
    "jsonb": (
        "null",
        "[]",
        "{}",
        '"text"',
        '{"lease_ms": -1, "weight": 0, "dead_letter": "a/b/c", "id": 1, "queue_id": 1}',
        '{"name": "other", "queue": "other", "max_concurrency": -1, "template": {"channel": 1}}',
        '{"lease_ms": "often", "fifo": "perhaps"}',
        '{"a": ' + "[" * 5_000 + "]" * 5_000 + "}",
    ),
    "xid8": ("0", "18446744073709551615"),
}


def hostile_values(kind: str) -> list[Any]:
    """Values of a type that nobody means well with; of an array, also odd shapes."""
    of = kind.removesuffix("[]")
    values = [None, *_VALUES[of]]
    if of == kind:
        return values
    arrays = [[value] for value in values]
    one = values[-1] if of not in ("text", "bytea") else "x"
    shapes = ("{}", f"{{{{{one}}},{{{one}}}}}", f"[5:5]={{{one}}}", f"[0:1]={{{one},NULL}}")
    return [None, *map(literal, arrays), literal([one] * 2_000), *shapes]


def literal(values: list[Any]) -> str:
    """The literal of an array."""
    texts = ["NULL" if value is None else quoted(str(value)) for value in values]
    return "{" + ",".join(texts) + "}"


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def is_clean(error: psycopg.Error) -> bool:
    """Whether it says that a value was refused: out of range, of a wrong form or shape, too long,
    against a rule of ours, or the name of nothing. Not that something broke or took for ever.
    """
    code = error.sqlstate or ""
    return code[:2] in ("22", "23", "PQ", "54") or code in ("0A000", "21000", "P0002")


def send(url: str, **given: Any) -> None:
    """The form of send that takes arrays."""
    given = {"queue": "work", "payloads": [b"x"], **given}
    kinds = {"payloads": "bytea[]", "priorities": "smallint[]", "delays": "bigint[]"}
    kinds |= {"ttls": "bigint[]", "dedup_windows": "bigint[]", "queue": "text"}
    kinds |= {"content_type": "text"}
    values = sql.SQL(", ").join(
        sql.SQL("{} => {}::{}").format(
            sql.Identifier(name), sql.Literal(value), sql.SQL(kinds.get(name, "text[]"))
        )
        for name, value in given.items()
    )
    ask(url, sql.SQL("select * from turnabout.send({})").format(values))
