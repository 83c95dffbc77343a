"""HTTP requests about orders, and their answers: pure decisions. `docs/formats.md` has the interface.

An error is a problem of RFC 9457. Its `reason` is a code of the catalogue of reasons, by which programs decide.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

import msgspec

from capabilities.registration.order import OrderPhase, OrderState
from capabilities.registration.order_flows import Placed
from capabilities.registration.reasons import OrderReason
from shared.capability import HttpAnswer
from shared.errors import RefusedError
from shared.refusals import BY_CODE, Reason, ReasonCode, refuse

#: Longer, and a proxy between would give up.
LONGEST_WAIT: Final = 30.0
#: The shortest and the longest pause between two reads of a request that waits.
_FIRST_PAUSE, _LAST_PAUSE = 0.1, 1.6
#: A request first reads when this part of the usual time is over. What comes a little later is then found by the second read.
_EARLY: Final = 0.75
#: How much of the usual time is that of the newest request.
_NEWEST: Final = 0.25
#: Phases that an order leaves by itself. A request that waits for no version waits for their end.
_OPEN_PHASES: Final = frozenset({OrderPhase.HELD, OrderPhase.PLACED})
_VERSION: Final = re.compile(r'"([1-9][0-9]{0,9})"')
_NUMBER: Final = re.compile(r"[0-9]{1,10}")
_SECONDS: Final = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3})?")
_PROBLEM: Final = "application/problem+json"
#: The status of a wrong code, of an unknown order and of an unknown conference, and that of an id that is taken.
UNKNOWN, CONFLICT = 404, 409
_BY_CODE: Final[Mapping[str, ReasonCode]] = BY_CODE | {reason.value: reason for reason in OrderReason}
#: Status by reason. Any other refusal is 400: the request is wrong as it stands.
_STATUS: Final[Mapping[str, int]] = {
    Reason.MESSAGE_TOO_LARGE: 413,
    OrderReason.UNKNOWN_ORDER: UNKNOWN,
    # The view of a conference is a moment younger than the conference, so the same request may pass later.
    OrderReason.UNKNOWN_CONFERENCE: CONFLICT,
    OrderReason.UNKNOWN_SEAT_TYPE: CONFLICT,
    OrderReason.SOLD_OUT: CONFLICT,
    OrderReason.ORDER_DIFFERS: CONFLICT,
    OrderReason.ORDER_PAID: CONFLICT,
    OrderReason.ORDER_REJECTED: CONFLICT,
    OrderReason.ORDER_EXPIRED: 410,
    OrderReason.VERSION_DIFFERS: 412,
    OrderReason.MISSING_VERSION: 428,
}


@dataclass(frozen=True, slots=True)
class Wait:
    """The time for which a request holds its answer back, and the version that ends it."""

    seconds: float = 0.0
    #: A version that is not new enough. None: it waits until the order is answered.
    after: int | None = None

    def is_over(self, order: OrderState) -> bool:
        """Check whether the order is what the request waits for."""
        return order.version > self.after if self.after is not None else order.phase not in _OPEN_PHASES

    def pauses(self, usual: float = 0.0) -> Sequence[float]:
        """Return the pauses before each further read. Their sum is the time to wait.

        `usual` is the time that such requests lately took. Before it, a read mostly finds nothing new.
        """
        first = min(max(_FIRST_PAUSE, _EARLY * usual), _LAST_PAUSE, self.seconds)
        found, left, pause = [first] if first else [], self.seconds - first, max(2 * _FIRST_PAUSE, first / 2)
        while left > 0:
            # A last read that follows closely on another one would find the same.
            found.append(left if left < 1.5 * pause else pause)
            left, pause = left - found[-1], min(2 * pause, _LAST_PAUSE)
        return found


def next_usual(usual: float, took: float, reads: int) -> float:
    """Return the usual time of a request that waits, after one that took so long and so many reads."""
    # The first read found it: the order may have been answered long before. A wait for a gate tells little of the others.
    return usual / 2 if reads == 1 else usual + _NEWEST * (min(took, _LAST_PAUSE / _EARLY) - usual)


def read_wait(query: Mapping[str, str]) -> Wait:
    """Return the wait of a request, or refuse a query that says something else."""
    for name in query:
        if name not in {"wait", "after", "code"}:
            raise refuse(OrderReason.BAD_QUERY, f"it has the parameter {name[:50]!r}")
    seconds, after = query.get("wait", "0"), query.get("after")
    if not _SECONDS.fullmatch(seconds) or float(seconds) > LONGEST_WAIT:
        raise refuse(OrderReason.BAD_QUERY, f"wait is {seconds[:50]!r}, expected 0 to {LONGEST_WAIT:g}")
    if after is not None and not _NUMBER.fullmatch(after):
        raise refuse(OrderReason.BAD_QUERY, f"after is {after[:50]!r}, expected a version")
    return Wait(float(seconds), None if after is None else int(after))


def read_if_match(text: str | None) -> int:
    """Return the version that a change is made on, or refuse a request without one."""
    found = _VERSION.fullmatch((text or "").strip())
    if found is None:
        raise refuse(OrderReason.MISSING_VERSION, f"If-Match is {text[:50]!r}" if text else "it has no If-Match")
    return int(found[1])


def is_unchanged(if_none_match: str | None, version: int) -> bool:
    """Check whether the client has this version already. Weak ETags are compared too, as HTTP has it."""
    tags = [tag.strip().removeprefix("W/") for tag in (if_none_match or "").split(",")]
    return _etag(version) in tags or "*" in tags


def answer_placed(placed: Placed) -> HttpAnswer:
    """Return the answer to a new order, and to the same request again."""
    link = _link(placed.order)
    body = {
        "order": placed.order,
        "number": placed.number,
        "access_code": placed.access_code,
        "total": _amount(placed.total),
        "status": link,
    }
    return _answer(202, body, {"Location": link, "Cache-Control": "no-store"})


def answer_changed(order: str, seats: Mapping[str, int], version: int) -> HttpAnswer:
    """Return the answer to a change, and to the same request again: the version is that of the change itself."""
    link = _link(order)
    return _answer(202, {"order": order, "requested": seats, "version": version, "status": link}, {"Location": link})


def answer_order(order: OrderState, if_none_match: str | None) -> HttpAnswer:
    """Return an order, or that the client has it already."""
    # Only the client itself may keep it, and it asks again each time.
    headers = {"ETag": _etag(order.version), "Cache-Control": "private, no-cache"}
    if is_unchanged(if_none_match, order.version):
        return HttpAnswer(304, b"", headers)
    return _answer(200, describe_order(order), headers)


def describe_order(order: OrderState) -> dict[str, Any]:
    """Return an order as JSON has it, for customers and for operators."""
    unsettled = [
        {"id": one.id, "amount": _amount(one.amount), "reason": one.reason, "at": msgspec.to_builtins(one.at)}
        for one in order.unsettled
    ]
    return {
        "order": order.order,
        "number": order.number,
        "conference": order.conference,
        "state": order.phase.value,
        "requested": dict(order.requested),
        "reserved": dict(order.reserved),
        "total": _amount(order.total),
        "paid": None if order.paid is None else _amount(order.paid.amount),
        "unsettled": unsettled,
        "reason": order.reason or None,
        "expires_at": msgspec.to_builtins(order.expires_at),
        "version": order.version,
    }


def answer_conference(
    conference: str, seats: Mapping[str, Any], version: int, keep: timedelta, if_none_match: str | None
) -> HttpAnswer:
    """Return a conference, or that the client has it already. `keep`: the time for which caches may keep the answer."""
    seconds = int(keep.total_seconds())
    control = f"public, max-age={seconds}" if seconds else "no-cache"
    headers = {"ETag": _etag(version), "Cache-Control": control}
    if is_unchanged(if_none_match, version):
        return HttpAnswer(304, b"", headers)
    shown = {
        name: {"price": _amount(one.price), "quota": one.quota, "remaining": one.remaining}
        for name, one in sorted(seats.items())
    }
    return _answer(200, {"conference": conference, "seats": shown, "version": version}, headers)


def answer_unknown_order() -> HttpAnswer:
    """Return the one answer to a wrong code and to an unknown order."""
    return _problem(UNKNOWN, OrderReason.UNKNOWN_ORDER, "no order has this id or number and this access code")


def answer_unknown_conference() -> HttpAnswer:
    """Return the answer about a conference that does not exist, or is not in the view yet."""
    return _problem(UNKNOWN, OrderReason.UNKNOWN_CONFERENCE, "no conference has this id")


def answer_refused(refused: RefusedError, free: Mapping[str, int] | None = None) -> HttpAnswer:
    """Return the answer to a request that cannot pass as it stands. `free`: what could be had instead."""
    reason = _BY_CODE[refused.reason]
    more = {} if free is None else {"free": free}
    return _problem(_STATUS.get(reason, 400), reason, f"{refused.found}; {refused.instead}", more)


def answer_sold_out(conference: str, wanted: Mapping[str, int], free: Mapping[str, int]) -> HttpAnswer:
    """Return the answer to an order for more seats than are left."""
    wants, has = (", ".join(f"{number} of {name!r}" for name, number in seats.items()) for seats in (wanted, free))
    return answer_refused(refuse(OrderReason.SOLD_OUT, f"it wants {wants}, conference {conference!r} has {has}"), free)


def answer_unavailable() -> HttpAnswer:
    """Return the answer while storage gives none. The request may have taken effect: the same one again finds out."""
    body = {
        "type": "about:blank",
        "title": "Service Unavailable",
        "status": 503,
        "detail": "storage gave no answer, and the request may have taken effect; send the same request again",
        "reason": "unavailable",
    }
    return _answer(503, body, {"Retry-After": "2", "Content-Type": _PROBLEM, "Cache-Control": "no-store"})


def _problem(status: int, reason: ReasonCode, detail: str, more: Mapping[str, Any] | None = None) -> HttpAnswer:
    body = {
        "type": f"urn:sluice:reason:{reason.value}",
        "title": reason.means,
        "status": status,
        "detail": detail,
        "reason": reason.value,
        **(more or {}),
    }
    return _answer(status, body, {"Content-Type": _PROBLEM, "Cache-Control": "no-store"})


def _answer(status: int, body: Mapping[str, Any], headers: Mapping[str, str]) -> HttpAnswer:
    return HttpAnswer(status, msgspec.json.encode(body), {"Content-Type": "application/json", **headers})


def _link(order: str) -> str:
    return f"/api/orders/{order}"


def _etag(version: int) -> str:
    return f'"{version}"'


def _amount(amount: Decimal) -> str:
    return f"{amount:.2f}"
