"""What the terminal showed, as one animated SVG: no script, no font of another host, and still for
those who want no motion.
"""

from __future__ import annotations

import io
import time
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from pathlib import Path

from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import SVG_EXPORT_THEME as THEME

WIDTH, HEIGHT = 96, 37
FRAMES = 14
PLAY_SECONDS, HOLD_SECONDS = 9.0, 6.0
"""However long it took; and how long the last frame stays."""
CHAR, LINE, EDGE = 7.83, 17.0, 14.0
"""A character's width and a line's height of the 13 px monospace font, and the margin."""

Line = Sequence[Segment]


class Recording:
    """Screens of a terminal, each with its time."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._console = Console(
            width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor"
        )
        self._lines: list[Line] = []
        self._screens: list[tuple[float, list[Line]]] = []

    def line(self, what: RenderableType) -> None:
        """Something that stays."""
        self._lines += self._drawn(what)
        self._take([])

    def scene(self, what: RenderableType) -> None:
        """Something below it, until the next scene or line."""
        self._take(self._drawn(what))

    def save(self) -> None:
        """Write the file."""
        self._file.write_text(self._svg(), encoding="utf-8")

    def _drawn(self, what: RenderableType) -> list[Line]:
        options = self._console.options.update(width=WIDTH)
        return list(self._console.render_lines(what, options, pad=False))

    def _take(self, below: list[Line]) -> None:
        self._screens.append((time.monotonic(), [*self._lines, *below][-HEIGHT:]))

    def _frames(self) -> list[tuple[float, list[Line]]]:
        """Some of the screens, evenly in time, and when each begins, from 0 to 1."""
        began, ended = self._screens[0][0], self._screens[-1][0]
        whole = max(ended - began, 1e-9)
        taken: dict[int, tuple[float, list[Line]]] = {}
        for at, screen in self._screens:
            share = (at - began) / whole
            taken[round(share * (FRAMES - 1))] = (share, screen)
        return list(taken.values())

    def _svg(self) -> str:
        frames, looks = self._frames(), _Looks()
        whole = PLAY_SECONDS + HOLD_SECONDS
        begins = [share * PLAY_SECONDS / whole * 100 for share, _ in frames]
        begins[0] = 0.0
        groups, motion = list[str](), list[str]()
        for n, ((_, screen), (begin, end)) in enumerate(
            zip(frames, pairwise([*begins, 100.0]), strict=True)
        ):
            lines = [looks.line(y, line) for y, line in enumerate(screen)]
            groups.append(f'<g class="f" style="animation-name:f{n}">{"".join(lines)}</g>')
            hidden = [f"{at:.2f}%{{opacity:0}}" for at in (0.0, end) if at not in (begin, 100.0)]
            motion.append(f"@keyframes f{n}{{{begin:.2f}%{{opacity:1}}{''.join(hidden)}}}")
        width, height = WIDTH * CHAR + 2 * EDGE, HEIGHT * LINE + 2 * EDGE
        alt = "The demo on a terminal: flights of sixteen airlines are sent and worked off."
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}"'
            f' role="img" aria-label="{alt}"><title>{alt}</title><style>'
            "text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre}"
            f".f{{opacity:0;animation:{whole:g}s step-end infinite}}"
            "@media(prefers-reduced-motion:reduce){.f{animation:none}.f:last-child{opacity:1}}"
            f"{looks.css()}{''.join(motion)}</style>"
            f'<rect width="100%" height="100%" rx="8" fill="{THEME.background_color.hex}"/>'
            f"{''.join(groups)}</svg>\n"
        )


class _Looks:
    """Styles, each written once."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def line(self, y: int, line: Line) -> str:
        parts = "".join(
            f'<tspan class="{self._name(part.style)}">{escape(part.text)}</tspan>'
            for part in Segment.simplify(line)
            if part.text
        )
        at = f'x="{EDGE:g}" y="{EDGE + (y + 0.8) * LINE:.1f}" xml:space="preserve"'
        return f"<text {at}>{parts}</text>" if parts else ""

    def css(self) -> str:
        return "".join(f".{name}{{{look}}}" for look, name in self._names.items())

    def _name(self, style: Style | None) -> str:
        style = style or Style.null()
        color = THEME.foreground_color
        if style.color is not None and not style.color.is_default:
            color = style.color.get_truecolor(THEME)
        look = f"fill:{color.hex}"
        look += ";font-weight:bold" * bool(style.bold) + ";opacity:.6" * bool(style.dim)
        return self._names.setdefault(look, f"s{len(self._names)}")
