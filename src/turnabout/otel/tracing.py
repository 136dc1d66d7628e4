"""Spans and trace context, by OpenTelemetry: `connect(url, tracing="link")`.

Stores in front of others, in two colours, make a span of each send, receive and settling verb, and
put the context into messages' headers; the worker asks this module for the spans of its handlers.
Only `opentelemetry-api` is needed, and loaded when the first store is traced; your SDK decides
where spans go. No part of a payload and no text of an error gets into a span.

Source: OpenTelemetry's semantic conventions for messaging, 1.44 (in development).
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import parse_qsl, urlsplit

from turnabout.store import (
    AsyncForwardingStore,
    AsyncJoined,
    AsyncStore,
    ForwardingStore,
    Joined,
    Store,
)
from turnabout.words import limits
from turnabout.words.entities import Delivery, Outgoing, Receipt
from turnabout.words.errors import TurnaboutError, UsageError
from turnabout.words.extras import install_hint
from turnabout.words.outcomes import Received, Sent
from turnabout.words.value import replace
from turnabout.words.verbs import Receive, Send, Verb

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, SpanContext
    from starlette.types import ASGIApp

A = TypeVar("A")

SYSTEM = "turnabout"
REMEMBERED_MAX = 10_000
"""Messages that were received and not settled, whose senders' contexts are kept for that span."""
_DROPPED_FIRST = ("baggage", "tracestate")


class Handling:
    """The span of one handler's run."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def failed(self, error: BaseException) -> None:
        """Record the error that the handler raised."""
        from opentelemetry.trace import StatusCode

        self._span.set_attribute("error.type", type(error).__qualname__)
        self._span.set_status(StatusCode.ERROR, type(error).__qualname__)


class _Step:
    """A verb under way: its span, and the verb as it is to be run."""

    def __init__(self, spans: Spans, verb: Verb[Any], span: Span | None) -> None:
        self.verb = verb
        self.span = span
        self._spans = spans
        self._started = time.time_ns()

    def answered(self, answer: Any) -> None:
        """End the span of a verb that was carried out."""
        if isinstance(self.verb, Receive):
            self._spans.received(self.verb, answer, self._started)
        if self.span is not None:
            if isinstance(self.verb, Send):
                _note_sent(self.span, answer)
            self.span.end()

    def failed(self, error: BaseException) -> None:
        """End the span with an error: the verb failed, or its outcome is unknown."""
        from opentelemetry.trace import StatusCode

        if self.span is not None:
            kind = error.code if isinstance(error, TurnaboutError) else type(error).__qualname__
            self.span.set_attribute("error.type", kind)
            self.span.set_status(StatusCode.ERROR, kind)
            self.span.end()


class Spans:
    """Makes the spans; for a store of either colour."""

    def __init__(self, *, parent: bool, url: str) -> None:
        """`url` names the store; empty: unknown. Raises: UsageError without OpenTelemetry."""
        if find_spec("opentelemetry") is None:
            raise UsageError(f"tracing needs OpenTelemetry: {install_hint('otel')}")
        from opentelemetry import trace

        self._tracer = trace.get_tracer("turnabout")
        self._parent = parent
        self._place = _place(url)
        self._senders: OrderedDict[tuple[str, Receipt], SpanContext] = OrderedDict()

    def traced(self, store: Store) -> Store:
        """A store in front of that one."""
        return TracedStore(store, self)

    def traced_async(self, store: AsyncStore) -> AsyncStore:
        """The same for asyncio callers."""
        return AsyncTracedStore(store, self)

    # --- verbs -----------------------------------------------------------------------------------

    def begin(self, verb: Verb[Any]) -> _Step | None:
        """A step for a verb that is traced. A receive gets its span when it brought something."""
        match verb:
            case Send():
                return self._send(verb)
            case Receive():
                return _Step(self, verb, self._settle(verb.apart()[0]) if verb.acks else None)
            case _:
                return _Step(self, verb, self._settle(verb)) if verb.settles else None

    def _send(self, verb: Send) -> _Step:
        from opentelemetry import propagate, trace

        contexts = [self._context(m.headers) for m in verb.messages if m.headers]
        attributes = self._attributes("send", "send", verb.queue, len(verb.messages))
        if len(verb.messages) == 1:
            attributes["messaging.message.body.size"] = len(verb.messages[0].payload)
        span = self._tracer.start_span(
            f"send {verb.queue}",
            kind=trace.SpanKind.PRODUCER,
            attributes=attributes,
            links=_links(contexts),
        )
        carrier: dict[str, str] = {}
        propagate.inject(carrier, trace.set_span_in_context(span))
        if carrier:
            verb = Send(verb.queue, tuple(_carrying(m, carrier) for m in verb.messages))
        return _Step(self, verb, span)

    def _settle(self, verb: Verb[Any]) -> Span:
        from opentelemetry.trace import SpanKind

        assert verb.items is not None
        receipts: list[Receipt] = verb.items.receipts(verb)
        queue: str = cast("Any", verb).queue
        senders = [self._senders.pop((queue, receipt), None) for receipt in receipts]
        attributes = self._attributes(verb.name, "settle", queue, len(receipts))
        if len(receipts) == 1:
            attributes["messaging.message.id"] = str(receipts[0].id)
        return self._tracer.start_span(
            f"{verb.name} {queue}",
            kind=SpanKind.CLIENT,
            attributes=attributes,
            links=_links(senders),
        )

    def received(self, verb: Receive, answer: Received, started_ns: int) -> None:
        """The span of a receive that brought messages, linked to the spans of their sends."""
        from opentelemetry.trace import SpanKind

        if not answer.deliveries:
            return
        senders: list[SpanContext | None] = []
        for delivery in answer.deliveries:
            sender = self._context(delivery.headers)
            senders.append(sender)
            if sender is not None:
                self._senders[verb.queue, delivery.receipt] = sender
        while len(self._senders) > REMEMBERED_MAX:
            self._senders.popitem(last=False)
        span = self._tracer.start_span(
            f"receive {verb.queue}",
            kind=SpanKind.CLIENT,
            attributes=self._attributes("receive", "receive", verb.queue, len(answer.deliveries)),
            links=_links(senders),
            start_time=started_ns,
        )
        span.end()

    # --- handlers --------------------------------------------------------------------------------

    @contextmanager
    def process(self, queue: str, delivery: Delivery) -> Generator[Handling]:
        """A block in which a handler works on a message: its span, and the sender's baggage."""
        from opentelemetry import context, trace

        base = self._extracted(delivery.headers)
        sender = trace.get_current_span(base).get_span_context()
        if not self._parent:
            base = trace.set_span_in_context(trace.INVALID_SPAN, base)
        attributes = self._attributes("process", "process", queue, 1)
        attributes["messaging.message.id"] = str(delivery.id)
        attributes["messaging.message.body.size"] = len(delivery.payload)
        span = self._tracer.start_span(
            f"process {queue}",
            context=base,
            kind=trace.SpanKind.CONSUMER,
            attributes=attributes,
            links=_links([sender]),
        )
        token = context.attach(trace.set_span_in_context(span, base))
        try:
            yield Handling(span)
        finally:
            context.detach(token)
            span.end()

    def _attributes(self, name: str, kind: str, queue: str, messages: int) -> dict[str, Any]:
        found: dict[str, Any] = {
            "messaging.system": SYSTEM,
            "messaging.operation.name": name,
            "messaging.operation.type": kind,
            "messaging.destination.name": queue,
            **self._place,
        }
        if messages != 1:
            found["messaging.batch.message_count"] = messages
        return found

    # --- contexts --------------------------------------------------------------------------------

    @staticmethod
    def _extracted(headers: Mapping[str, str]) -> Context:
        """Only the sender's context, without the current one."""
        from opentelemetry import propagate
        from opentelemetry.context import Context

        carrier = {name.lower(): value for name, value in headers.items()}
        return propagate.extract(carrier, Context())

    def _context(self, headers: Mapping[str, str] | None) -> SpanContext | None:
        """The sender's span, if the headers tell."""
        from opentelemetry import trace

        if not headers:
            return None
        found = trace.get_current_span(self._extracted(headers)).get_span_context()
        return found if found.is_valid else None


class SpansOnBehalf(Spans):
    """Spans that a server makes: for sends of clients that pass no context on. Other clients make
    their own, and requests have theirs.
    """

    def __init__(self) -> None:
        super().__init__(parent=False, url="")

    @staticmethod
    def of_requests(app: ASGIApp, **known: Callable[[Any], str]) -> ASGIApp:
        """A layer around the app: see `RequestSpans`."""
        from turnabout.otel.requests import RequestSpans

        return RequestSpans(app, **known)

    def begin(self, verb: Verb[Any]) -> _Step | None:
        """A step for such a send."""
        if isinstance(verb, Send) and any(not self._context(m.headers) for m in verb.messages):
            return super().begin(verb)
        return None


# --- stores --------------------------------------------------------------------------------------


class TracedStore(ForwardingStore):
    """A store whose verbs have spans, for blocking callers."""

    def __init__(self, store: Store, spans: Spans) -> None:
        super().__init__(store)
        self.spans = spans
        store.hand_on(context_headers)  # behind a server, the requests carry the context

    def run(self, verb: Verb[A]) -> A:
        """Run a verb in a span."""
        step = self.spans.begin(verb)
        if step is None:
            return self._store.run(verb)
        with _under_way([step]):
            answer = self._store.run(step.verb)
        step.answered(answer)
        return answer

    def run_transaction(
        self, verbs: Sequence[Verb[Any]], *, all_or_none: bool = False
    ) -> list[Any]:
        """Run verbs in one transaction, each in a span."""
        steps = [self.spans.begin(verb) for verb in verbs]
        with _under_way(steps):
            answers = self._store.run_transaction(_to_run(verbs, steps), all_or_none=all_or_none)
        return _all_answered(steps, answers)

    def within(self, connection: object) -> Joined:
        """A traced store that runs verbs in the caller's transaction."""
        return cast("Joined", TracedStore(self._store.within(connection), self.spans))


class AsyncTracedStore(AsyncForwardingStore):
    """The same for asyncio callers."""

    def __init__(self, store: AsyncStore, spans: Spans) -> None:
        super().__init__(store)
        self.spans = spans
        store.hand_on(context_headers)

    async def run(self, verb: Verb[A]) -> A:
        """Run a verb in a span."""
        step = self.spans.begin(verb)
        if step is None:
            return await self._store.run(verb)
        with _under_way([step]):
            answer = await self._store.run(step.verb)
        step.answered(answer)
        return answer

    async def run_transaction(
        self, verbs: Sequence[Verb[Any]], *, all_or_none: bool = False
    ) -> list[Any]:
        """Run verbs in one transaction, each in a span."""
        steps = [self.spans.begin(verb) for verb in verbs]
        with _under_way(steps):
            answers = await self._store.run_transaction(
                _to_run(verbs, steps), all_or_none=all_or_none
            )
        return _all_answered(steps, answers)

    def within(self, connection: object) -> AsyncJoined:
        """A traced store that runs verbs in the caller's transaction."""
        return cast("AsyncJoined", AsyncTracedStore(self._store.within(connection), self.spans))


def context_headers() -> Mapping[str, str]:
    """Headers that hand the current context on, as for a request over HTTP."""
    from opentelemetry import propagate

    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return carrier


# --- parts ---------------------------------------------------------------------------------------


@contextmanager
def _under_way(steps: Sequence[_Step | None]) -> Generator[None]:
    """Make the only span current while the store works; on an error, end all of them."""
    from opentelemetry import context, trace

    spans = [step.span for step in steps if step is not None and step.span is not None]
    token = None
    if len(spans) == 1:
        token = context.attach(trace.set_span_in_context(spans[0]))
    try:
        yield
    except BaseException as error:
        for step in steps:
            if step is not None:
                step.failed(error)
        raise
    finally:
        if token is not None:
            context.detach(token)


def _to_run(verbs: Sequence[Verb[Any]], steps: Sequence[_Step | None]) -> list[Verb[Any]]:
    return [v if step is None else step.verb for v, step in zip(verbs, steps, strict=True)]


def _all_answered(steps: Sequence[_Step | None], answers: list[Any]) -> list[Any]:
    for step, answer in zip(steps, answers, strict=True):
        if step is not None:
            step.answered(answer)
    return answers


def _place(url: str) -> dict[str, Any]:
    """The server in a URL, if it names one; of several hosts, the one in use is unknown here."""
    parts = urlsplit(url)
    named = dict(parse_qsl(parts.query)).get("host", "")
    host = parts.hostname or named
    if parts.scheme == "sqlite" or not host or "," in parts.netloc + named:
        return {}
    port = {} if parts.port is None else {"server.port": parts.port}
    return {"server.address": host, **port}


def _note_sent(span: Span, answer: Any) -> None:
    if not isinstance(answer, Sent):
        span.set_attribute("turnabout.refused", type(answer).__name__)
    elif len(answer.ids) == 1:
        span.set_attribute("messaging.message.id", str(answer.ids[0]))


def _links(contexts: Sequence[SpanContext | None]) -> list[Link]:
    from opentelemetry.trace import Link

    found = {(c.trace_id, c.span_id): c for c in contexts if c is not None and c.is_valid}
    return [Link(one) for one in found.values()]


def _carrying(message: Outgoing, carrier: Mapping[str, str]) -> Outgoing:
    """The message with the context in its headers, unless it has one, or there is no room."""
    headers = dict(message.headers or {})
    taken = {name.lower() for name in headers}
    if any(name in taken for name in carrier if name not in _DROPPED_FIRST):
        return message
    added = {name: value for name, value in carrier.items() if name not in taken}
    for dropped in (None, *_DROPPED_FIRST):
        if dropped is not None:
            added.pop(dropped, None)
        if _fit(headers | added):
            return replace(message, headers=headers | added)
    return message


def _fit(headers: Mapping[str, str]) -> bool:
    size = sum(len(name.encode()) + len(value.encode()) for name, value in headers.items())
    return len(headers) <= limits.HEADERS_MAX and size <= limits.HEADERS_BYTES_MAX
