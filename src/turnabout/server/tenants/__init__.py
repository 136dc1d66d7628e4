"""Tenants (namespaces) and what they share. Nothing here knows of HTTP.

`namespaces` puts a tenant's part into names and takes it off; `quotas` says what it may have. What
all have in common is shared out by `shares` (places), `turns` (the store), `answer_room` (memory).
"""
