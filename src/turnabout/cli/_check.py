"""The findings of `doctor`'s checks, and the words that all checks share."""

from __future__ import annotations

from dataclasses import dataclass

from turnabout.words.findings import Level


@dataclass(frozen=True, slots=True)
class Check:
    """One finding; `todo` says what to do next, and is empty if all is well."""

    name: str
    level: Level
    text: str
    todo: str


@dataclass(frozen=True, slots=True)
class Checked:
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
