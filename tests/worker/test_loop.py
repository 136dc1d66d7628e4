"""What a worker decides, with times as plain numbers."""

import pytest

from turnabout.words.entities import Receipt
from turnabout.words.errors import UsageError
from turnabout.worker.loop import (
    BACKOFF_SECONDS_MAX,
    Backoff,
    ConsumerOptions,
    Emptiness,
    HeldLeases,
    Lease,
    LeaseStage,
    Phase,
    pause_seconds,
)


def held(count: int = 0, **options: object) -> HeldLeases:
    made = HeldLeases(ConsumerOptions(**options))  # type: ignore[arg-type]
    for number in range(1, count + 1):
        made.add(Receipt(number, 1), 30.0, 0.0)
    return made


class TestRoom:
    def test_never_more_than_concurrency_and_prefetch(self) -> None:
        assert held(concurrency=10).room() == 10
        assert held(3, concurrency=10).room() == 7
        assert held(10, concurrency=10).room() == 0
        assert held(concurrency=10, prefetch=4).room() == 14

    def test_what_is_not_acked_yet_takes_room(self) -> None:
        full = held(1, concurrency=1)
        (lease,) = full
        lease.stage = LeaseStage.SETTLING
        assert full.room() == 0
        full.drop(lease)
        assert full.room() == 1

    def test_with_enough_fetched_ahead_it_does_not_ask_for_each(self) -> None:
        ahead = held(9, concurrency=1, prefetch=9)
        assert ahead.room() == 0  # one place is free, eight wait
        for lease in list(ahead)[:4]:
            ahead.drop(lease)
        assert ahead.room() == 5

    def test_but_it_asks_when_nothing_waits(self) -> None:
        busy = held(4, concurrency=4, prefetch=4)
        for lease in busy:
            lease.stage = LeaseStage.RUNNING
        assert busy.room() == 4
        busy = held(4, concurrency=4, prefetch=1)
        for lease in busy:
            lease.stage = LeaseStage.RUNNING
        assert busy.room() == 1

    @pytest.mark.parametrize(
        "wrong",
        [{"concurrency": 0}, {"prefetch": -1}, {"lease_seconds": 0}, {"shard": (2, 2)}],
    )
    def test_options_out_of_range_are_refused(self, wrong: dict[str, object]) -> None:
        with pytest.raises(UsageError):
            held(**wrong)


class TestBeats:
    def test_the_first_beat_is_a_third_into_the_lease(self) -> None:
        leases = held(concurrency=9)
        assert leases.next_beat() is None
        lease = leases.add(Receipt(1, 1), 30.0, asked_at=100.0)
        assert leases.next_beat() == pytest.approx(110.0)
        assert lease.ends_at == 130.0
        assert leases.to_extend(109.0) == []
        assert leases.to_extend(110.0) == [lease]

    def test_a_beat_takes_all_leases_along(self) -> None:
        leases = held(concurrency=9)
        early = leases.add(Receipt(1, 1), 30.0, 0.0)
        late = leases.add(Receipt(2, 1), 30.0, 9.0)
        assert leases.to_extend(10.0) == [early, late]
        for lease in (early, late):
            leases.extended(lease, 10.0)
        assert leases.next_beat() == pytest.approx(20.0)
        assert late.ends_at == 40.0

    def test_what_is_being_settled_is_left_alone(self) -> None:
        leases = held(concurrency=9)
        stages: list[Lease] = [leases.add(Receipt(n, 1), 30.0, 0.0) for n in range(1, 6)]
        stages[0].stage = LeaseStage.SETTLING
        stages[1].settled = True
        stages[2].verbs = 1
        stages[3].lost = True
        assert leases.to_extend(10.0) == [stages[4]]
        assert leases.overdue(31.0) == [stages[4]]

    def test_a_beat_that_fails_is_tried_again_until_the_lease_ends(self) -> None:
        leases = held(concurrency=9)
        lease = leases.add(Receipt(1, 1), 30.0, 0.0)
        leases.put_off([lease], 10.0, 5.0)
        assert leases.next_beat() == 15.0
        leases.put_off([lease], 28.0, 5.0)
        assert leases.next_beat() == 30.0
        assert leases.overdue(29.9) == []
        assert leases.overdue(30.0) == [lease]

    def test_without_heartbeat_nothing_is_extended_but_the_end_is_noticed(self) -> None:
        leases = held(concurrency=9, heartbeat=False)
        lease = leases.add(Receipt(1, 1), 30.0, 0.0)
        assert leases.next_beat() == 30.0
        assert leases.to_extend(30.0) == []
        assert leases.overdue(30.0) == [lease]


class TestWaits:
    def test_full_jitter_doubles_up_to_a_bound(self) -> None:
        backoff = Backoff()
        most = [backoff.next(1.0) for _ in range(12)]
        assert most[:4] == pytest.approx([0.1, 0.2, 0.4, 0.8])
        assert most[-1] == BACKOFF_SECONDS_MAX
        assert Backoff(5).next(0.0) == 0.0

    def test_the_pause_after_an_empty_answer(self) -> None:
        assert pause_seconds(None, 20.0) == 20.0
        assert pause_seconds(3.0, 20.0) == 3.0
        assert pause_seconds(60.0, 20.0) == 20.0
        assert pause_seconds(0.0, 20.0) > 0  # never a tight loop


def test_two_signals() -> None:
    assert Phase.TAKING.signalled() is Phase.FINISHING
    assert Phase.FINISHING.signalled() is Phase.RELEASING
    assert Phase.RELEASING.signalled() is Phase.RELEASING


class TestEmptiness:
    def test_all_queues_have_to_be_empty_at_once(self) -> None:
        both = Emptiness(["a", "b"])
        assert not both.found("a", both.mark())
        assert both.found("b", both.mark())

    def test_a_message_in_between_makes_an_old_finding_worthless(self) -> None:
        both = Emptiness(["a", "b"])
        assert not both.found("a", both.mark())
        both.taken(1)  # from b; its handler may send to a
        assert both.ended()
        assert not both.found("b", both.mark())
        assert both.found("a", both.mark())

    def test_not_while_a_message_is_held(self) -> None:
        one = Emptiness(["a"])
        one.taken(2)
        assert not one.found("a", one.mark())
        assert not one.ended()
        assert not one.found("a", one.mark())
        assert one.ended()
        assert one.found("a", one.mark())

    def test_not_if_the_question_was_asked_before_the_last_one_ended(self) -> None:
        one = Emptiness(["a"])
        one.taken(1)
        mark = one.mark()
        one.ended()
        assert not one.found("a", mark)

    def test_a_retry_is_expected_until_it_came_or_is_late(self) -> None:
        one = Emptiness(["a"])
        one.expect("a", 1, at=10.0, now=5.0)
        one.expect("a", 2, at=8.0, now=5.0)
        one.expect("a", 3, at=65.1, now=5.0)  # not so near
        assert one.next_expected("a", 5.0) == 8.0
        assert one.next_expected("b", 5.0) is None
        one.came("a", [2, 7])
        assert one.next_expected("a", 11.0) == 10.0
        assert one.next_expected("a", 11.1) is None
