"""The processes of the races, which follow their queues: from the file to where it says they are.

python -m tests.move.actors '{"role": "worker", "url": …, "next": …, …}'
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import turnabout
from tests.races import actors
from tests.races.actors import Actor
from turnabout import Busy, WrongVersion


class Follower(Actor):
    """Opens the database when the file says that it was moved. That call did not happen."""

    def __init__(self, plan: dict[str, Any]) -> None:
        while not hasattr(self, "mq"):
            try:
                super().__init__(plan)
            except WrongVersion:  # born after the move
                plan = {**plan, "url": plan["next"]}
            except Busy:  # born in the middle of it
                time.sleep(0.02)

    def call(self, say: dict[str, Any], verb: Callable[[], Any], tell: Callable[[Any], Any]) -> Any:
        def followed() -> Any:
            try:
                return verb()
            except WrongVersion as moved:
                self.mq.close()
                self.mq = turnabout.connect(self.plan["next"])
                raise Busy("not here any more") from moved

        return super().call(say, followed, tell)


class Producer(Follower, actors.Producer):
    def send(self, name: str, messages: list[Any], told: list[Any], *, keyed: bool) -> None:
        """Each turn goes to wherever the queues are by then: a key is known on both sides."""
        self.verb = lambda: self.mq.queue(name).send_many(messages)
        super().send(name, messages, told, keyed=keyed)

    def call(self, say: dict[str, Any], verb: Callable[[], Any], tell: Callable[[Any], Any]) -> Any:
        return super().call(say, self.verb, tell)


class Worker(Follower, actors.Worker):
    def settle(self, name: str, op: str, message: Any, verb: Callable[[], Any]) -> None:
        """By the receipt, wherever the queues are by now."""
        queue, receipt = self.mq.queue(name), message.receipt
        verbs: dict[str, Callable[[], Any]] = {
            "ack": lambda: queue.ack([receipt]),
            "release": lambda: queue.release([receipt]),
            "extend": lambda: queue.extend([receipt], lease_seconds=1.5),
            "defer": lambda: queue.defer([turnabout.Deferral(receipt, 20)]),
            "fail": lambda: queue.fail([turnabout.Failure(receipt, "no luck", delay_ms=50)]),
        }
        say = {"op": op, "q": name, "id": message.id, "attempt": message.attempt}
        self.call(say, verbs[op], lambda outcomes: type(outcomes[0]).__name__)


def main() -> None:
    plan = json.loads(sys.argv[1])
    actor = {"producer": Producer, "worker": Worker}[plan["role"]](plan)
    actor.run()
    actor.mq.close()


if __name__ == "__main__":
    main()
