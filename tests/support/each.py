"""`each`: a table of cases in one test, for what is cheap and many. It tells all that failed."""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tests.support.loops import run


def each(
    names: str | Sequence[str], cases: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `pytest.mark.parametrize`, but the cases share one test and its fixtures.

    For look-ups over files and for refusals that leave nothing behind: a test of its own for each
    costs more than it asks.
    """
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    cases = list(cases)
    rows = [
        case.values if hasattr(case, "marks") else [case] if len(keys) == 1 else list(case)
        for case in cases
    ]
    assert rows, f"no cases of {names}"

    def around(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def loop(**fixtures: Any) -> None:
            failures: list[Exception] = []
            for row in rows:
                try:
                    case = dict(zip(keys, row, strict=True))
                    if inspect.iscoroutinefunction(test):
                        run(test, **fixtures, **case)
                    else:
                        test(**fixtures, **case)
                except Exception as error:  # noqa: BLE001 - raised again below, with the others
                    error.add_note(f"in the case {row!r}")
                    failures.append(error)
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(rows)} cases", failures)

        signature = inspect.signature(test)
        rest = [wanted for name, wanted in signature.parameters.items() if name not in keys]
        loop.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
        return loop

    return around
