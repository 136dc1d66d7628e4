"""Bugs planted in PostgreSQL's functions, and whether tests notice them.

A bug is a text in a function, however its lines break, and what stands there instead: a function
may move and be renamed. Where the text is gone, that is an error.
Tests are named as `module::test` and called here, at a door of their own, with what they ask for.
"""

import contextlib
import functools
import importlib
import inspect
import itertools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import psycopg
import pytest

from tests.support.doors import Door, opened
from turnabout.postgres.everyday import Shortcuts

DOOR: Final = "postgres" if os.environ.get("TURNABOUT_TEST_POSTGRES") else "postgres-18"
_FUNCTIONS: Final = """
select p.proname, pg_get_functiondef(p.oid) from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
where starts_with(n.nspname, 'turnabout') and p.prokind = 'f'
"""


@dataclass(frozen=True)
class Bug:
    """What is wrong, the tests that must notice, the text, and what stands there instead."""

    what: str
    tests: Sequence[str]
    old: str
    new: str


def bugs(table: str) -> list[Bug]:
    """A table of them: `# what`, `@ module::test` once or more, `- old`, `+ new`."""
    found = re.findall(r"^# (.+)\n((?:@ .+\n)+)- (.+)\n\+ ?(.*)$", table, re.MULTILINE)
    assert len(found) == table.count("\n# ")
    return [Bug(what, re.findall("@ (.+)", tests), old, new) for what, tests, old, new in found]


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A door whose functions may be spoiled: no everyday statement does their work."""
    with pytest.MonkeyPatch.context() as patch, opened(DOOR, tmp_path_factory.mktemp("d")) as door:
        patch.setattr(Shortcuts, "everyday", lambda *_, **__: ())
        yield door


def must_notice(bug: Bug, door: Door, package: str) -> None:
    """Fail unless a case of the tests fails with the bug, and that case passes as things are."""
    cases = [case for test in bug.tests for case in _cases(f"{package}.{test}", door)]
    with planted(door.url, bug):
        noticed = next((case for case in cases if not _passes(case)), None)
    assert noticed, f"nobody noticed: {bug}"
    noticed()


def _passes(case: Callable[[], None]) -> bool:
    with contextlib.suppress(Exception):  # whatever it is, it was noticed
        case()
        return True
    return False


def plant(connection: psycopg.Connection[Any], bug: Bug) -> list[str]:
    """Answers with the functions as they were."""
    old = re.compile(r"\s*".join(map(re.escape, re.findall(r"\w+|[^\w\s]", bug.old))))
    found = [text for _, text in connection.execute(_FUNCTIONS) if old.search(text)]
    assert found, f"no function has the text {bug.old!r}: plant the bug where it stands now"
    for text in found:
        connection.execute(old.sub(lambda _: bug.new, text).encode())
    return found


@contextlib.contextmanager
def planted(url: str, bug: Bug) -> Iterator[None]:
    with psycopg.connect(url, autocommit=True) as connection:
        found = plant(connection, bug)
        try:
            yield
        finally:
            for text in found:
                connection.execute(text.encode())


def _cases(name: str, door: Door) -> Iterator[Callable[[], None]]:
    """A test's cases, each to be called as often as one likes."""
    place, _, test = name.partition("::")
    module = importlib.import_module(f"tests.{place}")
    function = getattr(module, test)
    marks = [mark for mark in getattr(function, "pytestmark", []) if mark.name == "parametrize"]
    cases = [[_named(mark.args[0], case) for case in mark.args[1]] for mark in marks]
    for chosen in itertools.product(*cases):
        given = {key: value for case in chosen for key, value in case.items()}
        known = {"door": door, "clock": door.clock, "url": door.url, **given}
        yield functools.partial(_call, function, module, known)


def _call(function: Any, module: Any, known: dict[str, Any]) -> None:
    with contextlib.ExitStack() as stack:
        function(**_asked(function, module, dict(known), stack))


def _named(names: str | Sequence[str], case: Any) -> dict[str, Any]:
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    values = case.values if hasattr(case, "values") and hasattr(case, "marks") else None
    values = values or ([case] if len(keys) == 1 else case)
    return dict(zip(keys, values, strict=True))


def _asked(
    function: Any, module: Any, known: dict[str, Any], stack: contextlib.ExitStack
) -> dict[str, Any]:
    """What a test or a fixture asks for."""
    for name in inspect.signature(function).parameters:
        if name in known:
            continue
        if name == "queue" and not hasattr(module, "queue"):
            known[name] = known["door"].fresh(backoff_jitter=0.0)
            continue
        fixture = getattr(module, name)._get_wrapped_function()
        made = fixture(**_asked(fixture, module, known, stack))
        if inspect.isgenerator(made):
            stack.callback(next, made, None)
            made = next(made)
        known[name] = made
    return {name: known[name] for name in inspect.signature(function).parameters}
