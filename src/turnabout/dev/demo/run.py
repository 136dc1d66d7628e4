"""The demo, step by step: read, send, work off with one worker killed, archive, report, judge."""

from __future__ import annotations

import argparse
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
from turnabout.dev.demo import flights, pipeline
from turnabout.dev.demo.flights import Flight
from turnabout.dev.demo.ledger import DemoLedger
from turnabout.dev.demo.shift import Shift, ShiftPlan
from turnabout.dev.demo.show import Scene, Show
from turnabout.dev.demo.verdict import DemoSent, Verdict
from turnabout.words.errors import TurnaboutError, Unavailable
from turnabout.words.urls import without_secrets

SEND_ROWS = 5_000


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo as the command line says."""
    given = _parser().parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a log in ASCII may lose a dot, not the run
    out = Console(highlight=False, soft_wrap=False, stderr=given.json)
    folder = Path(tempfile.mkdtemp(prefix="turnabout-demo-"))
    plan = _plan(given, folder)
    try:
        if given.pipeline:
            pipeline.need()
        with Show(out, live=out.is_terminal) as show:
            found = _run(plan, show, keep=given.keep, out=_out(given))
        return _tell(found, show, as_json=given.json, opens=not given.no_open)
    except TurnaboutError as error:
        # `turnabout[spark]` isn't markup, and a command meant for copying stays on one line.
        out.print(str(error), markup=False, soft_wrap=True)
        return 3 if isinstance(error, Unavailable) else 2
    except KeyboardInterrupt:
        out.print("stopped")
        return 130
    finally:
        if given.keep:
            out.print(f"kept: {folder} and the queue {plan.queue} at {without_secrets(plan.url)}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="turnabout demo",
        description="Work off a year of flights, fairly by carrier, while a worker is killed.",
    )
    parser.add_argument("--url", help="where: sqlite:///… or postgresql://… (default: a new file)")
    parser.add_argument("--rows", type=int, default=flights.FLIGHTS, help="flights (default: all)")
    parser.add_argument("--workers", type=int, default=3, help="worker processes (default: 3)")
    parser.add_argument("--batch", type=int, help="flights that a worker takes at once")
    parser.add_argument("--lease", type=float, default=3.0, help="seconds of a lease (default: 3)")
    parser.add_argument("--no-kill", action="store_true", help="let all workers live")
    parser.add_argument("--json", action="store_true", help="the verdict as JSON on stdout")
    parser.add_argument("--keep", action="store_true", help="leave the queue and the diaries")
    parser.add_argument(
        "--pipeline", action="store_true", help="archive it all with Spark, and make a report"
    )
    parser.add_argument("--out", type=Path, help="where the lake and the report go (--pipeline)")
    parser.add_argument("--no-open", action="store_true", help="don't open the report")
    return parser


def _plan(given: argparse.Namespace, folder: Path) -> ShiftPlan:
    rows = min(max(given.rows, 1), flights.FLIGHTS)
    workers = max(given.workers, 1)
    kill = not given.no_kill and workers > 1  # somebody has to be left to do the work
    # In a small demo too, each worker gets several batches.
    batch = given.batch or min(500, max(1, rows // (workers * 8)))
    name = f"demo-{secrets.token_hex(4)}"
    return ShiftPlan(
        given.url or f"sqlite:///{folder / 'demo.db'}",
        # A namespace of its own: what else is in that database is not archived.
        f"{name}/flights" if given.pipeline else name,
        folder,
        rows,
        workers,
        batch,
        given.lease,
        kill,
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """The results of a run."""

    verdict: Verdict
    ledger: DemoLedger
    second: pipeline.Outcome | None


def _out(given: argparse.Namespace) -> Path | None:
    """Where the lake and the report go; they stay when the demo is over."""
    if not given.pipeline:
        return None
    return (given.out or Path(tempfile.mkdtemp(prefix="turnabout-report-"))).absolute()


def _run(plan: ShiftPlan, show: Show, *, keep: bool, out: Path | None) -> _Found:
    show.step(f"Reading {plan.rows:,} flights of 2013 …")
    data = flights.read(plan.rows)
    sent = _sent(data)
    big, small = next(iter(sent.sizes)), list(sent.sizes)[-1]
    with turnabout.connect(plan.url) as mq, _fresh_queue(mq, plan.queue, keep=keep) as queue:
        show.step(
            f"Sending them to {without_secrets(plan.url)}, carrier by carrier: {big} with "
            f"{sent.sizes[big]:,} first, {small} with {sent.sizes[small]:,} last"
        )
        seconds = _send(queue, data, show)
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
            plan.url,
            plan.queue,
            out,
            done=queue.stats().done,
            carriers=ledger.carriers,
            show=show,
        )
    verdict = replace(verdict, checks=verdict.checks + second.checks)
    return _Found(verdict, ledger, second)


def _tell(found: _Found, show: Show, *, as_json: bool, opens: bool) -> int:
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
    return 0 if verdict.good else 1


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


def _send(queue: turnabout.Queue, data: Sequence[Flight], show: Show) -> float:
    started_at = time.monotonic()
    for start in range(0, len(data), SEND_ROWS):
        queue.send_many([flights.message(flight) for flight in data[start : start + SEND_ROWS]])
        done = min(start + SEND_ROWS, len(data))
        show.scene(Scene("sent", done, len(data), time.monotonic() - started_at, {}))
    return time.monotonic() - started_at


__all__ = ["main"]
