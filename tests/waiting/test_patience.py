"""How often one looks who waits: with the time given."""

import pytest

from turnabout.waiting.pacing import Patience


def test_it_looks_soon_at_first_and_then_less_and_less_often() -> None:
    patience = Patience(100.0, None)
    pauses = [patience.for_hint(100.0 + waited) for waited in (0, 0.05, 0.5, 3, 4.9, 60, 3600)]
    assert pauses == pytest.approx([0.1, 0.1, 0.5, 3, 4.9, 5, 5])


def test_hints_without_end_do_not_make_it_look_without_end() -> None:
    """A hint at every moment for a minute: so many looks, and the last ones a second apart."""
    now, looks = 0.0, list[float]()
    patience = Patience(now, None)
    while now < 60:
        patience.looked(now)
        looks.append(now)
        now += patience.before_look(now)
    assert len(looks) < 120
    assert looks[1] == pytest.approx(0.005)
    assert looks[-1] - looks[-2] == pytest.approx(1.0)


def test_a_look_comes_at_most_a_tenth_of_the_time_waited_late() -> None:
    patience = Patience(0.0, None)
    for hinted in (0.06, 0.5, 4.0, 9.0):
        patience.looked(hinted)
        late = patience.before_look(hinted)
        assert late <= hinted / 10 + 1e-9


def test_rest_counts_from_the_last_look() -> None:
    patience = Patience(0.0, None)
    patience.looked(4.0)
    assert patience.before_look(4.1) == pytest.approx(0.31)
    assert patience.before_look(5.0) == 0


def test_it_never_sleeps_past_its_end() -> None:
    patience = Patience(10.0, 2.0)
    patience.looked(11.9)
    assert patience.for_hint(11.75) == pytest.approx(0.25)
    assert patience.before_look(11.9) == pytest.approx(0.1)
    assert not patience.is_over(11.999)
    assert patience.is_over(12.0)
    assert patience.for_hint(13.0) == 0


def test_what_came_starts_it_again() -> None:
    patience = Patience(0.0, 5.0)
    patience.start_again(4.0)
    assert not patience.is_over(8.9)
    assert patience.is_over(9.0)
    assert patience.for_hint(4.0) == pytest.approx(0.1)


def test_a_pause_may_be_kept_shorter() -> None:
    assert Patience(0.0, None, hint_seconds_max=1.0).for_hint(60.0) == 1.0
