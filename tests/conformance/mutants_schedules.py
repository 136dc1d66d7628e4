"""Stores with a planted bug in their schedules; as in `mutants`."""

from typing import Any

from tests.conformance.mutants import Mutant
from turnabout.words import verbs as v
from turnabout.words.outcomes import Fired


class FiredTwice(Mutant):
    """Two processes that look at the same moment both send."""

    def schedule_fire(self, verb: v.ScheduleFire) -> Any:
        answer = self.store.run(verb)
        if isinstance(answer, Fired) and answer.id is not None:
            self.sql(
                "update turnabout_schedule set next_at = ? where name = ?",
                verb.due_at,
                verb.schedule,
            )
            self.sql("update turnabout_schedule set last_at = null where name = ?", verb.schedule)
            self.store.run(verb)
        return answer


class OverlapForgotten(Mutant):
    """A schedule that is set again no longer knows its last message."""

    def schedule_set(self, verb: v.ScheduleSet) -> Any:
        name = verb.schedule.name
        self.sql("update turnabout_schedule set last_id = null where name = ?", name)
        return self.store.run(verb)


class PauseFires(Mutant):
    def schedule_list(self, verb: v.ScheduleList) -> Any:
        if not verb.due:
            return self.store.run(verb)
        names = self.sql("select name from turnabout_schedule where paused = 1")
        self.sql("update turnabout_schedule set paused = 0")
        return self._with_pauses(names, self.store.run(verb))

    def _with_pauses(self, names: list[Any], entries: Any) -> Any:
        for entry in entries:
            if entry.next_at is not None:
                self.store.run(v.ScheduleFire(entry.schedule.name, entry.next_at, None))
        for (name,) in names:
            self.sql("update turnabout_schedule set paused = 1 where name = ?", name)
        return entries


class DueTimeLost(Mutant):
    """One that finds no room stays where it is, and is never due again."""

    def schedule_fire(self, verb: v.ScheduleFire) -> Any:
        answer = self.store.run(verb)
        if answer == Fired(None):
            self.sql("update turnabout_schedule set next_at = null where name = ?", verb.schedule)
        return answer
