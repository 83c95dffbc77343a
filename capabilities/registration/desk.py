"""Answers customers: reads the request, checks the access code, calls the flow, and waits where they request it.

Waiting takes no thread. What asks storage runs on threads of its own. The Functions worker has only a few, and requests
that held them would hold up all functions of the instance.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import timedelta
from functools import partial
from typing import Final, TypeVar

import msgspec

from capabilities.registration import http
from capabilities.registration.access_codes import AccessCodes, derive_code, read_idempotency_key
from capabilities.registration.conference_views import ConferenceViews, OrderViews, read_number
from capabilities.registration.http import Wait
from capabilities.registration.order import OrderState
from capabilities.registration.order_flows import OrderFlows
from capabilities.registration.public_messages import PlaceOrder, content_hash, read_change, read_place_order
from capabilities.registration.reasons import OrderReason
from shared.azure import Cause, because
from shared.capability import HttpAnswer
from shared.clock import Clock
from shared.errors import (
    ConflictError,
    ContentionError,
    NotPublishedError,
    RefusedError,
    StorageUnavailableError,
)
from shared.grammar import NAME
from shared.payload import Limits
from shared.processes import Fields

T = TypeVar("T")
#: The request may have taken effect, or lost to others. The same one again finds out.
_UNCLEAR: Final = (StorageUnavailableError, ConflictError, ContentionError, NotPublishedError)
#: The header of a customer's access code.
ACCESS_CODE_HEADER: Final = "X-Access-Code"
#: The header by which a request without a code can be repeated: 128 random bits of the customer's.
IDEMPOTENCY_KEY_HEADER: Final = "Idempotency-Key"
#: Requests to storage of one instance at a time that come from customers.
THREADS: Final = 8
#: Requests of one instance that wait. A further one is answered at once.
MOST_WAITING: Final = 64
#: A wrong code is answered no sooner, for every order alike. It also slows down a caller that tries many.
REFUSED_AFTER: Final = timedelta(milliseconds=250)
#: Random bytes that a code is derived from where its request has no key.
_DRAWN: Final = 32
#: A conference is shown from memory for as long as the ladder allows.
_ANY_AGE: Final = timedelta.max


class OrderDesk:
    """Answers the requests of customers. One per process."""

    def __init__(  # noqa: PLR0913 - the flows, the views, and what checks a customer
        self,
        flows: OrderFlows,
        orders: OrderViews,
        conferences: ConferenceViews,
        codes: AccessCodes,
        find_fields: Callable[[str], Fields | None],
        *,
        clock: Clock,
        note_wrong: Callable[[], object],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        draw: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """Take what answers. `find_fields` returns the fields of the head of an order's home, in one request.

        `note_wrong` counts a wrong access code. `draw` returns so many random bytes.
        """
        self._draw = draw
        self._flows, self._orders, self._conferences = flows, orders, conferences
        self._codes, self._find_fields, self._clock, self._sleep = codes, find_fields, clock, sleep
        self._note_wrong = note_wrong
        self._limits = Limits()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="customer")
        #: Changed by the event loop alone, as the seconds that an order lately took until it was answered.
        self._waiting, self._usual = 0, 0.0

    def close(self) -> None:
        """End the threads, once what they do is done."""
        self._pool.shutdown()

    async def place(self, body: bytes, key: str | None = None) -> HttpAnswer:
        """Answer a new order. `key` is the header `Idempotency-Key` of its request."""
        began = self._clock.monotonic()
        return await self._hold_back(began, await self._answer(lambda: self._place(body, key)))

    async def change(self, order: str, code: str, if_match: str | None, body: bytes) -> HttpAnswer:
        """Answer a change of an order's seats."""
        began = self._clock.monotonic()
        return await self._hold_back(began, await self._answer(lambda: self._change(order, code, if_match, body)))

    async def show(self, order: str, code: str, if_none_match: str | None, query: Mapping[str, str]) -> HttpAnswer:
        """Answer what an order is, by its id or its number."""
        began = self._clock.monotonic()
        try:
            wait = http.read_wait(query)
        except RefusedError as refused:
            return http.answer_refused(refused)
        found: OrderState | None = None

        def look() -> HttpAnswer:
            nonlocal found
            found = self._open(order, code, wait)
            return http.answer_order(found, if_none_match) if found else http.answer_unknown_order()

        answer = await self._hold_back(began, await self._answer(look))
        return await self._wait(found, wait, if_none_match) if found and not wait.is_over(found) else answer

    async def show_conference(self, conference: str, if_none_match: str | None) -> HttpAnswer:
        """Answer which seats a conference has left."""
        return await self._answer(lambda: self._show_conference(conference, if_none_match))

    def _place(self, body: bytes, key: str | None) -> HttpAnswer:
        order, code = self._read_order(body, key)
        if free := self._free_for(order):
            fields = self._find_fields(order.order)
            # The same request of an order that is stored gets its answer again, also when no seat is left now. With a wrong
            # code nothing tells that there is one.
            if not self._codes.verify(order.order, code, lambda: fields):
                if fields:
                    self._note_wrong()
                return http.answer_sold_out(order.conference, order.seats, free)
        try:
            placed = self._flows.place(order)
        except RefusedError as refused:
            if refused.reason == OrderReason.ORDER_DIFFERS:
                self._note_wrong()
            raise
        # Its customer looks next, mostly at this instance.
        self._codes.remember(placed.order, placed.access_code)
        if placed.made:
            self._orders.remember(placed.made)
        return http.answer_placed(placed)

    def _read_order(self, body: bytes, key: str | None) -> tuple[PlaceOrder, str]:
        """Return the order with its code: the sender's own, one by the key of the request, or one drawn for this answer."""
        order, idempotency = read_place_order(body, self._limits), read_idempotency_key(key)
        if isinstance(order.access_code, str):
            return order, order.access_code
        code = derive_code(idempotency or self._draw(_DRAWN), order.order, content_hash(order))
        return msgspec.structs.replace(order, access_code=code), code

    def _free_for(self, order: PlaceOrder) -> dict[str, int]:
        """Return the numbers of seats that are left, if they are too few for an order that starts at once."""
        if order.gate is not None:
            return {}
        return self._conferences.decide(order.conference, lambda view: view.short_of(order.seats) if view else {})

    def _change(self, order: str, code: str, if_match: str | None, body: bytes) -> HttpAnswer:
        version, seats = http.read_if_match(if_match), read_change(body, self._limits)
        if not self._is_opened(order, code):
            return http.answer_unknown_order()
        try:
            return http.answer_changed(order, seats, self._flows.change(order, version, seats))
        finally:
            # Also where the answer is unclear, it may have changed.
            self._orders.forget(order)

    def _open(self, order: str, code: str, wait: Wait) -> OrderState | None:
        """Return the order, if the code opens it. One that waits and was stored just now is read when it has waited."""
        found = self._find(order) if read_number(order) is not None else None
        # An unknown number takes the same requests: no order is called like one.
        name = found.order if found else order
        if not self._is_opened(name, code):
            return None
        new = self._orders.find_new(name) if wait.seconds else None
        return found or (new.order if new and not wait.is_over(new.order) else self._find(order))

    def _is_opened(self, order: str, code: str) -> bool:
        is_opened = self._codes.verify(order, code, lambda: self._find_fields(order) if NAME.fullmatch(order) else None)
        if not is_opened:
            self._note_wrong()
        return is_opened

    def _find(self, order: str) -> OrderState | None:
        view = self._orders.look_up(order)
        return view.order if view else None

    async def _wait(self, found: OrderState, wait: Wait, if_none_match: str | None) -> HttpAnswer:
        """Read the order again until it is what the request waits for, or the time is over."""
        if self._waiting < MOST_WAITING:
            self._waiting += 1
            # A payment, which a version may be awaited for, takes its own time.
            began, is_usual = self._clock.monotonic(), wait.after is None
            name, pauses = found.order, wait.pauses(self._usual if is_usual else 0.0)
            try:
                for number, pause in enumerate(pauses, 1):
                    await self._sleep(pause)
                    # An order that has no row yet was just read from its home, which costs more: only the last check does so.
                    look = self._orders.find if number == len(pauses) else self._orders.find_row
                    with because(Cause.IDLE):
                        newer = await self._run(partial(look, name))
                    # The home may be ahead of the row.
                    found = newer.order if newer and newer.order.version >= found.version else found
                    if wait.is_over(found):
                        took = self._clock.monotonic() - began
                        self._usual = http.next_usual(self._usual, took, number) if is_usual else self._usual
                        break
            except _UNCLEAR:
                return http.answer_unavailable()
            finally:
                self._waiting -= 1
        return http.answer_order(found, if_none_match)

    def _show_conference(self, conference: str, if_none_match: str | None) -> HttpAnswer:
        answer = self._conferences.find(conference, _ANY_AGE) if NAME.fullmatch(conference) else None
        if answer is None or answer.value is None:
            return http.answer_unknown_conference()
        view = answer.value
        return http.answer_conference(conference, view.seats, view.version, answer.left, if_none_match)

    async def _hold_back(self, began: float, answer: HttpAnswer) -> HttpAnswer:
        """Hold back what a wrong code may have caused, and every answer that is alike: its time then says nothing."""
        if answer.status in {http.UNKNOWN, http.CONFLICT}:
            await self._sleep(max(0.0, began + REFUSED_AFTER.total_seconds() - self._clock.monotonic()))
        return answer

    async def _answer(self, act: Callable[[], HttpAnswer]) -> HttpAnswer:
        try:
            return await self._run(act)
        except RefusedError as refused:
            return http.answer_refused(refused)
        except _UNCLEAR:
            return http.answer_unavailable()

    async def _run(self, act: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, copy_context().run, act)
