"""The findings of `doctor`'s checks, and the words that all checks share."""

from __future__ import annotations

from turnabout.words.findings import Level
from turnabout.words.value import Value


class Check(Value):
    """One finding; `todo` says what to do next, and is empty if all is well."""

    name: str
    level: Level
    text: str
    todo: str


class Checked(Value):
    """The answer of a doctor with --json. `url`: the database, without its password; None: none."""

    url: str | None
    ok: bool
    checks: tuple[Check, ...]


def ok(name: str, text: str) -> Check:
    return Check(name, "ok", text, "")


def warn(name: str, text: str, todo: str) -> Check:
    return Check(name, "warn", text, todo)


def fail(name: str, text: str, todo: str) -> Check:
    return Check(name, "fail", text, todo)


REPORT = "please report it, with this output: something did what no verb does"
