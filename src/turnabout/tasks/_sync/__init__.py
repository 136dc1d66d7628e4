"""For blocking callers. Generated from `_async/__init__.py` by `tools/unasync.py`: do not edit."""

from turnabout.tasks._sync.app import Tasks
from turnabout.tasks._sync.task import Handle, Step, Task, chain

__all__ = ["Handle", "Step", "Task", "Tasks", "chain"]
