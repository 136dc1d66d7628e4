"""What the workers wrote down, read as it grows: who was handed what, who did it, who acked it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class DemoLedger:
    """The diaries of all workers, added up. Rows are the flights' rows."""

    deliveries: Counter[int] = field(default_factory=Counter[int])
    """How often each row was handed out."""
    first: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """Time and carrier of each row's first delivery."""
    handed: Counter[str] = field(default_factory=Counter[str])
    """Rows of each carrier that were handed out, once or more often."""
    handled: Counter[int] = field(default_factory=Counter[int])
    acked: Counter[int] = field(default_factory=Counter[int])
    results: dict[int, tuple[float | None, int | None]] = field(
        default_factory=dict[int, tuple[float | None, int | None]]
    )
    """Speed and lateness by row; a row that is handled again only says the same again."""
    carriers: Counter[str] = field(default_factory=Counter[str])
    """Rows of each carrier that were acked."""
    held: dict[str, dict[int, str]] = field(default_factory=dict[str, dict[int, str]])
    """The receipts that each worker holds now, by row."""
    ready: set[str] = field(default_factory=set[str])
    stalled: set[str] = field(default_factory=set[str])
    troubles: int = 0
    _carrier: dict[int, str] = field(default_factory=dict[int, str])

    def note(self, worker: str, line: dict[str, Any]) -> None:
        """Add one line of a worker's diary."""
        rows: list[int] = line.get("rows", [])
        match line["event"]:
            case "got":
                self._got(line["at"], rows, line["carriers"])
                self.held[worker] = dict(zip(rows, line["receipts"], strict=True))
            case "did":
                self.handled.update(rows)
                values = zip(line["speeds"], line["late"], strict=True)
                self.results.update(zip(rows, values, strict=True))
            case "acked":
                self.acked.update(rows)
                self.carriers.update(self._carrier[row] for row in rows)
                self.held[worker] = {}
            case "ready":
                self.ready.add(worker)
            case "stalled":
                self.stalled.add(worker)
            case _:
                self.troubles += 1

    def carrier_of(self, row: int) -> str:
        """Whose flight that row is; `""` if it was never handed out."""
        return self._carrier.get(row, "")

    def _got(self, at: int, rows: list[int], carriers: list[str]) -> None:
        for row, carrier in zip(rows, carriers, strict=True):
            if row not in self._carrier:
                self._carrier[row] = carrier
                self.first.append((at, carrier))
                self.handed[carrier] += 1
        self.deliveries.update(rows)


class Reader:
    """Follows the diaries of some workers. A line that is not finished yet waits for its end."""

    def __init__(self, files: Iterable[Path]) -> None:
        self._files = dict.fromkeys(files, 0)

    def read_into(self, ledger: DemoLedger) -> int:
        """Add what is new; how many lines that was."""
        lines = 0
        for file, offset in self._files.items():
            if not file.exists():
                continue
            with file.open("rb") as stream:
                stream.seek(offset)
                new = stream.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._files[file] = offset + len(whole)
            for line in whole.splitlines():
                ledger.note(file.stem, json.loads(line))
                lines += 1
        return lines
