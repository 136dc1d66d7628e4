"""The templates in this folder, filled in: whatever is put in is escaped."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup


def render(name: str, **values: Any) -> Markup:
    """A template with these values: complete and safe, to be put into another one as it is."""
    return Markup(_environment().get_template(name).render(**values))  # noqa: S704 - it has escaped


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )


def _shown(value: Any) -> Any:
    """Text without what may stand in no document: a channel's name may hold any character. Numbers
    have one digit behind the point.
    """
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    if type(value) is not str or value.isprintable():
        return value
    return "".join(
        c if (c >= " " or c in "\n\t") and not "\ud800" <= c <= "\udfff" else "\ufffd"
        for c in value
    )
