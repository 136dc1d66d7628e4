"""The raw limit against us, in one run: `python3 dev.py bench`, or `python -m benchmarks --help`.

What lives here: the figures that Turnabout has to reach, and how they are taken. Nothing in `src`
knows of it. A figure is a ratio of two rates that were measured in turns (A B A B …) within one
run, so that another machine, or a noisy neighbour, changes both. Beside it stands the ratio of the
processor time of both ends, which a neighbour changes less.

    records.py      what a measurement says: `Slice`, `Spread`, `Record`
    on_postgres.py  databases to measure in, the barest queue there, and our functions called bare
    on_sqlite.py    the same for SQLite
    on_server.py    servers: ours, and one with handlers that do nothing
    library.py      our side: the public library
    over_http.py    a client process of a server
    on_spark.py     a session of Spark, the streams and jobs in it
    jobs.py         what a client process does
    crew.py         the client processes: start barrier, time bounds, processor time
    plan.py         how much is measured; the stores; `turns`, which interleaves
    sections/       one file per table of figures
    peers/          us beside other queues: a command of its own
    report.py       tables, the machine, progress
"""
