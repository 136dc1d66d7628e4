"""How the ways that a handler can end become verbs."""

import pytest

from turnabout.words import limits
from turnabout.words.errors import UsageError
from turnabout.words.records import Result
from turnabout.worker import Defer
from turnabout.worker.endings import Done, Failed, PutOff, Returned, ending_of


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001
        return caught


def test_a_return_is_an_ack_with_the_value_as_its_result() -> None:
    assert ending_of(Returned()) == Done()
    assert ending_of(Returned(0)) == Done(Result(b"0", "application/json"))
    assert ending_of(Returned(Result(b"x", "image/png"))) == Done(Result(b"x", "image/png"))
    assert ending_of(Returned(Defer())) == PutOff(0, None)
    assert ending_of(Returned(KeyError("a value, not raised"))) == Done()


def test_defer_checks_its_arguments_where_it_is_raised() -> None:
    with pytest.raises(UsageError):
        Defer(delay_seconds=-1)
    with pytest.raises(UsageError):
        Defer(state="text")  # type: ignore[arg-type]


def test_a_long_traceback_is_cut_in_the_middle() -> None:
    ending = ending_of(raised(ValueError("x" * 100_000)))
    assert isinstance(ending, Failed)
    assert len(ending.error) <= limits.ERROR_CHARS_MAX
