"""Numbers for news: whoever asks first and looks then sleeps over nothing."""

from turnabout.remote.signals import Heard, Signals


def waiter(signals: Signals, seen: int) -> list[str]:
    """Who waits from now on; the list has a word as soon as he is told."""
    told: list[str] = []
    if not signals.subscribe("q", seen, lambda: told.append("told")):
        told.append("at once")
    return told


def test_the_first_that_is_heard_is_news() -> None:
    signals = Signals()
    told = waiter(signals, signals.number("q"))
    assert signals.is_waited_for("q")
    signals.hear("q", Heard(7, "a"))
    assert told == ["told"]
    assert not signals.is_waited_for("q")


def test_the_same_again_is_none_and_another_server_s_is() -> None:
    signals = Signals()
    signals.hear("q", Heard(7, "a"))
    seen = signals.number("q")
    told = waiter(signals, seen)
    signals.hear("q", Heard(7, "a"))
    signals.hear("other", Heard(8, "a"))
    assert told == []
    signals.hear("q", Heard(7, "b"))
    assert told == ["told"]
    assert signals.number("q") != seen


def test_news_between_the_question_and_the_wait_are_not_slept_over() -> None:
    signals = Signals()
    seen = signals.number("q")
    signals.hear("q", Heard(7, "a"))
    assert waiter(signals, seen) == ["at once"]


def test_who_is_woken_has_seen_nothing_new() -> None:
    signals = Signals()
    seen = signals.number("q")
    told = waiter(signals, seen)
    signals.wake("q")
    assert told == ["told"]
    assert signals.number("q") == seen


def test_who_goes_is_not_told() -> None:
    signals = Signals()
    told: list[str] = []

    def tell() -> None:
        told.append("told")

    assert signals.subscribe("q", 0, tell)
    signals.unsubscribe("q", tell)
    signals.unsubscribe("q", tell)
    signals.hear("q", Heard(7, "a"))
    assert told == []


def test_at_the_end_nobody_waits() -> None:
    signals = Signals()
    told = waiter(signals, 0)
    signals.close()
    assert told == ["told"]
    assert waiter(signals, 0) == ["at once"]
