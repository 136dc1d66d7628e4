"""A span for each request, in the trace that the client's headers name; with `--tracing`."""

from __future__ import annotations

from collections.abc import Callable

from opentelemetry import context, propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, StatusCode
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnabout import __version__

METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
PROBES = frozenset({"/livez", "/readyz", "/healthz", "/metrics"})
_CARRIED = frozenset({b"traceparent", b"tracestate", b"baggage"})


class RequestSpans:
    """A layer of the app; spans made inside it are children of the request's span.

    template: the path template of the route that took a request. shown: a path, safe to show.
    """

    def __init__(
        self, app: ASGIApp, template: Callable[[Scope], str], shown: Callable[[str], str]
    ) -> None:
        self.app, self._template, self._shown = app, template, shown
        self._tracer = trace.get_tracer("turnabout.server", __version__)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, in its span. Probes have none."""
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self.app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in METHODS else "HTTP"
        parent = _context_of(scope)
        span = self._tracer.start_span(method, context=parent, kind=SpanKind.SERVER)
        token = context.attach(trace.set_span_in_context(span, parent))

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                status = message["status"]
                span.set_attribute("http.response.status_code", status)
                if status >= 500:
                    span.set_status(StatusCode.ERROR)
            await send(message)

        try:
            await self.app(scope, receive, noted)
        except BaseException as error:
            span.set_attribute("error.type", type(error).__qualname__)
            span.set_status(StatusCode.ERROR)
            raise
        finally:
            route = self._template(scope)
            span.update_name(f"{method} {route}")
            span.set_attributes({"http.request.method": method, "http.route": route})
            span.set_attributes({"url.path": self._shown(scope["path"]), **_attributes(scope)})
            context.detach(token)
            span.end()


def _attributes(scope: Scope) -> dict[str, str | int]:
    """Known attributes of the HTTP conventions. The query is left out, as it is user data.

    Source: OpenTelemetry's semantic conventions for HTTP, 1.44.
    """
    found: dict[str, str | int] = {
        "url.scheme": scope["scheme"],
        "network.protocol.version": scope["http_version"],
    }
    for end in ("server", "client"):
        if scope.get(end):
            found[f"{end}.address"], found[f"{end}.port"] = scope[end]
    return found


def _context_of(scope: Scope) -> Context:
    carrier = {
        name.decode(): value.decode("latin-1")
        for name, value in scope["headers"]
        if name in _CARRIED
    }
    return propagate.extract(carrier, Context())
