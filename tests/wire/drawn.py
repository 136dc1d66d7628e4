"""Any value of the vocabulary, drawn by its type hints and by what its fields may be."""

import json
import string
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st
from msgspec.structs import fields

from turnabout.wire.routes import NOT_ON_THE_WIRE
from turnabout.words import verbs as v
from turnabout.words.entities import Delivery, Origin, Outgoing, Receipt
from turnabout.words.policy import PAUSE_COLUMNS, Policy, QueueSettings
from turnabout.words.records import HistoryEntry
from turnabout.words.schedules import Schedule
from turnabout.words.value import Value

NAMES = {"queue", "target", "schedule", "dead_letter", "name"}
names = st.text(string.ascii_letters + string.digits + "_.-", min_size=1, max_size=12).map(
    lambda rest: "q" + rest
)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
jsons = st.builds(
    lambda value, before, after: (before + json.dumps(value) + after).encode(errors="replace"),
    values,
    st.sampled_from(["", "", " ", "\n\t"]),
    st.sampled_from(["", "", " ", "\r\n"]),
)
blobs = st.binary(max_size=20) | texts.map(str.encode) | jsons
types_of_content = st.sampled_from(
    ["application/json", "Application/JSON; charset=utf-8", "text/plain; charset=utf-8",
     "application/octet-stream", "application/problem+json", "image/png", "json"]
)  # fmt: skip
instants = st.integers(0, 2**43)
LEASES = st.just(0) | st.integers(0, 2**63 - 1)
NUMBERS: Mapping[str, st.SearchStrategy[int]] = {
    "priority": st.integers(-32_768, 32_767),
    "index": st.just(0),
    "count": st.integers(1, 1_000),
    "burst": st.integers(1, 1_000_000),
    "weight": st.integers(1, 1_000),
    "limit": st.integers(1, 1_000),
    "max_messages": st.integers(1, 1_000),
    "id": st.integers(1, 2**63 - 1),
    "lease": LEASES,
    "ids": st.integers(1, 2**63 - 1),
    "after_id": st.integers(0, 2**63 - 1),
    "served": st.integers(0, 1_000),
    "per_second": st.integers(1, 1_000_000),
}
DURATIONS = {"every_ms": st.integers(1_000, 366 * 86_400_000)}
PERCENT = st.integers(0, 100).map(lambda n: n / 100)
SECONDS = {"backoff_jitter": PERCENT, "progress": PERCENT}


def drawn(hint: Any, name: str = "") -> st.SearchStrategy[Any]:
    """Values of a type, for a field of that name."""
    if hint in SCALARS:
        return SCALARS[hint](name)
    if get_origin(hint) is Literal:
        return st.sampled_from(get_args(hint))
    if get_origin(hint) is tuple:
        return st.lists(drawn(get_args(hint)[0], name), max_size=3).map(tuple)
    if get_origin(hint) is Mapping:
        return st.dictionaries(texts.filter(bool), texts, max_size=3)
    if get_origin(hint) in {Union, types.UnionType}:
        return st.one_of([drawn(one, name) for one in get_args(hint)])
    assert issubclass(hint, Value) or hint is Delivery, hint
    return SPECIAL[hint] if hint in SPECIAL else plain(hint)


def _whole(name: str) -> st.SearchStrategy[int]:
    if name.endswith("_ms"):
        return DURATIONS.get(name, st.integers(1, 12 * 3_600_000))
    return NUMBERS.get(name, st.integers(1, 2**31 - 1))


def _text(name: str) -> st.SearchStrategy[str]:
    if name == "content_type":
        return types_of_content
    if name in ("host", "version", "worker"):
        return texts.map(lambda text: f"w{text}"[:60])
    return names if name in NAMES else texts


SCALARS: Mapping[Any, Callable[[str], st.SearchStrategy[Any]]] = {
    bool: lambda _: st.booleans(),
    int: _whole,
    float: lambda name: SECONDS.get(name, st.integers(1, 40_000_000).map(lambda ms: ms / 1000)),
    str: _text,
    bytes: lambda _: blobs,
    type(None): lambda _: st.none(),
    Receipt: lambda _: st.builds(
        Receipt, st.integers(1, 2**63 - 1), st.integers(1, 2**31 - 1), LEASES
    ),
}
SPECIAL: dict[Any, st.SearchStrategy[Any]] = {}


def plain(kind: Any, **special: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Values of a class, field by field."""
    hints = get_type_hints(kind)
    names_of_fields = kind._fields if kind is Delivery else kind.__struct_fields__
    parts = {
        name: special[name] if name in special else drawn(hints[name], name)
        for name in names_of_fields
    }
    return st.builds(kind, **parts)


def _some(kind: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Changes: some of the fields of settings."""

    def chosen(whole: Any, chosen_names: set[str]) -> dict[str, Any]:
        return {name: getattr(whole, name) for name in sorted(chosen_names)}

    return st.builds(chosen, drawn(kind), st.sets(st.sampled_from([f.name for f in fields(kind)])))


_undedup = {
    name: st.none() for name in ("dedup_key", "dedup_mode", "dedup_window_ms", "dedup_scope")
}
_default_policy = plain(
    Policy, paused=st.just(False), paused_until=st.none(), pause_reason=st.none()
)
_never = {"cron": st.none(), "every_ms": st.none(), "at": st.none()}
_at_once = {"due_at": st.none()}
_delayed = plain(Outgoing, **_undedup, **_at_once) | plain(
    Outgoing, dedup_key=texts.filter(bool), **_at_once
)
SPECIAL[Outgoing] = _delayed | plain(Outgoing, **_undedup, delay_ms=st.none())
SPECIAL[QueueSettings] = plain(
    QueueSettings,
    fifo=st.just(True),
    fifo_run=st.integers(1, 1_000),
    policy=_default_policy,
)
SPECIAL[Delivery] = plain(
    Delivery,
    headers_json=st.none() | st.dictionaries(texts.filter(bool), texts, max_size=2).map(json.dumps),
    origin_json=st.none() | plain(Origin).map(lambda origin: msgspec.json.encode(origin).decode()),
    content_type=types_of_content,
)
SPECIAL[HistoryEntry] = plain(HistoryEntry, payload=blobs, content_type=types_of_content) | plain(
    HistoryEntry, payload=st.none(), content_type=st.none()
)
SPECIAL[Schedule] = st.one_of(
    [plain(Schedule, message=_delayed, **{**_never, when: drawn(hint, when)})
     for when, hint in {"cron": str, "every_ms": int, "at": int}.items()]
)  # fmt: skip


def verbs(kind: Any) -> st.SearchStrategy[Any]:
    """Requests for one verb."""
    special: dict[str, st.SearchStrategy[Any]] = {
        f.name: st.just(f.default) for f in fields(kind) if f.name in NOT_ON_THE_WIRE
    }
    if kind is v.QueueUpdate:
        part = st.fixed_dictionaries({}, optional={"policy": _some(Policy).map(_without_pause)})
        special["changes"] = st.builds(lambda a, b: {**a, **b}, _some(QueueSettings), part)
    if kind is v.PolicySet:
        special["changes"] = _some(Policy)
    if kind in (v.Ack, v.Receive):  # a result for each receipt, or none at all
        hints = get_type_hints(kind)
        each = st.lists(st.tuples(drawn(Receipt), drawn(get_args(hints["results"])[0])), max_size=3)
        return each.flatmap(
            lambda pairs: plain(
                kind,
                **{kind.items.field: st.just(tuple(receipt for receipt, _ in pairs))},
                results=st.just(tuple(result for _, result in pairs)) | st.just(()),
                **special,
            )
        )
    return plain(kind, **special)


def _without_pause(changes: dict[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in changes.items() if name not in PAUSE_COLUMNS}
