"""For blocking callers. Generated from `_async/__init__.py` by `tools/unasync.py`: do not edit."""
