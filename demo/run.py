"""The demo, step by step: read, send, work off with one worker killed, archive, report, judge."""

from __future__ import annotations

import contextlib
import io
import json
import secrets
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console

import turnabout
from demo import flights, pipeline
from demo.flights import Flight
from demo.ledger import DemoLedger
from demo.shift import Shift, ShiftPlan
from demo.show import Scene, Show
from demo.verdict import DemoSent, Verdict
from turnabout.words.urls import without_secrets

SEND_ROWS = 5_000


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What the command line asks for."""

    url: str | None
    rows: int | None
    workers: int
    batch: int | None
    lease: float
    channels: bool
    kill: bool
    keep: bool
    pipeline: bool
    out: Path | None
    opens: bool
    as_json: bool

    def plan(self, folder: Path) -> ShiftPlan:
        """The shift that this comes to; its files go to `folder`."""
        rows = min(self.rows or flights.FLIGHTS, flights.FLIGHTS)
        name = f"demo-{secrets.token_hex(4)}"
        return ShiftPlan(
            self.url or f"sqlite:///{folder / 'demo.db'}",
            # A namespace of its own: what else is in that database is not archived.
            f"{name}/flights" if self.pipeline else name,
            folder,
            rows,
            self.workers,
            # In a small demo too, each worker gets several batches.
            self.batch or min(500, max(1, rows // (self.workers * 8))),
            self.lease,
            self.kill and self.workers > 1,  # somebody has to be left to do the work
        )


def run(options: DemoOptions, record: Path | None = None) -> bool:
    """Run the demo; whether every promise was kept."""
    verdict, _ = ran(options, record)
    return verdict.good


def ran(options: DemoOptions, record: Path | None = None) -> tuple[Verdict, DemoLedger]:
    """Run the demo; what is to be said of it, and what the workers wrote down."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a log in ASCII may lose a dot, not the run
    console = Console(highlight=False, soft_wrap=False, stderr=options.as_json)
    folder = Path(tempfile.mkdtemp(prefix="turnabout-demo-"))
    plan = options.plan(folder)
    try:
        if options.pipeline:
            pipeline.need()
        with Show(console, live=console.is_terminal, record=record) as show:
            found = _run(plan, show, options)
            _tell(found, show, as_json=options.as_json, opens=options.opens)
        return found.verdict, found.ledger
    finally:
        if options.keep:
            console.print(
                f"kept: {folder} and the queue {plan.queue} at {without_secrets(plan.url)}"
            )
        else:
            shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class _Found:
    """The results of a run."""

    verdict: Verdict
    ledger: DemoLedger
    second: pipeline.PipelineRun | None


def _out(options: DemoOptions) -> Path | None:
    """Where the lake and the report go; they stay when the demo is over."""
    if not options.pipeline:
        return None
    return (options.out or Path(tempfile.mkdtemp(prefix="turnabout-report-"))).absolute()


def _run(plan: ShiftPlan, show: Show, options: DemoOptions) -> _Found:
    out = _out(options)
    show.step(f"Reading {plan.rows:,} flights of 2013 …")
    data = flights.read(plan.rows)
    sent = _sent(data)
    big, small = next(iter(sent.sizes)), list(sent.sizes)[-1]
    with (
        turnabout.connect(plan.url) as mq,
        _fresh_queue(mq, plan.queue, keep=options.keep) as queue,
    ):
        show.step(
            f"Sending them to {without_secrets(plan.url)}, carrier by carrier: {big} with "
            f"{sent.sizes[big]:,} first, {small} with {sent.sizes[small]:,} last"
        )
        seconds = _send(queue, data, show, channels=options.channels)
        show.step(f"  {len(data):,} sent in {seconds:.1f} s, {len(data) / seconds:,.0f}/s")
        show.step(
            f"Working them off in {plan.workers} processes, {plan.batch} at a time, leases of "
            f"{plan.lease_seconds:g} s"
        )
        shift = Shift(plan, queue, sent, show)
        shift.work()
        verdict, ledger, seconds = shift.verdict(), shift.ledger, shift.seconds
        show.step(
            f"  {len(ledger.acked):,} done in {seconds:.1f} s, {len(ledger.acked) / seconds:,.0f}/s"
        )
        if out is None:
            return _Found(verdict, ledger, None)
        second = pipeline.run(
            plan.url, plan.queue, out, done=queue.stats().done, carriers=ledger.carriers, show=show
        )
    verdict = replace(verdict, checks=verdict.checks + second.checks)
    return _Found(verdict, ledger, second)


def _tell(found: _Found, show: Show, *, as_json: bool, opens: bool) -> None:
    verdict, second = found.verdict, found.second
    if as_json:
        more: dict[str, object] = {}
        if second is not None:
            places = {"report": str(second.page), "lake": str(second.lake)}
            more["pipeline"] = {**places, "seconds": second.seconds}
        told = {**asdict(verdict), "good": verdict.good, **more}
        sys.stdout.write(json.dumps(told, indent=2) + "\n")
    else:
        show.end(verdict, found.ledger)
    if second is not None:
        show.console.print(f"The report: {second.page}", soft_wrap=True)
        show.console.print(f"The lake:   {second.lake}", soft_wrap=True)
        if opens:
            pipeline.show_page(second.page, is_terminal=show.console.is_terminal)


@contextlib.contextmanager
def _fresh_queue(
    mq: turnabout.Turnabout, name: str, *, keep: bool
) -> Generator[turnabout.Queue, None, None]:
    """A fresh queue of a name that nobody else has; taken away again unless it is to be kept."""
    queue = mq.queue(name)
    queue.create(backoff_seconds=0.1)
    try:
        yield queue
    finally:
        if not keep:
            queue.delete()
            with contextlib.suppress(turnabout.UsageError):
                mq.queue(f"{name}-dead").delete()


def _sent(data: Sequence[Flight]) -> DemoSent:
    late: Counter[str] = Counter()
    for flight in data:
        late[flight.carrier] += flight.late_minutes or 0
    return DemoSent(Counter(flight.carrier for flight in data), late)


def _send(queue: turnabout.Queue, data: Sequence[Flight], show: Show, *, channels: bool) -> float:
    started_at = time.monotonic()
    for start in range(0, len(data), SEND_ROWS):
        queue.send_many(
            flights.message(flight, flight.carrier if channels else "")
            for flight in data[start : start + SEND_ROWS]
        )
        done = min(start + SEND_ROWS, len(data))
        show.scene(Scene("sent", done, len(data), time.monotonic() - started_at, {}))
    return time.monotonic() - started_at


__all__ = ["DemoOptions", "ran", "run"]
