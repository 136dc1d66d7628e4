"""Compatibility APIs, on the server's port: one file for each system.

Each parses a request into verbs, has its caller run them, and translates the outcomes into that
system's paths, bodies and statuses. It knows no store and no SQL. The pages `docs/coming-from/`
list the intended differences.
"""
