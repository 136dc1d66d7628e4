"""Pages as HTML: templates by Jinja, which escapes every value, and the words of values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from turnabout.cli import _show
from turnabout.cli.stats import BLOCKED

PAYLOAD_CHARS_MAX = 64_000
"""Longest text of a payload that is shown."""


def shown(value: Any) -> Any:
    """A value in a page: control characters and those that turn a line around are spelled out."""
    if isinstance(value, Markup):
        return value
    return "" if value is None else _show.clean(str(value), lines=True)


def pretty(data: bytes | None) -> str:
    """A payload to read: JSON with its lines, other text as it is, else its size."""
    if data is None:
        return ""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"({len(data):,} bytes, not text)"
    if len(text) > PAYLOAD_CHARS_MAX:
        return f"{text[:PAYLOAD_CHARS_MAX]}\n… {len(text) - PAYLOAD_CHARS_MAX:,} more characters"
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def instant(at: int | None) -> Markup:
    """A time in UTC, with a machine's form of it; and nothing for none."""
    if at is None:
        return Markup("–")
    try:
        moment = datetime.fromtimestamp(at / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return Markup("never")
    form = moment.isoformat(timespec="seconds")
    return Markup('<time datetime="{}">{}</time>').format(form, f"{moment:%Y-%m-%d %H:%M:%S}")


def _channel(name: str) -> str:
    return name or "(default)"


def percent(share: float) -> str:
    """A share of 1."""
    return f"{100 * share:.{0 if share >= 0.1 or not share else 1}f} %"


def bar(got: float, fair: float) -> Markup:
    """A bar of what was got of the whole, with a mark where the fair share is."""
    most = max(got, fair) or 1.0
    label = f"got {got:,.0f}, fair share {fair:,.0f}"
    return Markup(
        '<svg class="bar" viewBox="0 0 104 18" role="img" aria-label="{}"><title>{}</title>'
        '<rect y="4" width="100" height="10" class="rail"/><rect y="4" width="{:.1f}" height="10" '
        'class="got"/><rect x="{:.1f}" y="1" width="2.5" height="16" class="mark"/></svg>'
    ).format(label, label, 100 * got / most, 100 * fair / most)


def strip(ratios: list[float | None]) -> Markup:
    """The ratio of got to fair share over time, a cell a sample: red under .7, empty for none."""
    measured = [ratio for ratio in ratios if ratio is not None]
    if not measured:
        return Markup('<span class="quiet">–</span>')
    cells = Markup().join(
        Markup(
            '<rect x="{}" width="3" height="18" class="s{}"><title>{:.2f}</title></rect>'
        ).format(3 * place, 0 if ratio < 0.35 else 1 if ratio < 0.7 else 2, ratio)
        for place, ratio in enumerate(ratios)
        if ratio is not None
    )
    label = f"share got to fair share over time: {min(measured):.2f} to {max(measured):.2f}"
    return Markup(
        '<svg class="strip" viewBox="0 0 {} 18" role="img" aria-label="{}">{}</svg>'
    ).format(3 * len(ratios), label, cells)


def chart(title: str, times: list[int], lines: Mapping[str, list[float]]) -> Markup:
    """Lines over time, with their highest value and both ends of the time beside them."""
    most = max((value for values in lines.values() for value in values), default=0) or 1
    wide = max(1, times[-1] - times[0])
    drawn = Markup().join(
        Markup('<polyline class="line{}" points="{}"/>').format(
            number,
            " ".join(
                f"{600 * (at - times[0]) / wide:.1f},{100 - 96 * value / most:.1f}"
                for at, value in zip(times, values, strict=True)
            ),
        )
        for number, values in enumerate(lines.values())
    )
    keys = Markup(" ").join(
        Markup('<span class="key line{}">{}: {} now</span>').format(
            number, name, _show.count(round(values[-1], 1))
        )
        for number, (name, values) in enumerate(lines.items())
    )
    return Markup(
        '<figure><figcaption><b>{}</b> <span class="quiet">at most {}</span> {}</figcaption>'
        '<svg viewBox="0 0 600 100" preserveAspectRatio="none" role="img" aria-label="{}, at most '
        '{}">{}</svg><p class="ends"><span>{}</span><span>{}</span></p></figure>'
    ).format(
        title, _show.count(round(most, 1)), keys, title, _show.count(round(most, 1)), drawn,
        instant(times[0]), instant(times[-1]),
    )  # fmt: skip


@cache
def environment() -> Environment:
    """The templates. Each value is escaped, none may be missing."""
    folder = files("turnabout.dashboard").joinpath("templates")
    made = Environment(
        autoescape=True,
        finalize=shown,
        loader=FunctionLoader(lambda name: folder.joinpath(name).read_text(encoding="utf-8")),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    filters: dict[str, Any] = made.filters
    filters.update(
        count=_show.count,
        channel=_channel,
        instant=instant,
        ms=_show.milliseconds,
        percent=percent,
        pretty=pretty,
    )
    words: dict[str, Any] = made.globals
    words.update(BLOCKED=BLOCKED, bar=bar, strip=strip, chart=chart)
    return made


def render(template: str, **values: Any) -> str:
    """A page."""
    return environment().get_template(template).render(**values)
