"""How our docstrings become Markdown for the site: an extension of griffe.

A docstring of ours has lines `name: text`, for parameters as for `Raises` and `Outcomes`, whose
text goes on below, set in. To Markdown that is one paragraph; here it becomes a list.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

FIRST = re.compile(r"(\w[\w, *`]*): +(\S.*)")
LABELS = {"Cost", "Limits", "Outcomes", "Raises", "Returns", "Shape", "Units"}


class Lists(griffe.Extension):
    """Turns such lines into lists, in every docstring that griffe reads."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            names: set[str] = set()
            if isinstance(obj, griffe.Function):
                names = {one.name.strip("*") for one in obj.parameters}
            elif isinstance(obj, griffe.Class):
                of_init = obj.members.get("__init__")
                made_by = of_init.parameters if isinstance(of_init, griffe.Function) else ()
                names = {*obj.members, *(one.name for one in made_by)}
            obj.docstring.value = with_lists(obj.docstring.value, names)


def with_lists(text: str, names: set[str]) -> str:
    """The same text, with a list where lines describe one of these names, or have a label."""
    lines: list[str] = []
    is_inside = False  # whether the line before belongs to an entry of a list
    for line in text.splitlines():
        first = FIRST.fullmatch(line)
        words = set(re.findall(r"\w+", first[1])) if first else set()
        if first and (first[1] in LABELS or (words and words <= names)):
            if lines and lines[-1] and not is_inside:
                lines.append("")
            shown = f"**{first[1]}**" if first[1] in LABELS else f"`{first[1]}`"
            lines.append(f"- {shown}: {first[2]}")
            is_inside = True
        elif is_inside and line.startswith(" "):
            lines.append(f"    {line.strip()}")
        else:
            if is_inside and line.strip():
                lines.append("")
            is_inside = False
            lines.append(line)
    return "\n".join(lines)
