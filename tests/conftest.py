"""What every test can ask for. PostgreSQL is in `support/postgres.py`, the doors in `doors.py`,
Spark in `spark.py`, processes to be killed in `nursery.py`.
"""

import gc
import signal

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# How long an example takes says something of the machine, too, and of what else runs there.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")

# Hypothesis reads the numbers and texts of all sources that are loaded, to draw them at times: then
# a seed draws something else in each process, and each takes seconds to read them.
providers._get_local_constants = lambda: providers._local_constants  # there are none yet

# A shell that starts a run in its background lets it ignore Ctrl-C, and programs inherit that. Some
# are stopped by it.
signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()  # until all is collected: nearly nothing of it is garbage

pytest_plugins = [
    "tests.support.memory",
    "tests.support.compiling",
    "tests.support.seeds",
    "tests.support.loops",
    "tests.support.postgres",
    "tests.support.doors",
    "tests.support.open_files",
    "tests.support.spark",
    "tests.support.nursery",
]


def pytest_collection_finish() -> None:
    """What collecting has made stays to the end: the garbage collector need not look at it again,
    which costs a tenth of many a test.
    """
    gc.enable()
    gc.collect()
    gc.freeze()
