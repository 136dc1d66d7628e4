"""What tenants share is shared: whose request is next, and who gives a place up."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.server.yard import Seconds
from tests.support.each import each
from turnabout.server.options import ServerOptions
from turnabout.server.tenants.admission import Admission
from turnabout.server.tenants.shares import Shares
from turnabout.server.tenants.turns import SHARED_SECONDS, Turns, cost_of
from turnabout.words import verbs as v
from turnabout.words.entities import Outgoing
from turnabout.words.errors import Busy, QuotaExceeded

# --- places --------------------------------------------------------------------------------------


class Places:
    """Shares, and what each holder has by what was told."""

    def __init__(self, most: int) -> None:
        self.shares = Shares(most)
        self.held: dict[str, list[Callable[[], bool]]] = {}
        self.stay: set[str] = set()
        """Holders that cannot be moved."""

    def take(self, holder: str) -> bool:
        mine = self.held.setdefault(holder, [])

        def give_way() -> bool:
            if holder in self.stay:
                return False
            mine.remove(give_way)
            return True

        if not self.shares.take(holder, give_way):
            return False
        mine.append(give_way)
        return True

    def counts(self) -> dict[str, int]:
        return {holder: len(claims) for holder, claims in self.held.items() if claims}


def test_one_alone_may_have_all_and_gives_up_what_others_ask_for() -> None:
    places = Places(10)
    assert [places.take("acme") for _ in range(12)] == [True] * 10 + [False] * 2
    oldest = places.held["acme"][0]
    assert [places.take("bob") for _ in range(7)] == [True] * 5 + [False] * 2
    assert oldest not in places.held["acme"]
    assert places.take("carol")
    assert places.counts() == {"acme": 4, "bob": 5, "carol": 1}
    assert not places.take("acme")


def test_whoever_cannot_be_moved_stays() -> None:
    places = Places(2)
    assert places.take("acme")
    assert places.take("acme")
    places.stay.add("acme")
    assert not places.take("bob")
    assert not places.shares.take("acme", lambda: True, may_replace=True)
    places.stay.clear()
    first = places.held["acme"][0]
    assert places.shares.take("acme", lambda: True, may_replace=True)
    assert first not in places.held["acme"]


@each("seed", range(20))
def test_in_the_end_the_shares_are_max_min(seed: int) -> None:
    """Everybody who asks for more than the fair share has it, and whoever asks for less has all."""
    chance = random.Random(seed)
    most, wanted = chance.randint(4, 40), {}
    for name in "abcdef"[: chance.randint(1, 6)]:
        wanted[name] = chance.randint(1, 30)
    places = Places(most)
    for _ in range(400):
        name = chance.choice(list(wanted))
        if places.shares.held(name) < wanted[name]:
            places.take(name)
        assert places.shares.taken == sum(places.counts().values()) <= most
    got = places.counts()
    if sum(wanted.values()) <= most:
        assert got == wanted
        return
    assert sum(got.values()) == most
    least = max(got.values()) - 1  # whole places are not cut in two
    assert all(count == wanted[name] or count >= least for name, count in got.items())


# --- turns ---------------------------------------------------------------------------------------

SEND = v.Send("q", (Outgoing(b"x"),))


class Work:
    """What runs, until it is let go."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.done: list[str] = []
        self.running: list[asyncio.Event] = []

    def ask(self, name: str, verb: Any = SEND) -> asyncio.Task[None]:
        return asyncio.ensure_future(self.turns.run(name, lambda: self._work(name), verb))

    async def _work(self, name: str) -> None:
        end = asyncio.Event()
        self.running.append(end)
        await end.wait()
        self.done.append(name)

    async def step(self) -> None:
        """The one that runs longest ends."""
        await asyncio.sleep(0)
        self.running.pop(0).set()
        for _ in range(4):
            await asyncio.sleep(0)


async def test_one_who_comes_to_a_crowd_goes_at_once() -> None:
    work = Work(Turns(4, 4, places=Shares(100)))
    for _ in range(50):
        work.ask("acme")
    await asyncio.sleep(0)
    assert len(work.running) == 4
    work.ask("bob")
    await asyncio.sleep(0)
    assert len(work.running) == 5
    for _ in range(51):
        await work.step()
    assert work.done[4] == "bob"
    assert Counter(work.done) == {"acme": 50, "bob": 1}
    assert work.turns.running == work.turns.places.taken == 0
    assert not work.turns._lines


async def test_one_alone_has_more_slots_until_another_comes() -> None:
    seconds = Seconds()
    work = Work(Turns(2, 5, places=Shares(100), clock=seconds))
    for _ in range(20):
        work.ask("acme")
    await asyncio.sleep(0)
    assert len(work.running) == 5
    work.ask("bob")
    for left in (5, 4, 3, 2, 2):
        await work.step()
        assert len(work.running) == left
    seconds.now += SHARED_SECONDS
    await work.step()
    assert len(work.running) == 5
    for _ in range(15):
        await work.step()
    assert Counter(work.done) == {"acme": 20, "bob": 1}


async def test_busy_ones_get_their_share_by_weight_and_cost() -> None:
    weights = {"acme": 1, "bob": 3, "carol": 1}
    work = Work(Turns(10, 10, places=Shares(5_000), weight_of=weights.__getitem__))
    large = v.Send("q", SEND.messages * (2 * cost_of(SEND) - 10))
    assert cost_of(large) == 2 * cost_of(SEND)
    for _ in range(1_000):
        work.ask("acme")
        work.ask("bob")
        work.ask("carol", large)
    for _ in range(900):
        await work.step()
    got = Counter(work.done)
    spent = {"acme": got["acme"], "bob": got["bob"] / 3, "carol": 2 * got["carol"]}
    fair = sum(got[name] * (2 if name == "carol" else 1) for name in got) / 5
    assert all(abs(one - fair) <= 0.1 * fair for one in spent.values()), spent
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert work.turns.running == work.turns.places.taken == 0


async def test_the_greediest_gives_up_a_place_in_the_line() -> None:
    work = Work(Turns(1, 1, places=Shares(4)))
    crowd = [work.ask("acme") for _ in range(6)]
    await asyncio.sleep(0)
    with pytest.raises(Busy, match="max_pending"):
        await crowd[5]
    others = [work.ask("bob") for _ in range(3)]
    await asyncio.sleep(0)
    for place in (1, 2):  # the oldest, as long as it has more
        with pytest.raises(Busy):
            await crowd[place]
    for _ in range(6):
        await work.step()
    assert [task.done() for task in others] == [True] * 3
    assert Counter(work.done) == {"acme": 3, "bob": 3}


async def test_one_who_gives_up_takes_no_turn() -> None:
    work = Work(Turns(1, 1, places=Shares(10)))
    tasks = [work.ask("acme") for _ in range(4)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.sleep(0)
    line = work.turns._lines["acme"]
    work.running.pop(0).set()
    while len(line.pending) > 1:  # noqa: ASYNC110 - the very round in which it gets its turn
        await asyncio.sleep(0)
    tasks[2].cancel()
    for _ in range(3):
        await asyncio.sleep(0)
    await work.step()
    assert work.done == ["acme", "acme"]
    assert work.turns.running == work.turns.places.taken == 0


# --- waiting -------------------------------------------------------------------------------------


async def test_who_waits_gives_way_to_others_and_a_quota_bounds_it() -> None:
    admission = Admission(ServerOptions(max_polls=3))

    async def wait(name: str, most: int | None = None) -> None:
        async with admission.waiter(name, most):
            await asyncio.Event().wait()

    crowd = [asyncio.ensure_future(wait("acme")) for _ in range(4)]
    await asyncio.sleep(0)
    with pytest.raises(Busy, match="max_polls"):
        await crowd[3]
    bob = asyncio.ensure_future(wait("bob", 1))
    with pytest.raises(Busy):
        await crowd[0]
    with pytest.raises(QuotaExceeded, match="1 requests of the namespace"):
        await wait("bob", 1)
    assert admission.waiting == 3
    for task in (bob, *crowd):
        task.cancel()
    await asyncio.gather(bob, *crowd, return_exceptions=True)
    assert admission.waiting == 0
