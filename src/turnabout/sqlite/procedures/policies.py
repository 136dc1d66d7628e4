"""A channel gets limits of its own, or is removed."""

from __future__ import annotations

from turnabout.sqlite._connection import Connection
from turnabout.sqlite._statements import statements
from turnabout.sqlite.procedures import _channel, _finish, _queue
from turnabout.sqlite.procedures.receive import end_leases
from turnabout.words.outcomes import Deleted
from turnabout.words.policy import NO_POLICY, Policy, pause_row, policy_row
from turnabout.words.value import replace
from turnabout.words.verbs import ChannelDelete, PolicySet

_SQL = statements("policy_set")


def policy_set(connection: Connection, verb: PolicySet, now: int) -> Policy:
    """Change or replace the policy on the row of a channel, which gets one if it has none."""
    queue = _queue.need(connection, verb.queue)
    row = _channel.rows(connection, queue["id"], (verb.channel,)).get(verb.channel)
    own = NO_POLICY if row is None else _channel.policy(row)
    policy = (NO_POLICY if verb.replace else own).changed(verb.changes)
    if verb.pause_ms is not None:
        until = max(policy.paused_until or 0, now + verb.pause_ms)
        policy = replace(policy, paused_until=until)
    if row is None:
        if policy == NO_POLICY:
            return policy
        _channel.add(connection, queue["id"], verb.channel)
    connection.execute(
        _SQL["set"],
        {
            **policy_row(policy),
            **pause_row(policy),
            "queue": queue["id"],
            "channel": verb.channel,
        },
    )
    return policy


def channel_delete(connection: Connection, verb: ChannelDelete, now: int) -> Deleted:
    """Cancel what waits in a channel, and clear its policy. Leases run on."""
    queue = end_leases(connection, _queue.need(connection, verb.queue), now)
    parameters = {"queue": queue["id"], "channel": verb.channel}
    ids = sorted(row["id"] for row in connection.execute(_finish.SQL["waiting"], parameters))
    _finish.Finish(connection, queue, now).end("cancelled", ids)
    changes = _channel.ChannelChanges()
    changes.add(verb.channel, size=-len(ids))
    changes.write(connection, queue["id"])
    policy_set(connection, PolicySet(verb.queue, verb.channel, {}, replace=True), now)
    return Deleted(len(ids))
