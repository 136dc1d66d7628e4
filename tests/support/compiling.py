"""The processes of a run share what has to be compiled: in a fresh clone each would do all of it,
ten seconds long, as they come to the same files at the same time.
"""

import contextlib
from pathlib import Path

import pytest
from _pytest.pathlib import ImportMode, import_path


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Load another part of the test modules than the others do, before all of them are loaded."""
    config = collector.config
    worker = getattr(config, "workerinput", None)
    if worker is None or not isinstance(collector, pytest.Session):
        return
    modules = sorted(
        path for place in config.args for path in Path(place).absolute().rglob("test_*.py")
    )
    for path in modules[int(worker["workerid"][2:]) :: worker["workercount"]]:
        with contextlib.suppress(Exception):  # collecting tells what is wrong with it
            import_path(
                path,
                mode=ImportMode.importlib,
                root=config.rootpath,
                consider_namespace_packages=False,
            )
