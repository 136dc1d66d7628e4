"""Compatibility APIs, on the server's port: one file for each system.

Each parses a request to verbs, has its caller run them, and says the outcomes in that system's
paths, bodies and statuses. It knows no store and no SQL. What differs on purpose is in the pages
`docs/coming-from/`.
"""
