"""Policy set: a channel gets limits of its own."""

from __future__ import annotations

from penstock.sqlite._connection import Connection
from penstock.sqlite._statements import statements
from penstock.sqlite.procedures import _channel, _queue
from penstock.words.policy import NO_POLICY, Policy, policy_row
from penstock.words.verbs import PolicySet

_SQL = statements("policy_set")


def policy_set(connection: Connection, verb: PolicySet, _now: int) -> Policy:
    """Change or replace the policy on the row of a channel, which gets one if it has none."""
    queue = _queue.need(connection, verb.queue)
    row = _channel.rows(connection, queue["id"], (verb.channel,)).get(verb.channel)
    own = NO_POLICY if row is None else _channel.policy(row)
    policy = (NO_POLICY if verb.replace else own).changed(verb.changes)
    if row is None:
        if policy == NO_POLICY:
            return policy
        _channel.add(connection, queue["id"], verb.channel)
    connection.execute(
        _SQL["set"],
        {
            **policy_row(policy),
            "paused": policy.paused,
            "queue": queue["id"],
            "channel": verb.channel,
        },
    )
    return policy
