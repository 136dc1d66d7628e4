"""The routes of `/v1`, health, metrics, and the OpenAPI document."""
