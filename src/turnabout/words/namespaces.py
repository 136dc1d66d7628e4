"""Names with a namespace in front: what a tenant calls `emails` is `acme/emails` in the database.

Stores and slices read such names; whose namespace it is, and what it may do, a server judges.
"""

from __future__ import annotations

from functools import lru_cache

from turnabout.words import limits
from turnabout.words.errors import UsageError

NO_NAMESPACE = ""
"""The namespace of names without a prefix: queues that the library makes by itself."""


def namespace_name(name: object) -> str:
    """Check a namespace's name: 1 to 80 letters, digits, `_`, `.` and `-`."""
    return limits.plain_name(name, "namespace")


def namespace_of(name: str) -> str:
    """The part of a stored name before the slash; `""` if there is none."""
    return name.partition("/")[0] if "/" in name else NO_NAMESPACE


@lru_cache(maxsize=4_096)  # only of names that are good, so of short ones
def stored(name: str, namespace: str) -> str:
    """The name as the database keeps it. Raises: UsageError for an invalid name."""
    if isinstance(name, str) and "/" in name:  # pyright: ignore[reportUnnecessaryIsInstance]
        # Not shown: whatever has the form of another namespace's name is cut out of texts.
        raise UsageError("names have no slash here, as the namespace comes from the token")
    limits.plain_name(name)
    return name if namespace == NO_NAMESPACE else f"{namespace}/{name}"


def plain(name: str, namespace: str) -> str | None:
    """A stored name as that namespace's client knows it; None: it is another namespace's."""
    if namespace != NO_NAMESPACE:
        if not name.startswith(f"{namespace}/"):
            return None
        name = name[len(namespace) + 1 :]
    return None if "/" in name else name
