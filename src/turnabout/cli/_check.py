"""What a check of `doctor` finds, and the words that all checks share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from turnabout.words.findings import Level


@dataclass(frozen=True, slots=True)
class Check:
    """One finding; `todo` says what to do next, unless all is well."""

    name: str
    level: Level
    text: str
    todo: str = ""


def ok(name: str, text: str) -> Check:
    return Check(name, "ok", text)


def warn(name: str, text: str, todo: str) -> Check:
    return Check(name, "warn", text, todo)


def fail(name: str, text: str, todo: str) -> Check:
    return Check(name, "fail", text, todo)


REPORT = "please report it, with this output: something did what no verb does"


def guarded(name: str, run: Callable[[], Iterable[Check]], errors: type[Exception]) -> list[Check]:
    """The findings of some checks; an error of the database is a finding as well."""
    found: list[Check] = []
    try:
        found.extend(run())
    except errors as error:
        found.append(
            fail(name, f"the check itself failed: {error}", "fix this, then run doctor again")
        )
    return found
