"""The end of a life: what is kept of it is compared with what the model remembers."""

from typing import Any

from tests.conformance.steps import finished
from turnabout.words import verbs as v
from turnabout.words.records import Event


class LooksBack:
    """What a life, which has all of these, does last."""

    run: Any
    queue: Any
    model: Any
    seen: Any
    ids: list[int]
    born: Any
    compare_schedules: Any

    def look_back(self) -> None:
        """History, endings and events tell what became of everything; schedules, where they are."""
        self.compare_schedules()
        for name in self.model.queues:
            self.compare_channels(name)
            self.compare_events(name)
            self.model.compare_history(name, finished(self.queue(name)))
            ids = tuple(self.ids[-20:])
            for number, ending in zip(ids, self.run(v.Endings(name, ids)), strict=True):
                row = self.model.ending(name, number)
                if row is None or isinstance(row, str):
                    assert (ending and ending.outcome) == row, (number, ending)
                else:
                    assert ending is not None, number
                    for told in ("outcome", "attempt", "error", "result", "note"):
                        assert getattr(ending, told) == getattr(row, told), told

    def compare_channels(self, name: str) -> None:
        self.model.compare_channels(name, self.queue(name).channels())

    def compare_events(self, name: str) -> None:
        """All that was told since the beginning."""
        told, cursor = list[Event](), self.born
        while page := self.run(v.Events(name, cursor)).events:
            told += page
            cursor = page[-1].cursor
        self.model.compare_events(name, told)
        self.seen.update(f"event {event.kind}" for event in told)
