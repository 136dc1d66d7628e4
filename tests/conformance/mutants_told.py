"""More mutants: bugs in where the dead go, and in what events and channels tell."""

from typing import Any

from tests.conformance.mutants import Mutant, of_rows
from turnabout.words import verbs as v
from turnabout.words.value import replace


class AllDiedInOneQueue(Mutant):
    """Of a dead-letter queue that two share, all go back to the same one."""

    def redrive_start(self, verb: v.RedriveStart) -> Any:
        self.sql("update turnabout_message set origin = replace(origin, '-next', '') where id > 0")
        return self.store.run(verb)


ReleaseIsNoEvent = of_rows(
    "ReleaseIsNoEvent", "release",
    each="delete from turnabout_event where kind = 'deferred' and message_id = ?",
)  # fmt: skip
OTHERS = [
    # Another dead-letter queue is named, and the old one goes on being used.
    of_rows(
        "DeadGoWhereTheyWent", "queue_update",
        kept="select dead_letter_id, id from turnabout_queue",
        back="update turnabout_queue set dead_letter_id = ? where id = ?",
    ),
    # The last failure of a message is an event of its own, beside its death.
    of_rows(
        "DeathIsToldTwice", "fail",
        each="insert into turnabout_event (queue_id, at, message_id, attempt, kind, channel)"
        " select queue_id, at, message_id, attempt, 'failed', channel from turnabout_event"
        " where kind = 'dead' and message_id = ?",
    ),
]  # fmt: skip


class RateIsNotSaid(Mutant):
    """A channel that has no token left seems to be free."""

    def stats_of_channels(self, verb: v.StatsOfChannels) -> Any:
        return tuple(
            replace(c, blocked=None) if c.blocked == "rate" else c for c in self.store.run(verb)
        )
