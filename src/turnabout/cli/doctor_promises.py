"""The promises that a query can check on a live PostgreSQL database: each counts what must not be.

All are asked in one snapshot, read only. Rows of `message` with negative ids are marks of the store
(functions/lay_buoys.sql), and no messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from turnabout.words.findings import Finding, promises

QUESTIONS = {
    "endings": (
        "select count(*) from turnabout.message m join turnabout.history h on h.id = m.id and "
        "h.queue_id = m.queue_id where h.outcome <> 2"
    ),
    "one ending": (
        "select count(*) from (select 1 from turnabout.history h where h.finished_at > %(now)s - "
        "3600000 and h.outcome <> 2 group by h.queue_id, h.id having count(*) > 1) twice"
    ),
    "order": (
        "select count(*) from (select 1 from turnabout.message m join turnabout.queue q on q.id = "
        "m.queue_id where q.fifo and m.status = 2 group by m.queue_id, m.channel having count(*) "
        "> 1) two"
    ),
    "slots": (
        "select count(*) from (select 1 from turnabout.message m join turnabout.queue q on q.id = "
        "m.queue_id left join turnabout.channel c on c.queue_id = m.queue_id and c.name = "
        "m.channel where m.status = 2 and m.limited and m.at > %(now)s group by m.queue_id, "
        "m.channel, coalesce(c.max_concurrency, q.max_concurrency) having count(*) > "
        "coalesce(c.max_concurrency, q.max_concurrency)) over_limit"
    ),
    "rates": (
        "select count(*) from (select 1 from (select m.queue_id, m.channel, m.leased_at from "
        "turnabout.message m where m.status = 2 and m.limited and m.id > 0 union all select "
        "h.queue_id, h.channel, h.leased_at from turnabout.history h where h.finished_at > "
        "%(now)s - 86400000 and h.leased_at > %(now)s - 86400000 and h.outcome = 1) d join "
        "turnabout.queue q on q.id = d.queue_id join turnabout.channel c on c.queue_id = "
        "d.queue_id and c.name = d.channel where coalesce(c.rate_count, q.rate_count) is not null "
        "and d.leased_at > %(now)s - case when c.rate_count is null then q.rate_period_ms else "
        "c.rate_period_ms end group by d.queue_id, d.channel, c.rate_count, c.rate_burst, "
        "q.rate_count, q.rate_burst having count(*) > case when c.rate_count is null then "
        "q.rate_count + q.rate_burst else c.rate_count + c.rate_burst end) over_limit"
    ),
    "bounds": (
        "select (select count(*) from (select 1 from turnabout.message m join turnabout.queue q "
        "on q.id = m.queue_id where q.max_messages is not null and m.id > 0 group by q.id, "
        "q.max_messages having count(*) > q.max_messages) full_queue) + (select count(*) from "
        "(select 1 from turnabout.message m join turnabout.queue q on q.id = m.queue_id join "
        "turnabout.channel c on c.queue_id = m.queue_id and c.name = m.channel where "
        "coalesce(c.max_size, q.max_size) is not null and m.id > 0 group by q.id, c.name, "
        "c.max_size, q.max_size having count(*) > coalesce(c.max_size, q.max_size)) full_channel)"
    ),
    "one lease": (
        "select count(*) from (select 1 from turnabout.message m group by m.id having count(*) > "
        "1) twice"
    ),
    "charges": (
        "select (select count(*) from turnabout.message m where m.failures + m.crashes > "
        "m.attempt - case when m.status = 2 then 1 else 0 end) + (select count(*) from "
        "turnabout.history h where h.finished_at > %(now)s - 3600000 and h.failures + h.crashes > "
        "h.attempt)"
    ),
    "early": (
        "select (select count(*) from turnabout.message m join turnabout.queue q on q.id = "
        "m.queue_id where m.status = 0 and m.at > %(now)s + 60000 and not q.fifo and m.id > 0) + "
        "(select count(*) from (select e.kind, e.at, lag(e.kind) over (partition by e.queue_id, "
        "e.message_id order by e.seq) as before, lag(e.due_at) over (partition by e.queue_id, "
        "e.message_id order by e.seq) as due_at from turnabout.event e where e.at > %(now)s - "
        "3600000) told where told.kind = 'leased' and told.before in ('created', 'deferred', "
        "'failed') and told.due_at > told.at + 1000) + (select count(*) from turnabout.schedule s "
        "where s.last_at > %(now)s + 60000)"
    ),
    "keys": (
        "select count(*) from (select 1 from turnabout.dedup d group by d.queue_id, d.scope, "
        "d.key having count(*) > 1) twice"
    ),
    "cancelled": "select count(*) from turnabout.message where cancel_requested and status < 2",
    "expiry": (
        "select count(*) from turnabout.message m where m.expires_at < %(now)s - 60000 and "
        "m.status < 2 and m.id > 0"
    ),
    "exhausted": "select count(*) from turnabout.message"
    " where status < 2 and at >= 9000000000000000",
    "dead letters": (
        "select count(*) from turnabout.queue q where q.dead_letter is not null and not exists "
        "(select 1 from turnabout.queue d where d.name = q.dead_letter)"
    ),
    "dedup": (
        "select count(*) from turnabout.dedup d where not exists (select 1 from turnabout.queue q "
        "where q.id = d.queue_id)"
    ),
    "schedules": (
        "select count(*) from turnabout.schedule s where not s.paused and s.next_at < %(now)s - "
        "120000"
    ),
    "redrives": (
        "select count(*) from turnabout.redrive r where r.state = 'running' and not exists "
        "(select 1 from turnabout.queue q where q.id = r.queue_id)"
    ),
    "retention": (
        "select count(*) from turnabout.queue q where exists (select 1 from turnabout.history h "
        "where h.queue_id = q.id and h.finished_at < %(now)s - 86400000 - case when "
        "coalesce(q.history_failed_ms, 0) > q.history_ms then q.history_failed_ms else "
        "q.history_ms end)"
    ),
    "events": "select count(*) from turnabout.event e where e.at < %(now)s - 172800000",
    "namespaces": (
        "select count(*) from turnabout.queue q where left(q.name, greatest(position('/' in "
        "q.name), 1) - 1) <> '' and not exists (select 1 from turnabout.namespace n where n.name "
        "= left(q.name, greatest(position('/' in q.name), 1) - 1))"
    ),
    "tenants": (
        "select (select count(*) from turnabout.queue q join turnabout.queue o on o.name = "
        "q.dead_letter where left(q.name, greatest(position('/' in q.name), 1) - 1) <> "
        "left(o.name, greatest(position('/' in o.name), 1) - 1)) + (select count(*) from "
        "turnabout.queue q join turnabout.schedule o on o.queue = q.name where left(q.name, "
        "greatest(position('/' in q.name), 1) - 1) <> left(o.name, greatest(position('/' in "
        "o.name), 1) - 1))"
    ),
    "tokens": (
        "select count(*) from turnabout.token t where t.revoked_at is null and t.expires_at > "
        "%(now)s and t.expires_at < %(now)s + 604800000"
    ),
    "staged": "select count(*) from turnabout.stage s where s.staged_at < %(now)s - 86400000",
    "buoys": (
        "select count(*) from turnabout.message m where m.id > 0 and m.status = 0 and not "
        "m.limited and m.sent_at < %(now)s - 60000 and exists (select 1 from turnabout.message b "
        "where b.queue_id = m.queue_id and b.id < 0 and b.channel = m.channel and b.priority = "
        "m.priority and b.at > m.id and b.sent_at < %(now)s - 60000 and not exists (select 1 from "
        "turnabout.message n where n.queue_id = b.queue_id and n.id < b.id and n.channel = "
        "b.channel and n.priority = b.priority))"
    ),
    "days": (
        "select count(*) from turnabout.history_default h where h.finished_at > %(now)s - 86400000"
    ),
}

OF_SLICES = {"namespaces": "namespace", "tokens": "token", "staged": "stage"}
"""Questions about tables that a slice has made, if it is there."""


def answers(count: Callable[[str], int]) -> Iterator[Finding]:
    """Ask all questions. `count` runs a query, with `now` filled in."""
    there = "select count(to_regclass('turnabout.{}'))"
    asked = {
        name for name in QUESTIONS if name not in OF_SLICES or count(there.format(OF_SLICES[name]))
    }
    yield from promises(lambda name: count(QUESTIONS[name]), asked)
