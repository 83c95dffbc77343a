"""Groups of rows: rows of one partition that storage writes together or not at all (an entity-group transaction).

The library's `submit_transaction` makes a request object of each row. Python's e-mail package then writes and parses
the parts, which takes most of the CPU time (docs/performance.md). Here, the same parts are written and read as text.
They pass the same pipeline of the client: login, retries, meter and transport.

The limits of rows are here too: Azure refuses rows beyond them, although the local Azurite takes rows of any size.
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias
from urllib.parse import quote
from uuid import uuid4

from azure.core import MatchConditions
from azure.core.exceptions import (
    AzureError,
    HttpResponseError,
    ResourceModifiedError,
    ResourceNotFoundError,
    ServiceResponseError,
)
from azure.core.rest import HttpRequest
from azure.data.tables import RequestTooLargeError, TableClient, TableTransactionError, UpdateMode

# The two that the library does not export: how it writes the values of a row, and how it reads a refusal.
from azure.data.tables._error import _decode_error, _validate_tablename_error
from azure.data.tables._serialize import _add_entity_properties

from shared.errors import RowTooLargeError

Entity: TypeAlias = dict[str, Any]
#: Azure Tables takes 32 Ki UTF-16 characters per string and 1 MiB per entity. Half of that leaves room for the names,
#: which Azure counts in its own way.
MOST_CHARACTERS: Final = 32 * 1024 - 1
MOST_BYTES: Final = 512 * 1024
#: Rows of one group.
MOST_GROUP_ROWS: Final = 100
#: Their bytes. Azure takes 4 MiB, but `entity_size` does not count the frame around each row.
MOST_GROUP_BYTES: Final = 3 * 1024 * 1024
#: `create`, `update`, `upsert` or `delete`, the row, and the options `mode`, `etag` and `match_condition`. All have the
#: meaning that the library gives them.
GroupOperation: TypeAlias = tuple[str, Mapping[str, Any]] | tuple[str, Mapping[str, Any], Mapping[str, Any]]
#: Partition and key of a row, and its ETag when it was read. An empty one means any version.
RowTag: TypeAlias = tuple[str, str, str]
#: Refusals by our own condition. Any other error leaves open whether the write took effect.
LOST_RACE: Final = frozenset({"EntityAlreadyExists", "UpdateConditionNotSatisfied", "ConditionNotMet"})
_METHODS: Final = {UpdateMode.REPLACE: "PUT", UpdateMode.MERGE: "PATCH"}
_VERSIONS: Final = {"DataServiceVersion": "3.0", "MaxDataServiceVersion": "3.0;NetFx"}
_BOUNDARY: Final = re.compile(rb'boundary="?(changesetresponse_[^\s";]+)')
_STATUS: Final = re.compile(rb"HTTP/1\.1 (\d{3}) ?([^\r\n]*)")
_ETAG: Final = re.compile(rb"^etag:[ \t]*([^\r\n]+?)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_dumps: Final = json.JSONEncoder(separators=(",", ":")).encode


def write_group(table: TableClient, operations: Sequence[GroupOperation]) -> list[str]:
    """Write the rows together, and return their new ETags, or raise as `submit_transaction` does.

    A row that was deleted has no ETag: its text is empty. A reply without an answer for each row is an error, after
    which all of them may have been written.
    """
    if not operations:
        return []
    boundary = f"changeset_{uuid4()}"
    address = f"{table.scheme}://{table._primary_hostname}"  # noqa: SLF001 - the host that the library writes to
    request = _request(
        address, table.api_version, boundary, _body(f"{address}/{table.table_name}", boundary, operations)
    )
    # Streamed: otherwise a policy would look for JSON in the reply. The transport has read all of it.
    reply = table._client._client.send_request(request, stream=True)  # noqa: SLF001 - the pipeline of this client
    content = reply.read()
    if reply.status_code != 202:
        raise _refusal_of_all(reply, table.table_name)
    return _etags(content, len(operations), table.table_name)


def delete_rows(table: TableClient, tags: Sequence[RowTag]) -> None:
    """Delete rows of one partition, a hundred per request. One that is gone, or was written again, is passed over."""
    for begin in range(0, len(tags), MOST_GROUP_ROWS):
        some = tags[begin : begin + MOST_GROUP_ROWS]
        # One that is gone or was written again refuses all. Or the reply was lost, and all are gone.
        if len(some) > 1 and _is_deleted(table, some):
            continue
        for tag in some:
            with suppress(ResourceModifiedError, ResourceNotFoundError):
                table.delete_entity(*tag[:2], **_condition(tag))


def _is_deleted(table: TableClient, tags: Sequence[RowTag]) -> bool:
    try:
        write_group(table, [("delete", {"PartitionKey": tag[0], "RowKey": tag[1]}, _condition(tag)) for tag in tags])
    except AzureError:
        return False
    return True


def _condition(tag: RowTag) -> dict[str, Any]:
    return {"etag": tag[2], "match_condition": MatchConditions.IfNotModified} if tag[2] else {}


def _request(address: str, version: str, boundary: str, changes: str) -> HttpRequest:
    outer = f"batch_{uuid4()}"
    text = f"--{outer}\r\nContent-Type: multipart/mixed; boundary={boundary}\r\n\r\n{changes}\r\n--{outer}--\r\n"
    headers = {
        "x-ms-version": version,
        **_VERSIONS,
        "Content-Type": f"multipart/mixed; boundary={outer}",
        "Accept": "application/json",
    }
    return HttpRequest("POST", f"{address}/$batch", headers=headers, content=text.encode())


def _body(table: str, boundary: str, operations: Sequence[GroupOperation]) -> str:
    if len(operations) > MOST_GROUP_ROWS:
        raise ValueError(f"a group has at most {MOST_GROUP_ROWS} rows, this one has {len(operations)}")
    parts = []
    partition = operations[0][1]["PartitionKey"]
    for number, (kind, row, *options) in enumerate(operations):
        if row["PartitionKey"] != partition:
            raise ValueError(
                f"a group has rows of one partition, this one has {partition!r} and {row['PartitionKey']!r}"
            )
        parts.append(
            f"--{boundary}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n"
            f"Content-ID: {number}\r\n\r\n{_part(table, kind, row, **(options[0] if options else {}))}\r\n"
        )
    return f"{''.join(parts)}--{boundary}--\r\n"


def _part(  # noqa: PLR0913 - an operation and the options of the library
    table: str,
    kind: str,
    row: Mapping[str, Any],
    *,
    mode: UpdateMode = UpdateMode.MERGE,
    etag: str | None = None,
    match_condition: MatchConditions | None = None,
) -> str:
    """Write the request for one row."""
    if (match_condition is MatchConditions.IfNotModified) != bool(etag):
        raise ValueError(f"an ETag goes with the condition IfNotModified, found {etag!r} with {match_condition}")
    version = "DataServiceVersion: 3.0\r\n"
    if kind == "create":
        return f"POST {table} HTTP/1.1\r\nPrefer: return-no-content\r\n{version}{_content(row)}"
    address = f"{table}(PartitionKey='{_quote(row['PartitionKey'])}',RowKey='{_quote(row['RowKey'])}')"
    # Without a condition, an update needs the row to exist. An upsert does not.
    condition = "" if kind == "upsert" else f"If-Match: {etag or '*'}\r\n"
    if kind == "delete":
        return (
            f"DELETE {address} HTTP/1.1\r\nAccept: application/json;odata=minimalmetadata\r\n{version}{condition}\r\n"
        )
    if kind not in ("update", "upsert"):
        raise ValueError(f"an operation is create, update, upsert or delete, not {kind!r}")
    return f"{_METHODS[mode]} {address} HTTP/1.1\r\n{version}{condition}{_content(row)}"


def _content(row: Mapping[str, Any]) -> str:
    text = _dumps(_add_entity_properties(row))
    # All in ASCII: the encoder escapes the rest.
    return (
        f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n"
        f"Accept: application/json;odata=minimalmetadata\r\n\r\n{text}"
    )


def _quote(key: str) -> str:
    return quote(key.replace("'", "''"), safe="")


def _etags(content: bytes, count: int, table: str) -> list[str]:
    """Read the answer to each row, or raise the refusal of the group."""
    boundary = _BOUNDARY.search(content)
    pieces = content.split(b"--" + boundary[1])[1:-1] if boundary else []
    etags = []
    for piece in pieces:
        answer, _, told = piece.partition(b"\r\n\r\n")[2].partition(b"\r\n\r\n")
        status = _STATUS.match(answer)
        if status is None:
            break
        if not status[1].startswith(b"2"):
            raise _refusal(int(status[1]), status[2].decode(), told, table)
        found = _ETAG.search(answer)
        etags.append(found[1].decode() if found else "")
    if len(etags) != count:
        raise ServiceResponseError(f"the reply to a group of {count} rows has answers for {len(etags)}")
    return etags


def _refusal(status: int, reason: str, told: bytes, table: str) -> HttpResponseError:
    """Make the error of a group that was refused because of one row, whose index is in the message."""
    try:
        found = json.loads(told)["odata.error"]
        code, message = str(found["code"]), str(found["message"]["value"])
    except (ValueError, KeyError, TypeError):
        code, message = "", told.decode(errors="replace")
    kind = RequestTooLargeError if status == 413 else TableTransactionError
    error = kind(message=f"{message}\nErrorCode:{code}")
    error.status_code, error.reason, error.error_code = status, reason, code  # type: ignore[attr-defined]  # undeclared
    _validate_tablename_error(error, table)  # type: ignore[no-untyped-call]
    return error


def _refusal_of_all(reply: Any, table: str) -> HttpResponseError:
    kind = {"error_message": "The transaction request was too large", "error_type": RequestTooLargeError}
    error: HttpResponseError = _decode_error(reply, **(kind if reply.status_code == 413 else {}))  # type: ignore[no-untyped-call]
    _validate_tablename_error(error, table)  # type: ignore[no-untyped-call]
    return error


def check_limits(entity: Entity) -> Entity:
    """Return the entity, or raise RowTooLargeError if Azure would refuse it. Azurite would not."""
    where = f"row {entity['RowKey']!r} of {entity['PartitionKey']!r}"
    size = 0
    for name, value in entity.items():
        length = utf16_length(value) if isinstance(value, str) else 8
        if length > MOST_CHARACTERS:
            raise RowTooLargeError(
                f"could not write {where}: {name!r} has {length} characters, the limit is {MOST_CHARACTERS}"
            )
        size += 2 * (len(name) + length)
    if size > MOST_BYTES:
        raise RowTooLargeError(f"could not write {where}: it has {size} bytes, the limit is {MOST_BYTES}")
    return entity


def entity_size(entity: Mapping[str, Any]) -> int:
    """Estimate the bytes of an entity with its names. Azure counts two bytes per character."""
    return sum(
        2 * len(name) + (2 * utf16_length(value) if isinstance(value, str) else 16) for name, value in entity.items()
    )


def utf16_length(text: str) -> int:
    """Return the length as Azure counts it: two per character outside the basic plane."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
