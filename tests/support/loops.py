"""Async tests: each runs in a loop of its own, and `inside` opens there what it works on."""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

SECONDS = 60.0
"""Longer than any such test takes; only one that fails waits so long."""

Test = Callable[..., Awaitable[None]]


def run(test: Test, *given: Any, **fixtures: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(SECONDS):
            await test(*given, **fixtures)

    asyncio.run(main())


def inside(
    opened: Callable[..., AbstractAsyncContextManager[Any]], first: int = 1, **options: Any
) -> Callable[[Test], Callable[..., None]]:
    """Run an async test in what is opened with these options, anew for each case.

    What it yields, one thing or several, are the test's first arguments; the others are fixtures.
    """

    def around(test: Test) -> Callable[..., None]:
        async def within(**fixtures: Any) -> None:
            async with opened(**options) as given:
                await test(*([given] if first == 1 else given), **fixtures)

        @functools.wraps(test)
        def alone(**fixtures: Any) -> None:
            run(within, **fixtures)

        rest = list(inspect.signature(test).parameters.values())[first:]
        alone.__signature__ = inspect.Signature(rest)  # type: ignore[attr-defined]
        return alone

    return around


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    run(pyfuncitem.obj, **{name: pyfuncitem.funcargs[name] for name in names})
    return True
