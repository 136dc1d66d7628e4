"""The routes of `/v1`, its streams, health, metrics, and the OpenAPI document."""
