"""The promises that a query can check on a live database: each question counts what must not be.

The questions are the same for both stores. Where their tables differ, a name in braces stands for
what each has. All are asked in one snapshot, read only. Rows of `message` with negative ids are
marks of the PostgreSQL store (functions/lay_buoys.sql), and no messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from turnabout.cli import _show
from turnabout.cli._check import REPORT, Check, fail, ok, warn
from turnabout.words.limits import FOREVER_MS

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 86_400_000

LOWERED = "right after a limit was lowered that is as it should be; else please report it"


@dataclass(frozen=True, slots=True)
class Question:
    """`sql` counts; 0 is `good`, anything else is `bad`, and then `todo` says what to do."""

    name: str
    sql: str
    good: str
    bad: str
    todo: str = REPORT
    is_broken: bool = False
    """A promise is broken; else somebody only has to look after something."""
    table: str = ""
    """One that a database may lack which waits for its migration."""


SQLITE: Mapping[str, str] = {
    "s": "turnabout_",
    "now": ":now",
    "done": "h.outcome = 'done'",
    "for_good": "h.outcome <> 'dead'",
    "has_table": "select count(*) from sqlite_schema where name = 'turnabout_{}'",
    "namespace": "substr(q.name, 1, max(instr(q.name, '/'), 1) - 1)",
    "other": "substr(o.name, 1, max(instr(o.name, '/'), 1) - 1)",
}
POSTGRES: Mapping[str, str] = {
    "s": "turnabout.",
    "now": "%(now)s",
    "done": "h.outcome = 1",
    "for_good": "h.outcome <> 2",
    "has_table": "select count(to_regclass('turnabout.{}'))",
    "namespace": "left(q.name, greatest(position('/' in q.name), 1) - 1)",
    "other": "left(o.name, greatest(position('/' in o.name), 1) - 1)",
}
"""What the names in braces stand for. for_good: an ending that no redrive takes back. namespace,
other: of the queue q, of what is called o.
"""

QUESTIONS = (
    Question(
        "endings",
        "select count(*) from {s}message m join {s}history h"
        " on h.id = m.id and h.queue_id = m.queue_id where {for_good}",
        "what has ended is not there any more (P7)",
        "messages are unfinished, although their history says that they have ended (P7)",
        is_broken=True,
    ),
    Question(
        "one ending",
        "select count(*) from (select 1 from {s}history h"
        f" where h.finished_at > {{now}} - {HOUR_MS} and {{for_good}}"
        " group by h.queue_id, h.id having count(*) > 1) twice",
        "no message of the last hour has ended twice (P1)",
        "messages of the last hour have ended twice (P1)",
        is_broken=True,
    ),
    Question(
        "order",
        "select count(*) from (select 1 from {s}message m join {s}queue q on q.id = m.queue_id"
        " where q.fifo and m.status = 2 group by m.queue_id, m.channel having count(*) > 1) two",
        "no FIFO channel has two leases (P9)",
        "FIFO channels have more than one lease (P9)",
        is_broken=True,
    ),
    Question(
        "slots",
        "select count(*) from (select 1 from {s}message m join {s}queue q on q.id = m.queue_id"
        " left join {s}channel c on c.queue_id = m.queue_id and c.name = m.channel"
        " where m.status = 2 and m.limited and m.at > {now}"
        " group by m.queue_id, m.channel, coalesce(c.max_concurrency, q.max_concurrency)"
        " having count(*) > coalesce(c.max_concurrency, q.max_concurrency)) over_limit",
        "no channel has more leases than its max_concurrency (P10)",
        "channels have more leases than their max_concurrency (P10)",
        LOWERED,
    ),
    Question(
        "rates",
        # What was handed out since one period, as far as it is leased or done: at least so much.
        "select count(*) from (select 1 from ("
        "select m.queue_id, m.channel, m.leased_at from {s}message m"
        " where m.status = 2 and m.limited and m.id > 0"
        " union all select h.queue_id, h.channel, h.leased_at from {s}history h"
        f" where h.finished_at > {{now}} - {DAY_MS} and h.leased_at > {{now}} - {DAY_MS}"
        " and {done}) d join {s}queue q on q.id = d.queue_id"
        " join {s}channel c on c.queue_id = d.queue_id and c.name = d.channel"
        " where coalesce(c.rate_count, q.rate_count) is not null and d.leased_at > {now}"
        " - case when c.rate_count is null then q.rate_period_ms else c.rate_period_ms end"
        " group by d.queue_id, d.channel, c.rate_count, c.rate_burst, q.rate_count, q.rate_burst"
        " having count(*) > case when c.rate_count is null then q.rate_count + q.rate_burst"
        " else c.rate_count + c.rate_burst end) over_limit",
        "no channel was handed out faster than its rate (P11)",
        "channels were handed out faster than their rate (P11)",
        LOWERED,
    ),
    Question(
        "bounds",
        "select (select count(*) from (select 1 from {s}message m"
        " join {s}queue q on q.id = m.queue_id where q.max_messages is not null and m.id > 0"
        " group by q.id, q.max_messages having count(*) > q.max_messages) full_queue)"
        " + (select count(*) from (select 1 from {s}message m"
        " join {s}queue q on q.id = m.queue_id"
        " join {s}channel c on c.queue_id = m.queue_id and c.name = m.channel"
        " where coalesce(c.max_size, q.max_size) is not null and m.id > 0"
        " group by q.id, c.name, c.max_size, q.max_size"
        " having count(*) > coalesce(c.max_size, q.max_size)) full_channel)",
        "no queue and no channel holds more than it may (P17)",
        "queues or channels hold more than max_messages or max_size (P17)",
        "sends are refused until there is room. Sends of the same moment may pass a limit, and so"
        " do dead letters; else see whether it was lowered",
    ),
    Question(
        "one lease",
        "select count(*) from (select 1 from {s}message m group by m.id having count(*) > 1) twice",
        "no message is there twice (P5)",
        "messages are there twice, so they can have two leases (P5)",
        is_broken=True,
    ),
    Question(
        "charges",
        "select (select count(*) from {s}message m"
        " where m.failures + m.crashes > m.attempt - case when m.status = 2 then 1 else 0 end)"
        f" + (select count(*) from {{s}}history h where h.finished_at > {{now}} - {HOUR_MS}"
        " and h.failures + h.crashes > h.attempt)",
        "no delivery was charged twice (P6)",
        "messages were charged more often than delivered: a stale receipt was good (P6)",
        is_broken=True,
    ),
    Question(
        "early",
        "select (select count(*) from {s}message m join {s}queue q on q.id = m.queue_id"
        f" where m.status = 0 and m.at > {{now}} + {MINUTE_MS} and not q.fifo and m.id > 0)"
        " + (select count(*) from (select e.kind, e.at,"
        " lag(e.kind) over (partition by e.queue_id, e.message_id order by e.seq) as before,"
        " lag(e.due_at) over (partition by e.queue_id, e.message_id order by e.seq) as due_at"
        f" from {{s}}event e where e.at > {{now}} - {HOUR_MS}) told where told.kind = 'leased'"
        # (A receive reads the clock before it finds what was sent meanwhile.)
        " and told.before in ('created', 'deferred', 'failed') and told.due_at > told.at + 1000)"
        f" + (select count(*) from {{s}}schedule s where s.last_at > {{now}} + {MINUTE_MS})",
        "nothing was handed out or is ready before it is due (P8)",
        "messages or schedules are ahead of their time (P8)",
        "did somebody set the database's clock back? Else please report it, with this output",
    ),
    Question(
        "keys",
        "select count(*) from (select 1 from {s}dedup d"
        " group by d.queue_id, d.scope, d.key having count(*) > 1) twice",
        "no dedup key stands for two messages (P4)",
        "dedup keys stand for two messages (P4)",
        is_broken=True,
    ),
    Question(
        "cancelled",
        "select count(*) from {s}message m where m.cancel_requested and m.status < 2",
        "nothing waits that somebody has cancelled",
        "messages wait, although they were cancelled while they were leased",
        is_broken=True,
    ),
    Question(
        "expiry",
        "select count(*) from {s}message m"
        f" where m.expires_at < {{now}} - {MINUTE_MS} and m.status < 2 and m.id > 0",
        "nothing waits beyond its time to live",
        "messages have expired, and nobody has ended them yet (they are not handed out)",
        "any receive ends them: start a worker, or run `turnabout receive`",
    ),
    Question(
        "exhausted",
        f"select count(*) from {{s}}message m where m.status < 2 and m.at >= {FOREVER_MS}",
        "no FIFO channel waits for a person",
        "messages without attempts left hold their FIFO channels",
        "look at them with `turnabout peek`; then `turnabout retry` or `turnabout cancel`",
    ),
    Question(
        "dead letters",
        "select count(*) from {s}queue q where q.dead_letter is not null and not exists ("
        "select 1 from {s}queue d where d.name = q.dead_letter)",
        "all dead-letter queues are there",
        "queues name a dead-letter queue that is not there: dead messages end in history only",
        "make it: `turnabout queue create`, or name another: `turnabout queue update`",
    ),
    Question(
        "dedup",
        "select count(*) from {s}dedup d where not exists ("
        "select 1 from {s}queue q where q.id = d.queue_id)",
        "all dedup entries belong to a queue",
        "dedup entries belong to no queue",
        is_broken=True,
    ),
    Question(
        "schedules",
        "select count(*) from {s}schedule s where not s.paused"
        f" and s.next_at < {{now}} - {2 * MINUTE_MS}",
        "none is overdue",
        "schedules are overdue by more than two minutes",
        "no process looks after them: start a worker or `turnabout schedule run`",
    ),
    Question(
        "redrives",
        "select count(*) from {s}redrive r where r.state = 'running' and not exists ("
        "select 1 from {s}queue q where q.id = r.queue_id)",
        "none hangs",
        "redrives run from a queue that is gone",
        "end them: `turnabout redrive cancel`",
    ),
    Question(
        "retention",
        "select count(*) from {s}queue q where exists ("
        "select 1 from {s}history h where h.queue_id = q.id and h.finished_at < {now}"
        f" - {DAY_MS} - case when coalesce(q.history_failed_ms, 0) > q.history_ms"
        " then q.history_failed_ms else q.history_ms end)",
        "history is swept",
        "queues keep history for more than a day longer than they should",
        "receivers sweep it, a share each second: start a worker for these queues",
    ),
    Question(
        "events",
        f"select count(*) from {{s}}event e where e.at < {{now}} - {2 * DAY_MS}",
        "are swept",
        "events are older than two days",
        "receivers sweep them, a share each second: start a worker for their queues",
    ),
    Question(
        "namespaces",
        "select count(*) from {s}queue q where {namespace} <> '' and not exists ("
        "select 1 from {s}namespace n where n.name = {namespace})",
        "all queues with a namespace belong to one that is there",
        "queues are of a namespace that is not there: no token opens them",
        "make it: `turnabout token create`, or delete them: `turnabout queue delete`",
        table="namespace",
    ),
    Question(
        "tenants",
        "select (select count(*) from {s}queue q join {s}queue o on o.name = q.dead_letter"
        " where {namespace} <> {other})"
        " + (select count(*) from {s}queue q join {s}schedule o on o.queue = q.name"
        " where {namespace} <> {other})",
        "no dead letter and no schedule leads from one namespace to another (P14)",
        "queues or schedules lead from one namespace to another (P14)",
        "no token can do that, whoever has the database's URL can: name another dead-letter queue"
        " (`turnabout queue update`), or delete the schedule, unless that is what you want",
    ),
    Question(
        "tokens",
        "select count(*) from {s}token t where t.revoked_at is null"
        f" and t.expires_at > {{now}} and t.expires_at < {{now}} + {7 * DAY_MS}",
        "none ends within a week",
        "tokens end within a week",
        "see `turnabout token list`; make new ones in time: `turnabout token create`",
        table="token",
    ),
    Question(
        "staged",
        f"select count(*) from {{s}}stage s where s.staged_at < {{now}} - {DAY_MS}",
        "nothing is left of failed writes of pipelines",
        "messages were staged by a pipeline more than a day ago, and never published",
        "the next batch of any sink removes them; nobody has sent them, so nothing is lost",
        table="stage",
    ),
)

POSTGRES_ONLY = (
    Question(
        "buoys",
        "select count(*) from turnabout.message m"
        f" where m.id > 0 and m.status = 0 and not m.limited and m.sent_at < %(now)s - {MINUTE_MS}"
        " and exists (select 1 from turnabout.message b"
        " where b.queue_id = m.queue_id and b.id < 0 and b.channel = m.channel"
        " and b.priority = m.priority and b.at > m.id"
        f" and b.sent_at < %(now)s - {MINUTE_MS} and not exists ("
        "select 1 from turnabout.message n where n.queue_id = b.queue_id and n.id < b.id"
        " and n.channel = b.channel and n.priority = b.priority))",
        "hide no message",
        "ready messages are hidden behind a buoy since more than a minute",
        "receivers lower it, once a second: start a worker; if one runs, please report it",
    ),
    Question(
        "days",
        "select count(*) from turnabout.history_default h"
        f" where h.finished_at > %(now)s - {DAY_MS}",
        "history goes to the partition of its day",
        "rows of history of the last day have no partition of their own, and are swept one by one",
        "right after the first start that is as it should be; else see what the server's log says",
    ),
)


def answers(count: Callable[[str], int], names: Mapping[str, str]) -> Iterator[Check]:
    """Ask all questions that the store has. `count` runs a query, with `now` filled in."""
    more = POSTGRES_ONLY if names is POSTGRES else ()
    for question in QUESTIONS:
        if not question.table or count(names["has_table"].format(question.table)):
            yield _answer(question, count(question.sql.format_map(names)))
    for question in more:
        yield _answer(question, count(question.sql))


def _answer(question: Question, number: int) -> Check:
    if not number:
        return ok(question.name, question.good)
    kind = fail if question.is_broken else warn
    return kind(question.name, f"{question.bad}: {_show.count(number)}", question.todo)
