"""What requests say and what is answered, without any storage: ETags, waiting, problems, and the bodies."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from capabilities.registration import http
from capabilities.registration.conference_views import SeatTypeView
from capabilities.registration.order import OrderPhase, OrderState, UnsettledPayment
from capabilities.registration.reasons import OrderReason
from shared.errors import RefusedError
from shared.refusals import Reason, refuse

AT = datetime(2026, 11, 22, 12, 30, tzinfo=UTC)
ORDER = OrderState(
    order="o-1",
    number=17,
    conference="conf",
    phase=OrderPhase.PLACED,
    requested={"seat": 3},
    prices={"seat": Decimal("500.00")},
    expires_at=AT,
    total=Decimal("1500.00"),
    version=4,
)


def body(answer):
    """Return the document of an answer."""
    return json.loads(answer.body)


@pytest.mark.parametrize(
    ("text", "version"), [('"1"', 1), (' "42" ', 42), ('"2147483647"', 2**31 - 1), ('"9999999999"', 9_999_999_999)]
)
def test_a_change_names_the_version_that_it_is_made_on(text, version):
    """As the ETag of the order said it."""
    assert http.read_if_match(text) == version


@pytest.mark.parametrize("text", [None, "", "*", "1", 'W/"1"', '"0"', '"1", "2"', '"-1"', '"x"', '"1', '"٣"', '""'])
def test_a_change_without_one_exact_version_is_refused(text):
    """`*` would overwrite what the customer has not seen."""
    with pytest.raises(RefusedError) as refused:
        http.read_if_match(text)
    assert http.answer_refused(refused.value).status == 428


@pytest.mark.parametrize(
    ("given", "same"),
    [(None, False), ("", False), ('"4"', True), ('W/"4"', True), ('"1", "4"', True), ("*", True), ('"44"', False)],
)
def test_what_the_client_has_is_not_sent_again(given, same):
    """304 without a body, with the ETag."""
    answer = http.answer_order(ORDER, given)
    assert (answer.status == 304) is same
    assert (answer.body == b"") is same
    assert answer.headers["ETag"] == '"4"'


def test_an_order_is_shown_as_formats_says():
    """Amounts are text with two digits, times are UTC."""
    paid = UnsettledPayment("p", Decimal("7.50"), "amount_differs", AT)
    answer = http.answer_order(ORDER, None)
    assert body(answer) == {
        "order": "o-1",
        "number": 17,
        "conference": "conf",
        "state": "placed",
        "requested": {"seat": 3},
        "reserved": {},
        "total": "1500.00",
        "paid": None,
        "unsettled": [],
        "reason": None,
        "expires_at": "2026-11-22T12:30:00Z",
        "version": 4,
    }
    assert answer.headers["Cache-Control"] == "private, no-cache"
    unsettled = body(http.answer_order(_with(unsettled=(paid,)), None))["unsettled"]
    assert unsettled == [{"id": "p", "amount": "7.50", "reason": "amount_differs", "at": "2026-11-22T12:30:00Z"}]


def _with(**changes):
    return replace(ORDER, **changes)


@pytest.mark.parametrize(
    ("query", "seconds", "after"),
    [({}, 0, None), ({"wait": "5"}, 5, None), ({"wait": "0.5", "after": "3"}, 0.5, 3), ({"code": "key"}, 0, None)],
)
def test_a_request_may_wait(query, seconds, after):
    """`code` is the host's: the function key."""
    assert http.read_wait(query) == http.Wait(seconds, after)


@pytest.mark.parametrize(
    "query",
    [
        *({"wait": text} for text in ("31", "-1", "x", "1e1", "nan", "", "5 ", "0.0001")),
        *({"after": text} for text in ("-1", "x", "1.0", "12345678901", "")),
        {"wiat": "5"},
    ],
)
def test_a_query_that_says_something_else_is_refused(query):
    """A misspelt parameter would wait for nothing, in silence."""
    with pytest.raises(RefusedError) as refused:
        http.read_wait(query)
    assert refused.value.reason == OrderReason.BAD_QUERY
    assert http.answer_refused(refused.value).status == 400


def test_a_wait_of_five_seconds_takes_six_reads():
    """They cost the same as one customer who asks six times; their sum is what was asked for."""
    pauses = http.Wait(5.0).pauses()
    assert len(pauses) == 6
    assert pauses[:5] == [0.1, 0.2, 0.4, 0.8, 1.6]
    assert sum(pauses) == pytest.approx(5.0)
    assert http.Wait(0.0).pauses() == []
    assert sum(http.Wait(http.LONGEST_WAIT).pauses()) == pytest.approx(http.LONGEST_WAIT)


@pytest.mark.parametrize("usual", [0.05, 0.8, 2.0, 60.0])
@pytest.mark.parametrize("seconds", [0.05, 0.7, 5.0, 30.0])
def test_a_request_does_not_read_long_before_the_usual_time(usual, seconds):
    """What lately took a second is not read after a tenth. The sum stays what was asked for, and so does the last read."""
    pauses = http.Wait(seconds).pauses(usual)
    assert sum(pauses) == pytest.approx(seconds)
    assert pauses[0] == pytest.approx(min(max(0.1, 0.75 * usual), 1.6, seconds))
    assert len(pauses) <= len(http.Wait(seconds).pauses())


def test_the_usual_time_follows_the_answers_up_and_down():
    """Answers that take longer move it up, ones that the first read finds down again. A gate does not move it far."""
    usual = 0.0
    for _ in range(20):
        usual = http.next_usual(usual, 0.8, reads=2)
    assert usual == pytest.approx(0.8, rel=0.05)
    assert http.next_usual(usual, 25.0, reads=9) < 1.2
    for _ in range(4):
        usual = http.next_usual(usual, 0.6, reads=1)
    assert http.Wait(5.0).pauses(usual)[0] == 0.1


@pytest.mark.parametrize("phase", list(OrderPhase))
def test_a_request_without_a_version_waits_until_the_order_is_answered(phase):
    """Placed and held are left without the customer."""
    is_open = phase in {OrderPhase.HELD, OrderPhase.PLACED}
    assert http.Wait(5).is_over(_with(phase=phase)) is not is_open


def test_a_request_with_a_version_waits_for_a_newer_one():
    """Whatever the order's phase is."""
    assert [http.Wait(5, after).is_over(ORDER) for after in (3, 4, 5)] == [True, False, False]


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        (Reason.NOT_JSON, 400),
        (OrderReason.BAD_ACCESS_CODE, 400),
        (OrderReason.TOO_MANY_SEATS, 400),
        (Reason.MESSAGE_TOO_LARGE, 413),
        (OrderReason.UNKNOWN_ORDER, 404),
        (OrderReason.UNKNOWN_CONFERENCE, 409),
        (OrderReason.SOLD_OUT, 409),
        (OrderReason.ORDER_DIFFERS, 409),
        (OrderReason.ORDER_PAID, 409),
        (OrderReason.ORDER_REJECTED, 409),
        (OrderReason.ORDER_EXPIRED, 410),
        (OrderReason.VERSION_DIFFERS, 412),
        (OrderReason.MISSING_VERSION, 428),
    ],
)
def test_a_refusal_is_a_problem_with_its_reason(reason, status):
    """Programs decide by the reason, people read the detail."""
    answer = http.answer_refused(refuse(reason, "this was found"))
    assert (answer.status, answer.headers["Content-Type"]) == (status, "application/problem+json")
    assert answer.headers["Cache-Control"] == "no-store"
    said = body(answer)
    assert said == {
        "type": f"urn:sluice:reason:{reason.value}",
        "title": reason.means,
        "status": status,
        "detail": f"this was found; {reason.instead}",
        "reason": reason.value,
    }


def test_a_refusal_for_lack_of_seats_says_what_is_left():
    """So that the customer can order that."""
    assert body(http.answer_refused(refuse(OrderReason.SOLD_OUT, "few"), {"seat": 2}))["free"] == {"seat": 2}


def test_an_answer_that_may_be_repeated_says_so():
    """503, and when to come again."""
    answer = http.answer_unavailable()
    assert (answer.status, answer.headers["Retry-After"]) == (503, "2")
    assert body(answer)["reason"] == "unavailable"


@pytest.mark.parametrize(
    ("keep", "control"),
    [(300, "public, max-age=300"), (19.9, "public, max-age=19"), (0.4, "no-cache"), (0, "no-cache")],
)
def test_a_conference_may_be_kept_for_as_long_as_is_left(keep, control):
    """Rounded down: nobody keeps it longer than the ladder says."""
    seats = {"b": SeatTypeView(Decimal("9.90"), 5, 0), "a": SeatTypeView(Decimal("500.00"), 20, 7)}
    answer = http.answer_conference("conf", seats, 3, timedelta(seconds=keep), None)
    assert answer.headers["Cache-Control"] == control
    assert body(answer) == {
        "conference": "conf",
        "seats": {
            "a": {"price": "500.00", "quota": 20, "remaining": 7},
            "b": {"price": "9.90", "quota": 5, "remaining": 0},
        },
        "version": 3,
    }
    assert http.answer_conference("conf", seats, 3, timedelta(), '"3"').status == 304
