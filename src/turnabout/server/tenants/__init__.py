"""Tenants (namespaces) and the resources that they share. Nothing here knows of HTTP.

`namespaces` adds a tenant's prefix to names and takes it off; `quotas` bounds its use. The shared
resources are in `shares` (places), `turns` (the store) and `answer_room` (memory).
"""
