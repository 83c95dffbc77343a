"""The catalogue of the reasons for refusing or parking a message of registration, each with a remedy."""

from shared.refusals import ReasonCode


class OrderReason(ReasonCode):
    """Why a message of a customer, a shop or a bank is refused."""

    WRONG_QUEUE = "wrong_queue", "its kind belongs on another queue", "have its sender send it to the named queue"
    BAD_ORDER = (
        "bad_order",
        "the order id does not fit its grammar, or is all digits, as the numbers of orders are",
        "send 1 to 100 of a-z, 0-9, dot, underscore and hyphen, a letter or digit first, and one that is no digit",
    )
    BAD_PRICE = (
        "bad_price",
        "a price or an amount is not a number with two digits behind the point",
        'send a string like "500.00", with at most 9 digits before the point',
    )
    BAD_SEATS = ("bad_seats", "a number of seats or a quota is out of range", "send a whole number within its limits")
    TOO_MANY_TYPES = ("too_many_types", "it names more seat types than one message may", "send several messages")
    BAD_ACCESS_CODE = (
        "bad_access_code",
        "the access code is not 8 to 64 visible ASCII characters",
        "send such a code, or none, and Sluice makes one",
    )
    BAD_IDEMPOTENCY_KEY = (
        "bad_idempotency_key",
        "the header Idempotency-Key is not 22 to 128 visible ASCII characters, eight of them different, or has under 128 bits",
        "send 128 random bits, such as a UUID, and the same ones again when you repeat the request",
    )
    BAD_OUTCOME = ("bad_outcome", "the outcome of a payment is not known", "send completed or rejected")
    TOO_MANY_SEATS = (
        "too_many_seats",
        "it wants more seats of one type than an order may have",
        "order fewer, or place several orders",
    )
    UNKNOWN_CONFERENCE = (
        "unknown_conference",
        "there is no such conference",
        "create it by a message of kind conference first",
    )
    UNKNOWN_SEAT_TYPE = (
        "unknown_seat_type",
        "the conference has no such seat type",
        "name one of its types, or add it by a message of kind conference",
    )
    UNKNOWN_ORDER = ("unknown_order", "there is no such order", "place the order first, or check its id")
    QUOTA_DIFFERS = (
        "quota_differs",
        "a seat type has another quota already",
        "send the quota that it has, and change it by add_seats or remove_seats",
    )
    SEATS_TAKEN = (
        "seats_taken",
        "more seats would be removed than are available",
        "remove fewer, or wait until orders give theirs back",
    )
    ID_DIFFERS = (
        "id_differs",
        "its id was used for other content before",
        "send it under another id, or the first content again",
    )
    VERSION_DIFFERS = (
        "version_differs",
        "the order has another version",
        "read the order again, and send its version",
    )
    ORDER_DIFFERS = (
        "order_differs",
        "an order of this id is stored, with other content, or with another access code or Idempotency-Key",
        "send the first content with its code or key again, or use another id",
    )
    SOLD_OUT = (
        "sold_out",
        "the conference has fewer seats left than the order wants",
        "order fewer, or try again later: orders that expire give theirs back",
    )
    MISSING_VERSION = (
        "missing_version",
        "a change names no version of the order",
        "read the order, and send its ETag as If-Match",
    )
    BAD_QUERY = (
        "bad_query",
        "a query parameter is not known, or its value is out of range",
        "send wait as seconds from 0 to 30, and after as a version",
    )
    ORDER_PAID = ("order_paid", "the order is paid or confirmed", "place another order")
    ORDER_REJECTED = ("order_rejected", "the order was rejected", "place another order")
    ORDER_EXPIRED = ("order_expired", "the window of the order is over", "place another order")


class ReplyReason(ReasonCode):
    """Why a reply of seats is parked that no person sent."""

    UNEXPECTED_REPLY = (
        "unexpected_reply",
        "an order's seats answered a command that the order never sent",
        "find out who sent it: the process keeps its state",
    )
