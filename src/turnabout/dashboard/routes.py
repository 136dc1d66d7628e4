"""The dashboard's paths: pages, forms, the session, and two files that never change."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Sequence
from importlib.resources import files
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from turnabout._async.queue import AsyncQueue
from turnabout.dashboard import acts, session
from turnabout.dashboard.pages import Page, Views, queue_of
from turnabout.dashboard.session import COOKIE, NOTICE, PLACE
from turnabout.dashboard.view import render
from turnabout.server.api.waiting import while_there
from turnabout.server.auth.authorized_store import AuthorizedStore
from turnabout.server.context import ServerContext
from turnabout.wire.errors import error_body
from turnabout.words import verbs as v
from turnabout.words.errors import Forbidden, TurnaboutError, Unauthorized, UsageError

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",  # with no-referrer a form has no Origin
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
"""Nothing from elsewhere, nothing inline, in nobody's frame, kept by nobody."""
FILES = {"style.css": "text/css", "live.js": "text/javascript", "icon.svg": "image/svg+xml"}
CHANGED_SECONDS = 10.0
"""Longest wait for a change: ages of messages grow without one."""
PATIENCE_SECONDS, CLAIM_SECONDS, CLAIMS_MAX = 0.2, 30.0, 100
"""Patience of a browser, until it is told that a page takes long; and how long that is kept."""
COUNTS = ("scheduled", "ready", "leased", "sent", "done", "dead", "cancelled", "expired", "paused")
OPERATORS_PAGES = ("access", "health")


def routes(context: ServerContext) -> Sequence[BaseRoute]:
    """The dashboard's routes; none where the server's option `dashboard` is off."""
    return Dashboard(context).routes() if context.options.dashboard else []


class Dashboard:
    """The handlers of the dashboard's paths."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._views = Views(context)
        self._claims: dict[tuple[str, ...], asyncio.Task[Page]] = {}
        """Pages that browsers were told to ask for again."""
        context.lifecycle.background.append(self._views.sampler.run)

    def routes(self) -> Sequence[BaseRoute]:
        """The paths: each page below the session's namespace, or one that an operator looks at."""
        pages = {
            "/": "queues", "/schedules": "schedules", "/access": "access", "/health": "health",
            "/q/{queue}": "queue",
            "/q/{queue}/messages": "messages", "/q/{queue}/m/{id}": "message",
            "/q/{queue}/dead": "dead", "/q/{queue}/workers": "workers",
            "/q/{queue}/settings": "settings",
        }  # fmt: skip
        made: list[BaseRoute] = [
            Route(base + path, self._page_of(name), methods=["GET"])
            for base in (PLACE, PLACE + "/n/{namespace}")
            for path, name in pages.items()
        ]
        for base in (PLACE, PLACE + "/n/{namespace}"):
            made.append(Route(base + "/do/{act}", self.act, methods=["POST"]))
            made.append(Route(base + "/q/{queue}/changed", self.changed, methods=["GET"]))
        return [
            Route("/", self.lead, methods=["GET"]),
            Route(PLACE, self.lead, methods=["GET"]),
            Route(PLACE + "/sign-in", self.sign_in, methods=["POST"]),
            Route(PLACE + "/sign-out", self.sign_out, methods=["POST"]),
            *(Route(f"{PLACE}/{name}", _file(name, kind)) for name, kind in FILES.items()),
            *made,
        ]

    def _page_of(self, name: str) -> Callable[[Request], Awaitable[Response]]:
        async def page(request: Request) -> Response:
            return await self.page(name, request)

        return page

    async def lead(self, _: Request) -> Response:
        """Lead to the front page."""
        return RedirectResponse(PLACE + "/", 307, headers={"Cache-Control": "no-cache"})

    async def page(self, name: str, request: Request) -> Response:
        """A page, or a form to sign in, or what went wrong."""
        began = time.perf_counter()
        caller: AuthorizedStore | None = None
        try:
            caller = await session.caller_of(self._context, request)
            if name in OPERATORS_PAGES and not session.is_operator(caller.rights):
                raise Forbidden("only an operator's token sees this: operate:* and totals:*")
            values = await self._values(name, caller, request)
            response = self._shown(name if values else "wait", caller, request, **values or {})
        except Unauthorized as error:
            response = _sign_in(request, error)
        except TurnaboutError as error:
            response = self._problem(caller, request, error)
        took = (time.perf_counter() - began) * 1000
        response.headers["Server-Timing"] = f"page;dur={took:.1f}"
        return response

    async def _values(self, name: str, caller: AuthorizedStore, request: Request) -> Page | None:
        """The values of a page's template. None: they take long. The browser shows that, and asks
        for the page again at once, which then waits for what was begun.
        """
        whose = (caller.namespace, caller.token.id if caller.token else "")
        key = (*whose, request.url.path, request.url.query)
        task = self._claims.pop(key, None)
        if task is None:
            task = asyncio.create_task(getattr(self._views, name)(caller, request))
            is_browser = request.headers.get("sec-fetch-dest") == "document"
            if is_browser and len(self._claims) < CLAIMS_MAX:
                await asyncio.wait([task], timeout=PATIENCE_SECONDS)
                if not task.done():
                    task.add_done_callback(lambda done: done.cancelled() or done.exception())
                    self._claims[key] = task
                    loop = asyncio.get_running_loop()
                    loop.call_later(CLAIM_SECONDS, self._claims.pop, key, None)
                    return None
        return await task

    async def changed(self, request: Request) -> Response:
        """Answer once a queue's counts are not `seen` any more, or it is time to look again."""
        caller = await session.caller_of(self._context, request)
        seen = request.query_params.get("seen", "")
        async with caller.waiter():
            waiting = self._changed(caller, queue_of(caller, request), seen)
            counts = await while_there(request, waiting)
        return JSONResponse({"seen": counts}, 200, HEADERS)

    async def _changed(self, caller: AuthorizedStore, queue: AsyncQueue, seen: str) -> str:
        until = time.monotonic() + CHANGED_SECONDS
        while True:  # a signal may be for nothing, as when somebody begins to wait
            signal = await caller.signal(queue.name)
            stats = await queue.stats()
            counts = ".".join(str(getattr(stats, name)) for name in COUNTS)
            left = until - time.monotonic()
            if counts != seen or left <= 0 or self._context.lifecycle.closing:
                return counts
            await caller.wait(queue.name, signal, left)

    async def act(self, request: Request) -> Response:
        """A form: do it, and go back to the page with a sentence about it."""
        caller: AuthorizedStore | None = None
        try:
            fields = await session.form_of(request)
            caller = await session.caller_of(self._context, request)
            name = request.path_params["act"]
            do = acts.ACTS.get(name)
            if do is None and session.is_operator(caller.rights):
                do = acts.OPERATORS.get(name)
            if do is None:
                raise Forbidden("there is no such form, or it is not for you")
            text, undo = await do(acts.Act(self._context, caller, fields))
            self._views.forget()
            self._claims.clear()
        except Unauthorized as error:
            return _sign_in(request, error)
        except TurnaboutError as error:
            return self._problem(caller, request, error)
        response = RedirectResponse(_back(fields), 303, headers=HEADERS)
        session.notify(request, response, session.Flash(text, undo))
        return response

    async def sign_in(self, request: Request) -> Response:
        """Keep a token that is good for as long as a session lasts."""
        try:
            fields = await session.form_of(request)
            token = fields.get("token", [""])[0].strip()
            if not token.isascii() or not token.isprintable():
                raise Unauthorized("that is not a token")
            request.cookies[COOKIE] = token
            await session.caller_of(self._context, request)
        except TurnaboutError as error:
            return _sign_in(request, error)
        response = RedirectResponse(_back(fields), 303, headers=HEADERS)
        session.set_cookie(request, response, COOKIE, token, session.SESSION_SECONDS)
        return response

    async def sign_out(self, request: Request) -> Response:
        """Forget the token."""
        try:
            await session.form_of(request)
        except TurnaboutError as error:
            return _sign_in(request, error)
        response = RedirectResponse(PLACE + "/", 303, headers=HEADERS)
        session.set_cookie(request, response, COOKIE, "", 0)
        return response

    def _shown(
        self, name: str, caller: AuthorizedStore, request: Request, status: int = 200, **values: Any
    ) -> Response:
        """The page with what all pages have: where we are, who is asking, what may be done."""
        namespace = request.path_params.get("namespace")
        notice = None if name == "wait" else session.notice_of(request)
        rights = caller.rights

        def may(verb: str, queue: str | None = None) -> bool:
            return rights.allows(v.VERBS[verb], queue)

        body = render(
            f"{name}.html",
            base=PLACE if namespace is None else f"{PLACE}/n/{namespace}",
            here=request.url.path + (f"?{request.url.query}" if request.url.query else ""),
            page_name=name,
            namespace=caller.namespace,
            is_operator=namespace is not None or session.is_operator(rights),
            label=caller.token.label or caller.token.id if caller.token else "",
            signed_in=COOKIE in request.cookies,
            may=may,
            notice=notice,
            **values,
        )
        response = HTMLResponse(body, status, HEADERS)
        if notice is not None:
            session.set_cookie(request, response, NOTICE, "", 0)
        return response

    def _problem(
        self, caller: AuthorizedStore | None, request: Request, error: TurnaboutError
    ) -> Response:
        """The page of an error, in words; a bug tells nothing and is logged by the app."""
        status, _ = error_body(error)
        if status == 500 or caller is None:
            if not isinstance(error, (Forbidden, UsageError)):
                raise error
            return HTMLResponse(render("plain.html", text=str(error)), status, HEADERS)
        return self._shown("problem", caller, request, status, text=str(error))


def _sign_in(request: Request, error: TurnaboutError) -> Response:
    """The form to sign in. A link on another site brings no cookie: so the page is asked for again,
    once, by itself.
    """
    status, _ = error_body(error)
    cross = request.headers.get("sec-fetch-site") == "cross-site" and request.method == "GET"
    tried = request.method == "POST" or COOKIE in request.cookies
    body = render("sign-in.html", again=cross, problem=str(error) if tried else "",
                  back=request.url.path if request.method == "GET" else PLACE + "/")  # fmt: skip
    return HTMLResponse(body, 200 if cross else status, HEADERS)


def _back(fields: dict[str, list[str]]) -> str:
    """The page of the form; never another site."""
    back = fields.get("back", [""])[0]
    is_ours = back.startswith(PLACE + "/") and "\\" not in back and back.isprintable()
    return back if is_ours else PLACE + "/"


def _file(name: str, kind: str) -> Any:
    """A file, read once; a browser asks whether it has changed."""
    body = files("turnabout.dashboard").joinpath("static", name).read_bytes()
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {**HEADERS, "Cache-Control": "no-cache", "ETag": etag}
    kind = kind if name.endswith("svg") else f"{kind}; charset=utf-8"

    async def answer(request: Request) -> Response:
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        return Response(body, 200, headers, kind)

    return answer
