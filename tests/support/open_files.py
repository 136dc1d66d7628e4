"""Many open files, for what waits for one: `many_open_files`."""

import os
import resource
from collections.abc import Iterator

import pytest


@pytest.fixture
def many_open_files() -> Iterator[None]:
    """More than 1,024: `select` cannot wait for those that come after them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 2048 if hard == resource.RLIM_INFINITY else min(2048, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    yield
    for file in held:
        os.close(file)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
