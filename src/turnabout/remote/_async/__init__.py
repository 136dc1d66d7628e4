"""The store for asyncio; `_sync`, the blocking one, is generated from it by `tools/unasync.py`."""
