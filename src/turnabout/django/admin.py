"""The admin's pages: lists messages, shows one with its errors, retries and cancels."""
# pyright: basic
# (Django has no types)

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse

from turnabout import Turnabout
from turnabout.django import listing
from turnabout.django.api import task_backends
from turnabout.django.backend import TurnaboutBackend
from turnabout.django.models import QueueMessage
from turnabout.words.errors import TurnaboutError

ACTIONS = {
    "retry": (listing.retry, "ready again", "neither wait nor are in a dead-letter queue"),
    "cancel": (listing.cancel, "cancelled, or about to be", "had ended before"),
}
"""An action, and the sentences for messages where it succeeded and where it failed."""


@admin.register(QueueMessage)
class QueueMessageAdmin(admin.ModelAdmin):
    """Pages of its own: what they show comes from the queue's verbs, not from a table."""

    def has_add_permission(self, request: HttpRequest, *_: Any) -> bool:
        """Messages are sent by programs."""
        return False

    def has_delete_permission(self, request: HttpRequest, *_: Any) -> bool:
        """Refuse deletion: messages are cancelled, and ended ones go with the history."""
        return False

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """The messages of one queue in one state."""
        if request.method == "POST":
            return self._acted(request)
        query: Any = {
            name: request.GET.get(name, "") for name in ("queue", "state", "channel", "after")
        }
        context = {"title": "Messages", "asked": query, "states": listing.STATES}
        try:
            context |= _page(query)
        except TurnaboutError as error:
            messages.error(request, str(error))
        return self._response(request, "messages", context)

    def change_view(self, request: HttpRequest, object_id: str, *_: Any, **__: Any) -> HttpResponse:
        """One message."""
        if request.method == "POST":
            return self._acted(request)
        key = unquote(object_id)
        row = _found(key)
        if row is None:
            messages.warning(request, f"There is no message {key}, or no more.")
            return HttpResponseRedirect(reverse("admin:turnabout_queuemessage_changelist"))
        context = {"title": f"Message {key}", "row": row, "key": key}
        return self._response(request, "message", context)

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> Any:
        """Return the object for the page with a message's past actions."""
        return QueueMessage(id=object_id) if _found(object_id) else None

    def _response(self, request: HttpRequest, name: str, context: dict[str, Any]) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        may_change = self.has_change_permission(request)
        context |= {"opts": self.opts, "may_change": may_change}
        context |= self.admin_site.each_context(request)
        return TemplateResponse(request, f"admin/turnabout/{name}.html", context)

    def _acted(self, request: HttpRequest) -> HttpResponse:
        """Do what was asked for with the chosen messages, and say of how many it was done."""
        if not self.has_change_permission(request):
            raise PermissionDenied
        action, keys = request.POST.get("action", ""), request.POST.getlist("key")
        if action not in ACTIONS or not keys:
            messages.warning(request, "Choose messages, and what to do with them.")
            return HttpResponseRedirect(request.get_full_path())
        act, done, not_done = ACTIONS[action]
        acted: list[str] = []
        for key in keys:
            try:
                if act(*_place(key)):
                    acted.append(key)
                    self.log_change(request, QueueMessage(id=key), action)
            except (TurnaboutError, LookupError, ValueError) as error:  # the others go on
                messages.error(request, f"{key}: {error}")
        if acted:
            messages.success(request, f"{len(acted)} messages: {done}.")
        if len(acted) < len(keys):
            messages.warning(request, f"{len(keys) - len(acted)} messages {not_done}.")
        return HttpResponseRedirect(request.get_full_path())


def _databases() -> dict[str, Turnabout]:
    """Group backends by alias; those that share a database are one."""
    ours = [one for one in task_backends.all() if isinstance(one, TurnaboutBackend)]
    by_url = {one.url: one for one in reversed(ours)}
    return {one.alias: one.connection for one in by_url.values()}


def _place(key: str) -> tuple[Turnabout, str, int]:
    """Split `backend:queue:id`. Raises: LookupError, ValueError."""
    alias, queue, number = key.rsplit(":", 2)
    return _databases()[alias], queue, int(number)


def _found(key: str) -> Any:
    try:
        return listing.find(*_place(key))
    except (TurnaboutError, LookupError, ValueError):
        return None


def _page(query: Any) -> dict[str, Any]:
    """The queues that there are, and the messages of the one that is asked for."""
    found = {f"{a}:{one.name}": mq for a, mq in _databases().items() for one in mq.queues()}
    if not found:
        return {}
    place = query["queue"] if query["queue"] in found else next(iter(found))
    state = query["state"] if query["state"] in listing.STATES else ""
    query |= {"queue": place, "state": state}
    queue = place.partition(":")[2]
    rows, more = listing.page(found[place], queue, state, query["channel"], query["after"])
    return {"queues": list(found), "rows": rows, "more": more}
