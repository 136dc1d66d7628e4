"""The findings of `doctor`'s checks, and the words that all checks share."""

from __future__ import annotations

from string import Formatter
from typing import Any

from turnabout.cli import _show
from turnabout.words.findings import Finding, Level
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


def check_of(finding: Finding) -> Check:
    """A finding with its facts filled in; a text without any may hold braces."""
    texts = (finding.text, finding.todo)
    if finding.facts:
        texts = (_Facts().vformat(text, (), finding.facts) for text in texts)
    return Check(finding.name, finding.level, *texts)


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
