"""The command line under test: see `tests/support/command_line.py`."""

from tests.support.command_line import door_url, opened, program, run

__all__ = ["door_url", "opened", "program", "run"]
