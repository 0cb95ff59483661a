"""The web worker: hands out signed queries, takes answers, shows the live page. It holds no state worth keeping.

    GET  /              the respondent's page: one static file, the same for every survey
    GET  /page.sha256   its SHA-256
    POST /api/query     {} or {"invite": "..."}         -> {"query", "expires", "signed", "signature", "answered"}
    POST /api/answer    {"id": "...", "value": 123}     -> {"receipt", "counted"}; the same again for a repeat
    GET  /live          the live page
    GET  /api/state     -> {"answers", "mean", "sd", "closed", ...}; "outstanding" and "lag" with the operator's token
    GET  /api/stream    the same whenever it moves, as server-sent events
    GET  /api/export    the release file: for the operator, and for everyone once the survey is closed
    POST /api/close     with the operator's token
    GET  /healthz

What is sent here never contains a value: the page draws the noise. What is kept here never tells who sent it: no
cookie, no access log, addresses only as salted hashes in memory (`limits`). An invitation comes in a body, never in a
URL. Scripts may come from the page's own file alone (content-security policy by hash).
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import re
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from json import dumps, loads
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError

from noisewise import collector
from noisewise.collector.board import Board, Handed, Words, hand_out, is_admin
from noisewise.collector.bulletin import operator_numbers
from noisewise.collector.desk import Desk, Receipt
from noisewise.collector.export import export
from noisewise.collector.limits import Limiter
from noisewise.collector.signing import SigningKey
from noisewise.collector.store import Session, Store
from noisewise.errors import InvalidArgument, NoisewiseError, SurveyError
from noisewise.query import LONGEST_ID
from noisewise.types import Plain

try:
    from starlette.applications import Starlette
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import PlainTextResponse, Response, StreamingResponse
    from starlette.routing import Route
except ImportError:  # pragma: no cover
    raise NoisewiseError("A survey server needs more packages: pip install 'noisewise[survey]'.") from None

__all__ = ["Front", "ServerSettings", "application", "page", "page_digest"]

LARGEST_BODY = 2048  # bytes
POOL_SECONDS = 10.0  # that a person waits for the learner
POOL_PAUSE = 0.02
STATE_SECONDS = 1.0  # that a worker believes what it read of the public picture
STREAM_SECONDS = 15.0  # between signs of life
MOST_STREAMS = 500
STATUS = {"closed": 410, "withdrawn": 410, "invitation": 403, "pool": 503, "empty": 404}
AWAY = "The survey cannot reach its store just now. If you sent an answer, it may be counted: send the same one again."
T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]
COMMON = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), interest-cohort=()",
}


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How a server behaves to the outside."""

    rate: int = 120  # requests a minute from one address, and half as many queries for one invitation
    origins: tuple[str, ...] | None = None  # whose pages may ask and answer; None: any, a saved copy among them
    proxies: tuple[str, ...] = ()  # whose word about a visitor's address is taken


class Refusal(Exception):
    """A request that is answered by a status and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class QueryBody(BaseModel):
    """What asks for a query."""

    model_config = ConfigDict(extra="forbid")
    invite: StrictStr | None = Field(default=None, max_length=200)


class AnswerBody(BaseModel):
    """What brings an answer."""

    model_config = ConfigDict(extra="forbid")
    id: StrictStr = Field(max_length=LONGEST_ID)
    value: StrictInt


class Front:
    """What a worker needs to serve one survey."""

    def __init__(self, store: Store, settings: ServerSettings) -> None:
        self.store, self.settings = store, settings
        self.board = Board(store)
        self.key = SigningKey.of(self.board)
        self.words: Words = self.board.words
        self.desk = Desk(store)
        self.visitors, self.invitations = Limiter(settings.rate), Limiter(max(settings.rate // 2, 1))
        self._about = dumps(
            {
                "name": store.name,
                "title": self.words.title,
                "question": self.words.question,
                "unit": self.words.unit,
                "input": self.words.input,
                "levels": self.words.levels,
                "columns": self.words.to_dict()["columns"],
                "simulated": store.is_simulated,
            }
        )
        self._shown: tuple[float, str] = (0.0, "{}")
        self._exporting, self._published = asyncio.Lock(), b""  # the release of a survey that is closed
        self.streams = 0
        self.is_leaving = False  # then streams end by themselves

    # ---- people ----

    async def query(self, request: Request) -> Response:
        body = await read_body(request, QueryBody)
        if body.invite is not None and not self.invitations.admits(body.invite):
            raise Refusal(429, "This invitation asks too often. Wait a minute and try again.")
        if self.words.invited and body.invite is None:
            raise Refusal(403, "This survey is by invitation: open it by the link that was sent to you.")
        handed = await self._handed(body.invite)
        expires = int(time.time()) + self.words.expiry
        signed = f'{{"expires": {expires}, "query": {handed.query}, "survey": {self._about}}}'
        # The query is JSON already: it is put into the body as it is, not read and written again.
        return Response(
            f'{{"query": {handed.query}, "expires": {expires}, "signed": {dumps(signed)}, '
            f'"signature": "{self.key.sign(signed)}", "answered": {dumps(handed.is_answered)}}}',
            media_type="application/json",
            headers=NO_STORE,
        )

    async def _handed(self, invitation: str | None) -> Handed:
        until = time.monotonic() + POOL_SECONDS
        while True:
            handed = await self._done(lambda session: hand_out(self.desk, session, invitation))
            if handed is not None:
                return handed
            if time.monotonic() >= until:
                raise SurveyError("There is no question ready yet. Try again in a minute.", reason="pool")
            await asyncio.sleep(POOL_PAUSE)

    async def _done(self, work: Callable[[Session], T]) -> T:
        """What comes of something in the next transaction; all that a transaction did is told to the loop at once."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self.desk.submit(work, future, tell=loop.call_soon_threadsafe)
        return await future

    async def answer(self, request: Request) -> Response:
        body = await read_body(request, AnswerBody)
        receipt: Receipt = await self._done(lambda session: self.desk.take(session, body.id, body.value))
        return json_response({"receipt": receipt.receipt, "counted": receipt.is_counted})

    # ---- everyone ----

    async def state(self, request: Request) -> Response:
        shown = await self.picture()
        plain: Plain = {"outstanding": None, "lag": None, **loads(shown)}
        if self._is_admin(request):
            plain |= await asyncio.to_thread(operator_numbers, self.board, self.store)
        return json_response(plain)

    async def picture(self) -> str:
        """The public picture, at most a second old."""
        at, shown = self._shown
        if time.monotonic() > at + STATE_SECONDS:
            found = await asyncio.to_thread(self.board.read, "shown")
            shown = NOTHING_YET if found is None else found
            self._shown = time.monotonic(), shown
        return shown

    async def stream(self, request: Request) -> Response:
        if self.streams >= MOST_STREAMS:
            raise Refusal(503, "Too many are watching here. The page asks again by itself.")
        return StreamingResponse(self._events(request), media_type="text/event-stream", headers=NO_STORE)

    async def _events(self, request: Request) -> AsyncIterator[str]:
        self.streams += 1
        last, at = "", time.monotonic()
        try:
            while not self.is_leaving and not await request.is_disconnected():
                shown = await self.picture()
                if shown != last:
                    last, at = shown, time.monotonic()
                    yield f"data: {shown}\n\n"
                elif time.monotonic() > at + STREAM_SECONDS:
                    at = time.monotonic()
                    yield ": still here\n\n"
                await asyncio.sleep(STATE_SECONDS)
        finally:
            self.streams -= 1

    async def export(self, request: Request) -> Response:
        is_admin, standing = self._is_admin(request), await asyncio.to_thread(self.store.standing)
        if not (is_admin or standing.is_closed):
            raise Refusal(403, "The answers are published when the survey is closed.")
        async with self._exporting:  # one at a time, and the last one once: anybody may ask for it again and again
            data = self._published or await asyncio.to_thread(lambda: export(self.store).to_bytes())
            if standing.is_closed:
                self._published = data
        named = {"Content-Disposition": f'attachment; filename="{self.store.name}.release.json"', **NO_STORE}
        return Response(data, media_type="application/json", headers=named)

    async def health(self, request: Request) -> Response:
        await asyncio.to_thread(self.store.standing)
        return PlainTextResponse("ok\n", headers=NO_STORE)

    # ---- the operator ----

    async def close(self, request: Request) -> Response:
        if not self._is_admin(request):
            raise Refusal(401, "Closing needs the operator's token: Authorization: Bearer ...")
        await asyncio.to_thread(self.desk.close)
        return json_response({"closed": True})

    def _is_admin(self, request: Request) -> bool:
        """Whether the operator asks; a request from another site's page never counts as theirs."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            return False
        if not is_own_origin(request):
            raise Refusal(403, "The operator's acts come from this site's own pages or from no page.")
        if not is_admin(self.board.read("admin"), token.strip()):
            raise Refusal(401, "This is not the operator's token.")
        return True

    # ---- around every handler ----

    def guarded(self, handler: Handler, *, is_open: bool = False) -> Handler:
        """Limits, refusals in sentences, headers; `is_open` for what pages of other origins may call."""

        async def answered(request: Request) -> Response:
            try:
                headers = self._cross_origin(request) if is_open else {}
                if request.method == "OPTIONS":
                    return Response(status_code=204, headers={**headers, **COMMON})
                if request.method == "POST" and not self.visitors.admits(self.address(request)):
                    raise Refusal(429, "Too many requests from this address. Wait a minute and try again.")
                response = await handler(request)
            except Refusal as refusal:
                response = refused(refusal.status, refusal.sentence)
                headers = {"Access-Control-Allow-Origin": "*"} if is_open and refusal.status != 403 else {}
            except SurveyError as error:
                reason = str(error.fields.get("reason"))
                # What went wrong with a store, and where it stands, is for the operator alone.
                response = refused(STATUS[reason], str(error)) if reason in STATUS else refused(503, AWAY)
                headers = self._cross_origin(request) if is_open else {}
            except InvalidArgument as error:
                response = refused(400, str(error))
                headers = self._cross_origin(request) if is_open else {}
            except ClientDisconnect:
                return Response(status_code=400)
            response.raw_headers.extend(encoded({**COMMON, **headers}))  # none of them is there yet
            return response

        return answered

    def address(self, request: Request) -> str:
        """Where a request comes from; a proxy's word is taken only if it is named."""
        host = "" if request.client is None else request.client.host
        if host in self.settings.proxies:
            return request.headers.get("x-forwarded-for", host).rpartition(",")[2].strip()
        return host

    def _cross_origin(self, request: Request) -> dict[str, str]:
        """The headers that let another origin's page read the answer; refused where that is not wanted."""
        allowed = self.settings.origins
        origin = request.headers.get("origin")
        if allowed is not None and origin is not None and origin not in allowed and not is_own_origin(request):
            raise Refusal(403, "This survey is answered from its own page.")
        return {
            "Access-Control-Allow-Origin": "*" if allowed is None or origin is None else origin,
            "Access-Control-Allow-Methods": "POST",
            "Access-Control-Allow-Headers": "Content-Type",
            "Access-Control-Max-Age": "600",
            "Cross-Origin-Resource-Policy": "cross-origin",
            "Vary": "Origin",
        }


NO_STORE = {"Cache-Control": "no-store"}
NOTHING_YET = dumps({"answers": 0, "mean": {}, "sd": {}, "closed": False, "course": []})


def application(front: Front) -> Starlette:
    """The worker's application."""

    @asynccontextmanager
    async def living(_: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(front.desk.leave)

    def page_handler(name: str) -> Handler:
        body = page(name)
        headers = {**page_headers(body), "Vary": "Accept-Encoding"}
        packed, packed_headers = gzip.compress(body, mtime=0), {**headers, "Content-Encoding": "gzip"}

        async def shown(request: Request) -> Response:
            takes_packed = "gzip" in request.headers.get("accept-encoding", "")
            sent = (packed, packed_headers) if takes_packed else (body, headers)
            return Response(sent[0], media_type="text/html; charset=utf-8", headers=sent[1])

        return shown

    async def digest(_: Request) -> Response:
        return PlainTextResponse(f"{page_digest()}  noisewise-respond.html\n", headers=NO_STORE)

    routes = [
        Route("/", front.guarded(page_handler("respond"))),
        Route("/live", front.guarded(page_handler("live"))),
        Route("/page.sha256", front.guarded(digest)),
        Route("/api/query", front.guarded(front.query, is_open=True), methods=["POST", "OPTIONS"]),
        Route("/api/answer", front.guarded(front.answer, is_open=True), methods=["POST", "OPTIONS"]),
        Route("/api/state", front.guarded(front.state)),
        Route("/api/stream", front.guarded(front.stream)),
        Route("/api/export", front.guarded(front.export)),
        Route("/api/close", front.guarded(front.close), methods=["POST"]),
        Route("/healthz", front.guarded(front.health)),
    ]
    return Starlette(routes=routes, lifespan=living)


# ---- requests and responses ----

Body = TypeVar("Body", bound=BaseModel)


async def read_body(request: Request, form: type[Body]) -> Body:
    """A small JSON body of the form; the sentence of a refusal repeats nothing of it."""
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > LARGEST_BODY:
            raise Refusal(413, f"A request has at most {LARGEST_BODY} bytes.")
    try:
        return form.model_validate_json(bytes(data))
    except ValidationError:
        wanted = ", ".join(f'"{name}"' for name in form.model_fields)
        raise Refusal(400, f"The body must be a JSON object with {wanted} and nothing else.") from None


def json_response(plain: Mapping[str, object], status: int = 200) -> Response:
    return Response(dumps(plain), status_code=status, media_type="application/json", headers=NO_STORE)


def encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Headers as they go over the line."""
    return _encoded(tuple(headers.items()))


@lru_cache(maxsize=64)
def _encoded(headers: tuple[tuple[str, str], ...]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]


def refused(status: int, sentence: str) -> Response:
    response = json_response({"error": sentence}, status)
    if status in (429, 503):
        response.headers["Retry-After"] = "5"
    return response


def is_own_origin(request: Request) -> bool:
    """Whether a request comes from this site's own page, or from no page at all."""
    origin = request.headers.get("origin")
    return origin is None or origin.partition("://")[2] == request.headers.get("host")


# ---- pages ----


def page(name: str = "respond") -> bytes:
    """One of the static pages, as its file is."""
    return resources.files(collector).joinpath("pages", f"{name}.html").read_bytes()


def page_digest() -> str:
    """The SHA-256 of the respondent's page."""
    return hashlib.sha256(page()).hexdigest()


def inline_hashes(body: bytes, tag: str) -> list[str]:
    """The hashes by which a content-security policy knows the inline scripts or styles of a page."""
    found = re.findall(rf"<{tag}[^>]*>(.*?)</{tag}>".encode(), body, re.S)
    return [f"'sha256-{b64encode(hashlib.sha256(one).digest()).decode()}'" for one in found]


def page_headers(body: bytes) -> dict[str, str]:
    scripts, styles = (" ".join(inline_hashes(body, tag)) for tag in ("script", "style"))
    policy = (
        f"default-src 'none'; script-src {scripts}; style-src {styles}; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return {"Content-Security-Policy": policy, "Cross-Origin-Resource-Policy": "same-origin", **NO_STORE}
