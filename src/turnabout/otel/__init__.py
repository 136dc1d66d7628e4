"""Spans by OpenTelemetry: of verbs and handlers, and of the server's requests."""
