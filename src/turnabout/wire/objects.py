"""Any verb as one JSON object of all its fields, as an item of `/v1/transaction` is; also those of
slices, which no path of `/v1` leads to.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from turnabout.wire.codec import VerbItem, load_item, refuse_twice
from turnabout.wire.plans import Kind, plan_of
from turnabout.wire.routes import ROUTE_OF
from turnabout.wire.shapes import parts_of, shape_of, struct_of
from turnabout.words.errors import UsageError


def load_object(kind: Kind, body: bytes) -> VerbItem:
    """The verb of that kind in an object of its fields.

    Raises: UsageError that names the place.
    """
    try:
        if kind in ROUTE_OF:
            fields = msgspec.json.decode(body, type=dict[str, Raw])
            refuse_twice(body)
            return load_item(kind, fields)
        form = shape_of(kind)
        decoded = msgspec.json.decode(body, type=form.type)
        refuse_twice(body)
        return VerbItem(decoded if form.load is None else form.load(decoded))
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"not a valid {kind.name}: {error}") from error


def object_of(kind: Kind) -> type[msgspec.Struct]:
    """The type of that object: a struct with all fields, for those who explain them."""
    if kind not in ROUTE_OF:
        return struct_of(kind.__name__, parts_of(kind))
    plan = plan_of(kind)
    parts = sorted([*plan.parameters.values(), *plan.body], key=lambda p: _has_default(p.default))
    return struct_of(kind.__name__, tuple(parts))


def _has_default(default: Any) -> bool:
    return default is not msgspec.NODEFAULT
