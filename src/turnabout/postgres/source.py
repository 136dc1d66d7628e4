"""SQL files as the installer runs them: completed, and cut up into statements.

Every PL/pgSQL function takes a name that is both a column and a variable as the column. A function
that clients call says behind its head how its statements are planned, `-- plans: pinned` or
`-- plans: free`, by the settings below. One that only functions call is planned as its caller is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

ROOMS = ["base", "limits", "place", "send", "end", "settle", "time", "receive", "look", "admin"]
"""Folders of the core's functions in `sql/`: each calls its own room and earlier ones only."""

PINNED = """\
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
"""
"""One plan, by the indexes made for it, whatever the statistics say at the moment. It is never
compiled: that takes longer than to run it."""

FREE = """\
set plan_cache_mode = auto
set enable_seqscan = on
set jit = off
"""
"""The planner's choice, also in a session that has the settings of everyday statements."""

_FUNCTION = re.compile(
    r"\blanguage (plpgsql|sql)\b([^;]*?)\s+as (\$\w*\$)(?:  -- plans: (pinned|free))?\n"
)
_PART = re.compile(r"\{\{(\w+)((?:[^{}]|\{\w+\})*)\}\}")
_TOKEN = re.compile(
    r"--[^\n]*"
    r"|/\*.*?\*/"
    r"|'(?:[^']|'')*'"
    r'|"[^"]*"'
    r"|\$(?P<tag>[a-zA-Z_]\w*|)\$.*?\$(?P=tag)\$"
    r"|(?P<end>;)",
    re.DOTALL,
)


def sql_files(package: str, *folders: str) -> list[Traversable]:
    """The SQL files in these folders of a package, in their order, in each by name."""
    inside = [sorted((files(package) / one).iterdir(), key=lambda f: f.name) for one in folders]
    return [file for some in inside for file in some if file.name.endswith(".sql")]


def text_of(file: Traversable) -> str:
    """The text of a file."""
    return file.read_text(encoding="utf-8")


PARTS = {"limits": "no_policies", "kept": "nowhere", "fields": "nowhere", "take": "take_in_turn"}
"""Parts that have several forms: which is the usual one."""


def with_parts(text: str, parts: Mapping[str, str] = PARTS) -> str:
    """A text with everyday statements and their parts put in: `{{part name = value; …}}`. The part
    has `{name}`, or the parameter `$name`, where the value goes.
    """

    def put_in(found: re.Match[str]) -> str:
        part, arguments = found.groups()
        inside = _part(parts.get(part, part))
        values = [one.partition(" =") for one in arguments.split(";") if one.strip()]
        for name, _, value in values:
            inside = inside.replace(f"{{{name.strip()}}}", value.strip())
        inside = with_parts(inside, parts)
        for name, _, value in values:
            inside = re.sub(rf"\${name.strip()}\b(::\w+)?", value.strip(), inside)
        return inside

    while _PART.search(text):
        text = _PART.sub(put_in, text)
    return text


@cache
def _part(name: str) -> str:
    folder = files("turnabout.postgres.everyday")
    part = folder / "parts" / f"{name}.sql"
    text = text_of(part if part.is_file() else folder / f"{name}.sql")
    return re.sub(r"^--[^\n]*\n", "", text, flags=re.MULTILINE).strip("\n")


def functions_of(file: Traversable) -> str:
    """The functions in a file, whole."""
    return completed(with_parts(text_of(file)))


def completed(text: str) -> str:
    """The functions in a text, with what each leaves out."""

    def whole(found: re.Match[str]) -> str:
        language, rest, quote, plans = found.groups()
        sets = {None: "", "pinned": PINNED, "free": FREE}[plans]
        conflict = "#variable_conflict use_column\n" if language == "plpgsql" else ""
        return f"language {language}\n{sets}{rest}\nas {quote}\n{conflict}"  # its own settings win

    found = _FUNCTION.sub(whole, text)
    assert "-- plans: " not in found, found  # a mark that no function takes
    return found


def statements(text: str) -> list[str]:
    """The statements of a text one by one, without the semicolons between them."""
    found: list[str] = []
    begin = 0
    for token in _TOKEN.finditer(text):
        if token["end"]:
            found.append(text[begin : token.start()])
            begin = token.end()
    found.append(text[begin:])
    comment = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
    return [one.strip() for one in found if comment.sub("", one).strip()]
