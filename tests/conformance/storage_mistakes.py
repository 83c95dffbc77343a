"""Mistakes that a storage service may make, each with the property that it breaks."""

import json
import re
from dataclasses import replace
from datetime import timedelta
from email.utils import format_datetime, parsedate_to_datetime

from tests.conformance.storage_proxy import Reply

_ROW = re.compile(rb"\{[^{}]*\}")


def _is(one, service, method="", **query):
    return (
        one.service == service
        and method in {"", one.method}
        and all(one.query.get(name) == value for name, value in query.items())
    )


def _lacking(service, *names):
    """Requests of the service lose these headers."""

    def mistake(one, forward):
        return forward(one.without(*names) if one.service == service else one)

    return mistake


def _overwrites(one, forward):
    is_new = _is(one, "blob", "PUT") and one.headers.get("if-none-match") == "*"
    return forward(one.without("if-none-match") if is_new else one)


def _sends_again(one, forward):
    return forward(one.without("if-none-match") if _is(one, "blob", "GET") else one)


def _one_tag(service):
    def mistake(one, forward):
        reply = forward(one)
        return reply.saying(etag='"0x1"') if one.service == service and "etag" in reply.headers else reply

    return mistake


def _lists_backwards(one, forward):
    reply = forward(one)
    if not _is(one, "blob", "GET", comp="list"):
        return reply
    blobs = re.findall(rb"<Blob>.*?</Blob>", reply.body, re.DOTALL)
    if not blobs:
        return reply
    return reply._replace(body=reply.body.replace(b"".join(blobs), b"".join(reversed(blobs))))


def _lists_first_page(one, forward):
    return forward(one.asking(marker=None) if _is(one, "blob", "GET", comp="list") else one)


def _deletes_all(one, forward):
    if not _is(one, "blob", "POST", comp="batch"):
        return forward(one)
    # Azurite refuses the parts of a batch that have a signature in their address, so each one is sent by itself.
    names = re.findall(rb"DELETE ([^ ?]+)", one.body)
    query = {name: value for name, value in one.query.items() if name != "comp"}
    for name in names:
        forward(replace(one.without("content-type"), method="DELETE", path=name.decode(), query=query, body=b""))
    part = b"--reply\r\nContent-Type: application/http\r\nContent-ID: %d\r\n\r\nHTTP/1.1 202 Accepted\r\n\r\n\r\n"
    body = b"".join(part % number for number in range(len(names))) + b"--reply--\r\n"
    return Reply(202, {"content-type": "multipart/mixed; boundary=reply"}, body)


def _leases_twice(one, forward):
    reply = forward(one)
    if _is(one, "blob", "PUT", comp="lease") and reply.status == 409:
        return reply._replace(status=201, body=b"").saying(x_ms_lease_id="00000000-0000-0000-0000-000000000000")
    return reply


def _leases_for_good(one, forward):
    if "x-ms-lease-duration" in one.headers:
        one = replace(one, headers={**one.headers, "x-ms-lease-duration": "-1"})
    return forward(one)


def _writes_leased(one, forward):
    reply = forward(one)
    if _is(one, "blob", "PUT") and reply.status == 412 and b"Lease" in reply.body:
        return reply._replace(status=201, body=b"").saying(etag='"0x1"')
    return reply


def _is_batch(one):
    return one.service == "table" and one.path.endswith("$batch")


def _rows_of(one):
    """Yield each row of a batch."""
    for row in _ROW.findall(one.body):
        yield json.loads(row)


def _insert(one, row, forward, table):
    path = one.path.replace("$batch", table)
    headers = {**one.headers, "content-type": "application/json"}
    return forward(replace(one, method="POST", path=path, headers=headers, body=json.dumps(row).encode()))


def _table_of(one):
    return re.search(rb"POST [^ ]*/(\w+)[? ]", one.body).group(1).decode()


def _writes_row_by_row(one, forward):
    reply = forward(one)
    if _is_batch(one):
        for row in _rows_of(one):
            _insert(one, row, forward, _table_of(one))
    return reply


def _replaces_at_insert(one, forward):
    if _is(one, "table", "POST") and not _is_batch(one) and not one.path.endswith("Tables"):
        row = json.loads(one.body)
        path = f"{one.path}(PartitionKey='{row['PartitionKey']}',RowKey='{row['RowKey']}')"
        return forward(replace(one, method="PUT", path=path))
    return forward(one)


def _any_row_tag(one, forward):
    if one.service == "table" and "if-match" in one.headers:
        one = replace(one, headers={**one.headers, "if-match": "*"})
    if _is_batch(one):
        one = replace(one, body=re.sub(rb"(?i)if-match: [^\r\n]*", b"If-Match: *", one.body))
    return forward(one)


def _as_method(method, other):
    def mistake(one, forward):
        is_row = one.service == "table" and one.method == method and "RowKey=" in one.path.replace("%3D", "=")
        return forward(replace(one, method=other) if is_row else one)

    return mistake


def _is_query(one):
    return _is(one, "table", "GET") and "$filter" in one.query


def _rows_backwards(one, forward):
    reply = forward(one)
    if not _is_query(one):
        return reply
    document = json.loads(reply.body)
    return reply._replace(body=json.dumps({**document, "value": document["value"][::-1]}).encode())


def _one_page(one, forward):
    reply = forward(one)
    return reply._replace(headers={k: v for k, v in reply.headers.items() if not k.startswith("x-ms-continuation")})


def _every_field(one, forward):
    return forward(one.asking(**{"$select": None}) if _is_query(one) else one)


def _whole_partition(one, forward):
    return forward(one.asking(**{"$filter": one.query["$filter"].split(" and ")[0]}) if _is_query(one) else one)


def _yesterday(one, forward):
    reply = forward(one)
    moment = parsedate_to_datetime(reply.headers["date"]) - timedelta(days=1)
    return reply.saying(date=format_datetime(moment, usegmt=True))


def _is_take(one):
    return _is(one, "queue", "GET") and one.path.endswith("/messages") and "peekonly" not in one.query


def _stays_visible(one, forward):
    reply = forward(one)
    if _is_take(one) and (
        found := re.search(rb"<MessageId>(.*?)</MessageId>.*<PopReceipt>(.*?)</PopReceipt>", reply.body)
    ):
        message, receipt = (part.decode() for part in found.groups())
        query = {name: value for name, value in one.query.items() if name.startswith("s")}
        query |= {"popreceipt": receipt, "visibilitytimeout": "0"}
        forward(replace(one, method="PUT", path=f"{one.path}/{message}", query=query))
    return reply


def _taken_for_good(one, forward):
    return forward(one.asking(visibilitytimeout="604800") if _is_take(one) else one)


def _counts_one(one, forward):
    reply = forward(one)
    return reply._replace(body=re.sub(rb"<DequeueCount>\d+", b"<DequeueCount>1", reply.body))


def _any_receipt(one, forward):
    reply = forward(one)
    if one.service == "queue" and "popreceipt" in one.query and reply.status in {400, 404}:
        return reply._replace(status=204, body=b"").saying(
            x_ms_popreceipt="x", x_ms_time_next_visible=reply.headers["date"]
        )
    return reply


def _counts_low(one, forward):
    reply, name = forward(one), "x-ms-approximate-messages-count"
    if name not in reply.headers:
        return reply
    return reply._replace(headers={**reply.headers, name: str(int(reply.headers[name]) - 1)})


def _no_delay(one, forward):
    return forward(one.asking(visibilitytimeout=None) if _is(one, "queue", "POST") else one)


def _ends_all(one, forward):
    return forward(one.asking(messagettl=None) if _is(one, "queue", "POST") else one)


def _peek_takes(one, forward):
    return forward(one.asking(peekonly=None) if _is(one, "queue", "GET") else one)


def _too_many_rows(one, forward):
    reply = forward(one)
    if _is_batch(one) and len(rows := list(_rows_of(one))) > 100:
        for row in rows:
            _insert(one, row, forward, _table_of(one))
    return reply


#: What it does wrong: the property that a run must find broken, and the mistake.
STORAGE = {
    "a blob is overwritten at If-None-Match": ("blob.insert", _overwrites),
    "ETags of blobs are ignored": ("blob.condition", _lacking("blob", "if-match")),
    "a blob keeps its ETag": ("blob.etag", _one_tag("blob")),
    "an unchanged blob is sent again": ("blob.unchanged", _sends_again),
    "ranges are ignored": ("blob.range", _lacking("blob", "range", "x-ms-range")),
    "a listing is unordered": ("blob.listing", _lists_backwards),
    "a listing begins anew at each page": ("blob.listing", _lists_first_page),
    "a batch deletes whatever the ETag": ("blob.batch", _deletes_all),
    "a lease is given twice": ("blob.lease", _leases_twice),
    "a leased blob is written": ("blob.lease", _writes_leased),
    "a lease never ends": ("blob.lease_end", _leases_for_good),
    "an insert overwrites": ("table.insert", _replaces_at_insert),
    "ETags of rows are ignored": ("table.condition", _any_row_tag),
    "a row keeps its ETag": ("table.etag", _one_tag("table")),
    "a batch is not atomic": ("table.atomic", _writes_row_by_row),
    "a batch takes any number of rows": ("table.limit", _too_many_rows),
    "a merge replaces": ("table.merge", _as_method("PATCH", "PUT")),
    "a replacement merges": ("table.replace", _as_method("PUT", "PATCH")),
    "rows come backwards": ("table.order", _rows_backwards),
    "a query has one page": ("table.pages", _one_page),
    "a query for a range returns all": ("table.range", _whole_partition),
    "$select is ignored": ("table.select", _every_field),
    "the service's clock is a day late": ("table.date", _yesterday),
    "a taken message stays visible": ("queue.visibility", _stays_visible),
    "a taken message never comes back": ("queue.visibility", _taken_for_good),
    "deliveries are not counted": ("queue.count", _counts_one),
    "an old receipt is accepted": ("queue.receipt", _any_receipt),
    "a delay is ignored": ("queue.delay", _no_delay),
    "the depth is too low": ("queue.depth", _counts_low),
    "messages end after a week": ("queue.forever", _ends_all),
    "a look takes the message": ("queue.peek", _peek_takes),
}
