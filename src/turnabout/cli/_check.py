"""The findings of `doctor`'s checks, and the words that all checks share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from string import Formatter
from typing import Any

from turnabout.cli import _show
from turnabout.slices import Slice
from turnabout.words.findings import Finding, Level, Question
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


def check_of(finding: Finding) -> Check:
    """A finding with its facts filled in."""
    return Check(
        finding.name,
        finding.level,
        *(_said(t, finding.facts) for t in (finding.text, finding.todo)),
    )


def checks_of_slice(url: str, slice_: Slice, questions: Mapping[str, Question]) -> Iterator[Check]:
    """The answers to a slice's questions, whose statements are in its `doctor.sql`."""
    from turnabout._connect import counts_of

    return map(check_of, counts_of(url, slice_, questions))


class _Facts(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec == "ms":
            return _show.milliseconds(value)
        if format_spec == "seconds":
            return _show.duration(value)
        if format_spec == "clean":
            return _show.clean(value) or "no name"
        if format_spec.isalpha():
            return _show.plural(value, format_spec)
        return super().format_field(value, format_spec)


def _said(text: str, facts: Mapping[str, Any]) -> str:
    return _Facts().vformat(text, (), facts)
