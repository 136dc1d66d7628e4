"""The worker: takes messages, runs handlers, keeps leases, retries, and stops cleanly.

    from turnabout.worker import Worker

    worker = Worker("sqlite:///app.db")

    @worker.handler("emails", concurrency=10)
    def send_email(message):
        ...

    worker.run()

`loop.py` decides, without clock or database. `consumer.py` works on one queue, `settler.py` tells
the database how messages ended and `report.py` the log, `run.py` brings a worker up and down,
`threads.py` and `message.py` serve handlers that block, `transaction.py` those with a
transaction, `processes.py` runs many workers.
"""

from turnabout.worker.endings import Defer, GiveUp, Pause, TryAgain
from turnabout.worker.job import WorkerStats
from turnabout.worker.message import AsyncMessage, Message
from turnabout.worker.processes import load, run_processes
from turnabout.worker.run import HandlersHung
from turnabout.worker.worker import Worker

__all__ = [
    "AsyncMessage",
    "Defer",
    "GiveUp",
    "HandlersHung",
    "Message",
    "Pause",
    "TryAgain",
    "Worker",
    "WorkerStats",
    "load",
    "run_processes",
]
