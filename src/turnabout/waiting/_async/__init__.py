"""Shared looks of waiting callers, for asyncio."""
