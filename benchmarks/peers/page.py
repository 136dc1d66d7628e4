"""docs/performance.md and its pictures, made of the figures that are kept beside them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping

from benchmarks import beside_spark
from benchmarks.peers import ROOT
from benchmarks.peers.cells import BY_NAME, CELLS
from benchmarks.peers.goals import GOALS, NAMES, UNTIMED
from benchmarks.peers.known import PEERS, US, ours
from benchmarks.peers.pictures import picture
from benchmarks.peers.results import LESS_IS_BETTER, Case, CellResult, Results, judge
from benchmarks.peers.tables import figures, goals, markdown, number, peers_of
from benchmarks.records import NOISY, Target

PAGE = ROOT / "docs" / "performance.md"
FOLDER = ROOT / "docs" / "performance"
RESULTS = FOLDER / "results.json"
HEAD = """\
# Performance

How fast Turnabout is beside other queues, measured in one run on the same server. The benchmark
makes this page from [its figures](performance/results.json); nobody writes numbers here.

A cell is measured in *rounds*. In each round every peer has a short slice, one after the other, so
that what else the machine does hits all of them alike. Figures are medians over the rounds; in
brackets stand the lowest and the highest round. **Compare figures of one line, not of two lines**:
between two cases the machine may have changed. Beside a rate stands the processor time that a
message cost, of the client processes and of the server's backends together. A goal gets a verdict
where all rounds lie on the same side of it, or, if the wall clock is too noisy for that, where all
do by processor time; else it says *too noisy to tell*.
"""
SHAPE = """\
Payloads have 100 bytes unless a case says otherwise. *Processes* are clients with one connection
each; a *batch* is what one call sends, or receives and acks; *concurrency* is how many tasks a
worker runs at once. The time that a worker needs to start
is not part of its rate, but of its processor time. What PostgreSQL does in the background
(autovacuum, the writer of its log) is in nobody's processor time.
"""
REPEAT = """\
## How to repeat it

```sh
python3 dev.py bench --peers --quick                # fewer and smaller cases
python3 dev.py bench --peers --pgmq pgmq.sql        # all of them; PGMQ by a file of its functions
python3 dev.py bench --peers --cell receive --peer raw,pgmq
python3 dev.py bench --peers --json figures.json    # keep the figures; later cells are added
python3 dev.py bench --peers --json docs/performance/results.json --page  # and make this page
```

The peers are installed in `.venv-peers`, a folder of their own, from a lock of names, versions and
hashes; those for Node need `node` and `npm`. Peers that are missing are left out, and the run says
why. `--url` takes a PostgreSQL server of yours. A quiet machine gives narrower ranges; on a shared
one, trust the processor time.
"""

_DECISIONS = "design/decisions"
WALLS: Mapping[str, str] = {
    "send": "the executor. A message is three rows: what it is, where it stands, and that it was "
    "sent; raw and PGMQ have one, and leave it to the receiver to find out the rest. To start a "
    "plan's nodes and to open their tables is most of the time, as `perf` shows "
    f"([30]({_DECISIONS}/0030-everyday-statements.md)): the bare statement takes 153 µs of the "
    "server's time where raw takes 59, and without the row for the count as much "
    f"([38]({_DECISIONS}/0038-ack-and-next.md)).",
    "receive": "at one message, caches. One process is ahead of raw; where several share two "
    "cores, what the library does in Python runs with cold ones: 71 µs of the client become 105, "
    "and raw's, in psycopg's C, do not grow. In tens it is two walks, one that finds and locks "
    "and one that reads, where raw has a single table: the bare statement is at .88 of raw "
    f"([38]({_DECISIONS}/0038-ack-and-next.md)).",
    "durable": "the processor. The disk here is synced in 80 µs: of a message's 573 µs raw waits "
    "for 163, which are two commits, and ours of 397 for 89, which is one. With several processes "
    "a sync serves several commits. The same figures with a disk that takes a millisecond make a "
    "ratio of 1.8 for one process.",
    "mixed": "the send's, as above. The processor's time of a message that was received has in it "
    "what eight senders did meanwhile, and they send 1.4 to 1.9 messages for each that the "
    "receivers take.",
    "jobs": "the worker's own Python. It is level with Graphile Worker, where 1.5 times as many "
    "were wanted: a loop over `consume` takes 243 µs of the processor for a message, the worker, "
    "which runs handlers beside its own loop, 352.",
    "channels": "fairness. From one channel to the next is a jump in the index, where raw takes "
    "the oldest of all from one page: a message of a hundred costs the server 8 µs if all are of "
    "one channel and 16 if each is of another, with raw 12 and 11.",
    "wal": "what has to last: the message and three commits are 427 bytes, history 361 more "
    f"([30]({_DECISIONS}/0030-everyday-statements.md)).",
    "snapshot": "dead entries between a channel's mark and its head. A mark, which lets a visit "
    "pass what the snapshot keeps, is set anew where 160 are dead "
    f"([30]({_DECISIONS}/0030-everyday-statements.md)), and a batch visits ten channels. The rate "
    "falls no further: with 100 channels it is the same after 2 seconds and after 12.",
    "sqlite-send": "pages of the log: each takes 5 µs of the processor, and as much again when the "
    f"log is synced. A send writes two ([56]({_DECISIONS}/0056-ids-tell-the-count.md)) and takes "
    "25 µs of SQLite's; the rest is the library's Python.",
    "sqlite-receive": "pages of the log, four for a receive and its ack "
    f"([55]({_DECISIONS}/0055-ids-in-blocks.md)); huey deletes what it receives, and so loses "
    "what a crash interrupts.",
    "sqlite-tasks": "two threads. Handlers run in the event loop, SQLite in a thread beside it, so "
    "that a commit that waits for the disk stops no handler. One message at a time is handed there "
    "and back: 290 µs of the processor, 170 of them in the writer's thread, where a blocking "
    "`consume` in one thread takes 105. With ten at a time a hand-over serves ten.",
}
"""What holds a figure back, by the cell whose goals are missed."""

SPARK = """\
`python -m benchmarks.beside_spark --jdbc postgresql.jar`, which starts a PostgreSQL and a Spark on
two cores; {machine}, load {load} when it began. Sides take turns; medians of the rounds, with the
lowest and the highest. A ratio over 1 says that ours is faster.

- Reading: rows of the history, 100 channels, payloads of 100 bytes, thrown away (`noop`) or
  counted; beside Spark's JDBC source in two parts by id. Spark tells a source in Python no
  columns: with a `select` behind it all are read, with `.schema(…)` those.
- The archive: all columns into Parquet by day in this process, sorted; beside DuckDB, which reads
  the same by ADBC.
- The sink: beside tasks that copy into a stage, from which one transaction moves what the counted
  ones copied into a table with two indexes, with a note of the batch: what is sent once, too, also
  where Spark runs a task twice. Measured on an AMD EPYC with two cores.
- Memory doesn't follow the rows: at one million and at ten Java had up to 464 and 488 MB, and a
  worker process of Spark's 194 MB for reading, 315 for the archive by Spark, both times the same.
"""


def write(results: Results) -> None:
    """Make the page and its pictures anew."""
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.svg"):
        old.unlink()
    for name, svg in pictures(results).items():
        (FOLDER / name).write_text(svg, encoding="utf-8")
    PAGE.write_text(page(results), encoding="utf-8")


def pictures(results: Results) -> dict[str, str]:
    """File names, and what is in them."""
    return {
        f"{cell.name}.svg": picture(
            f"{cell.title}: {NAMES[_first(cell)]}", cell.cases, peers_of(cell), _first(cell)
        )
        for cell in results.cells
    }


def page(results: Results) -> str:
    """The page."""
    known = {cell.name: cell for cell in results.cells}
    cells = [known[cell.name] for cell in CELLS if cell.name in known]
    parts = [HEAD, *_measured_on(results), REPEAT, *_summary(cells), *_where_better(cells)]
    for cell in cells:
        parts += _cell(cell)
    return "\n".join([*parts, *_spark()])


def _measured_on(results: Results) -> Iterator[str]:
    yield "## What was measured\n"
    yield f"On {results.machine.partition(', load')[0]}."
    yield "".join(f" {store}." for store in results.stores).strip() + "\n"
    rows = [["peer", "version", "what it is here"]]
    rows += [
        [peer.name, results.versions[peer.name], peer.about]
        for peer in PEERS
        if peer.name in results.versions
    ]
    yield markdown(rows).replace("---:", "---") + "\n"
    yield SHAPE
    if results.left_out:
        reasons = "; ".join(f"{name}: {why}" for name, why in results.left_out.items())
        yield f"Left out: {reasons}.\n"
    names = {cell.name for cell in results.cells}
    if missing := [cell.name for cell in CELLS if cell.name not in names]:
        yield f"Cells that were not measured for this page: {', '.join(missing)}.\n"


def _summary(cells: list[CellResult]) -> Iterator[str]:
    found = [
        judged.verdict
        for cell in cells
        for case in cell.cases
        for goal in GOALS
        if goal.fits(cell.name, case.setting) and (judged := goal.judge(case)) is not None
    ]
    counts = Counter(found)
    yield "## Goals\n"
    yield (
        f"{counts['reached']} of {len(found)} reached, {counts['missed']} missed,"
        f" {counts[NOISY]} too noisy to tell. Each stands below, with its cell.\n"
    )


def _where_better(cells: list[CellResult]) -> Iterator[str]:
    """Wherever a peer beat us in all rounds; the raw limits are none."""
    yield "## Where a peer is better\n"
    yield (
        "Our figure over the peer's, wherever the peer was ahead in every round. `raw` is not a"
        " queue, and is left out here.\n"
    )
    lines: list[str] = []
    for cell in cells:
        for peer in PEERS:
            if peer.name.startswith(("raw", US)):
                continue
            found = [text for case in cell.cases if (text := _behind(cell, case, peer.name))]
            if found:
                lines.append(f"- {cell.name}, **{peer.name}**: {'; '.join(found)}")
    yield "\n".join(lines or ["Nowhere."]) + "\n"


def _behind(cell: CellResult, case: Case, peer: str) -> str:
    measure = _first(cell)
    target = Target(1.0, at_least=not measure.endswith(LESS_IS_BETTER))
    timed = measure not in UNTIMED
    judged = judge(
        case,
        target,
        ours=ours(cell.name, case.setting.store),
        other=peer,
        measure=measure,
        timed=timed,
    )
    if judged is None or judged.verdict != "missed":
        return ""
    by = " by processor time" if judged.decided_by_cpu else ""
    shown = judged.by_cpu if judged.decided_by_cpu and judged.by_cpu else judged.ratio
    return f"{case.setting} {number(shown)}{by}"


def _cell(cell: CellResult) -> Iterator[str]:
    yield f"## {cell.title}\n"
    few = "" if cell.rounds == 1 else f", {cell.rounds} rounds"
    yield f"`--cell {cell.name}`, {cell.measured}{few}, load {cell.load:g} when it began.\n"
    yield f"![{cell.title}](performance/{cell.name}.svg)\n"
    yield markdown(figures(cell)) + "\n"
    judged = goals(cell)
    if len(judged) > 1:
        yield markdown(judged) + "\n"
    if cell.name in WALLS and (len(judged) == 1 or any("missed" in row[-1] for row in judged)):
        yield f"**The wall**, where a goal is missed: {WALLS[cell.name]}\n"


def _spark() -> Iterator[str]:
    kept = json.loads(beside_spark.KEPT.read_text())
    yield "## Apache Spark and the archive\n"
    yield SPARK.format(machine=kept["machine"].partition(", load")[0], load=kept["load"])
    yield beside_spark.table(kept) + "\n"


def _first(cell: CellResult) -> str:
    return BY_NAME[cell.name].measures[0]
