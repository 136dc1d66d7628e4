"""Durations as people write them: `90`, `90s`, `1m30s`, `250ms`, `2h`, `7d`."""

from __future__ import annotations

import re

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")


def seconds(text: str) -> float:
    """One of these as seconds; ValueError for anything else."""
    text = text.strip().lower().replace(" ", "")
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        return float(text)
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(text)
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
