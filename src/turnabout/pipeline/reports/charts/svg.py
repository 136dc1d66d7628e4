"""SVG as text, element by element: whatever is put in is escaped."""

from __future__ import annotations

from html import escape


class Svg(str):
    """Markup that is complete and safe: templates put it in as it is."""

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)


def tag(name: str, *children: str, **attributes: str | float | None) -> Svg:
    """An element. Text among its children is escaped, `Svg` is not. `class_` is `class`, other
    underscores are hyphens; numbers have one digit behind the point; None is left out.
    """
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = "".join(child if isinstance(child, Svg) else escape(legal(child)) for child in children)
    return Svg(f"<{name}{words}>{inner}</{name}>" if inner else f"<{name}{words}/>")


def path(points: list[tuple[float, float]], *, closed: bool = False) -> str:
    """The value of a path's `d` for these points in order."""
    steps = " L".join(f"{_value(x)} {_value(y)}" for x, y in points)
    return f"M{steps}{'Z' if closed else ''}"


def _value(value: str | float) -> str:
    if isinstance(value, str):
        return escape(legal(value))
    return f"{value:.1f}".removesuffix(".0")


def legal(text: str) -> str:
    """Without what may stand in no document: a channel's name may hold any character."""
    if text.isprintable():
        return text
    return "".join(
        c if (c >= " " or c in "\n\t") and not "\ud800" <= c <= "\udfff" else "\ufffd" for c in text
    )
