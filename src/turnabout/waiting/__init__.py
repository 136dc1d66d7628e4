"""Waiting: for a change, for a message, for an end, and for one another.

    notifier   who waits on a queue, and how they hear that it has changed
    pacing     when to look again, and where a process stands in its round robins
    line       those who wait for the same thing: the first one leads
    receives   a line of receives: one look leases for all of them
    endings    a line of waits for ends: one query asks for all of them
    batcher    many callers on an event loop, one call

`receives` and `endings` are written for asyncio, in `_async`; `_sync` is generated from it.
"""
