"""Groups of rows are written as the library writes them: the same rows, ETags, requests and errors."""

import re
import uuid
from datetime import UTC, datetime
from enum import Enum

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import AzureError, ServiceResponseError
from azure.core.pipeline.transport import RequestsTransport
from azure.data.tables import EdmType, EntityProperty, RequestTooLargeError, TableTransactionError, UpdateMode

from shared.azure import Connections, tally_requests, write_group
from shared.azure.row_groups import _etags
from tests.faults.plan import Fault, Plan

KEYS = ["plain", "it's", "a b", "ü🎉", "per%cent", "p+lus", "e|0000000001", "a=b&c", "", "'", "(x)", "~!$*,;:@"]


class Colour(Enum):
    """A value that the library stores as text."""

    RED = "red"


VALUES = {
    "text": 'ünï"\\\n\r\n--changesetresponse_x\r\n\r\nHTTP/1.1 409 Conflict\r\n🎉',
    "lone": "a\ud800b",
    "whole": -(2**31),
    "large": EntityProperty(2**62, EdmType.INT64),
    "yes": True,
    "part": 0.1,
    "endless": float("inf"),
    "binary": bytes(range(256)),
    "moment": datetime(2026, 11, 22, 12, 0, 0, 7, tzinfo=UTC),
    "id": uuid.UUID(int=7),
    "nothing": None,
    "colour": Colour.RED,
}


@pytest.fixture(scope="session")
def connections(azurite):
    """The storage of this run."""
    with Connections(azurite.connection_string) as made:
        yield made


@pytest.fixture
def table(connections):
    """A table of its own."""
    return connections.tables.create_table(f"groups{uuid.uuid4().hex[:12]}")


def library(table, operations):
    """Write by the library."""
    return [answer.get("etag", "") for answer in table.submit_transaction(operations)]


def key(row, partition="p"):
    """Return the key of a row."""
    return {"PartitionKey": partition, "RowKey": row}


def stored(table, partition):
    """Return the rows of a partition without their keys' first half."""
    rows = table.query_entities("PartitionKey eq @p", parameters={"p": partition})
    return [{name: value for name, value in row.items() if name != "PartitionKey"} for row in rows]


def if_unchanged(etag):
    """Return the options of a conditional operation."""
    return {"etag": etag, "match_condition": MatchConditions.IfNotModified}


def acts(table, write, partition):
    """Do everything that an operation can, and return the ETags and what is stored after each step."""
    seen = []

    def do(*operations):
        etags = write(table, list(operations))
        seen.append(([bool(etag) for etag in etags], stored(table, partition)))
        return etags

    etags = do(*(("create", key(name, partition) | VALUES) for name in KEYS))
    do(
        ("update", key(KEYS[0], partition) | {"n": 1}, {"mode": UpdateMode.REPLACE, **if_unchanged(etags[0])}),
        ("update", key(KEYS[1], partition) | {"n": 1}),
        ("update", key(KEYS[2], partition) | {"n": 1}, {"mode": UpdateMode.REPLACE}),
        ("upsert", key(KEYS[3], partition) | {"n": 1}),
        ("upsert", key(KEYS[4], partition) | {"n": 1}, {"mode": UpdateMode.REPLACE}),
        ("upsert", key("new", partition) | {"n": 1}, {"mode": UpdateMode.MERGE}),
        ("upsert", key("newer", partition) | {"n": 1}, {"mode": UpdateMode.REPLACE}),
        ("delete", key(KEYS[5], partition)),
        ("delete", key(KEYS[6], partition), if_unchanged(etags[6])),
    )
    return seen


@pytest.mark.parametrize("partition", ["p", "it's a 🎉", "a+b=c"])
def test_the_same_is_stored_as_by_the_library(connections, partition):
    """Every operation, every kind of value, and keys with every character that an address writes otherwise."""
    tables = [connections.tables.create_table(f"groups{uuid.uuid4().hex[:12]}") for _ in range(2)]
    assert acts(tables[0], write_group, partition) == acts(tables[1], library, partition)


class Listening(RequestsTransport):
    """Notes the lines by which the requests in a group say what they do, and to which row."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def send(self, request, **options):
        """Send."""
        lines = (request.body or b"").decode().split("\r\n") if isinstance(request.body, bytes) else []
        self.lines += [line for line in lines if line.endswith(" HTTP/1.1") or line.startswith("If-Match")]
        return super().send(request, **options)


def test_the_same_is_asked_as_by_the_library(azurite, table):
    """Azurite forgives addresses that Azure does not: a quote in a key is doubled."""
    seen = []
    for write in (write_group, library):
        listening = Listening()
        with Connections(azurite.connection_string, transport=lambda listening=listening: listening) as opened:
            acts(opened.tables.get_table_client(table.table_name), write, "it's")
        write_group(table, [("delete", key(row["RowKey"], "it's")) for row in table.list_entities()])
        seen.append([re.sub('datetime[^"]*', "", line) for line in listening.lines])
    assert seen[0] == seen[1]
    assert any("RowKey='it%27%27s'" in line for line in seen[0])


def test_the_etags_are_those_of_the_rows(table):
    """A conditional write right after goes through."""
    etags = write_group(table, [("create", key(f"{n}")) for n in range(100)])
    assert etags == [row.metadata["etag"] for row in sorted(table.list_entities(), key=lambda row: int(row["RowKey"]))]


def refusals():
    """Return groups that are refused, by name."""
    fine = ("upsert", key("fine"))
    wrong = if_unchanged("W/\"datetime'2020-01-01T00%3A00%3A00.0000000Z'\"")
    return {
        "there is a row, first": [("create", key("old")), fine],
        "there is a row, last": [fine, *(("create", key(f"{n}")) for n in range(97)), ("create", key("old"))],
        "another version": [fine, ("update", key("old"), wrong)],
        "another version to delete": [fine, ("delete", key("old"), wrong)],
        "no row to update": [fine, ("update", key("none"))],
        "no row to delete": [("delete", key("none"))],
        "a row twice": [fine, ("upsert", key("fine"))],
        "a bad key": [("create", key("a/b"))],
        "5 MiB": [("create", key(f"{n}") | {"a": "x" * 60_000}) for n in range(90)],
    }


@pytest.mark.parametrize("name", refusals())
def test_a_refusal_is_the_library_s_error(table, name):
    """Its type, its code, its status and the index of the row: callers decide by them. Nothing is written."""
    table.create_entity(key("old"))
    found = []
    for write in (write_group, library):
        with pytest.raises(AzureError) as refused:
            write(table, refusals()[name])
        error = refused.value
        found.append((type(error), error.error_code, error.status_code, error.reason, getattr(error, "index", None)))
        assert [row["RowKey"] for row in table.list_entities()] == ["old"]
    assert found[0] == found[1]


def test_a_missing_table_and_a_bad_name_are_the_library_s_errors(connections):
    """The first is refused by storage; the second by the library, which knows the rule."""
    found = []
    for write in (write_group, library):
        with pytest.raises(AzureError) as refused:
            write(connections.tables.get_table_client("groupsnone"), [("create", key("a"))])
        found.append((type(refused.value), refused.value.error_code, refused.value.status_code))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "operations",
    [
        [("create", key("a")), ("create", key("b", "q"))],
        [("insert", key("a"))],
        [("update", key("a"), {"etag": "x"})],
        [("delete", key("a"), {"match_condition": MatchConditions.IfNotModified})],
    ],
    ids=["two partitions", "unknown", "an ETag alone", "a condition alone"],
)
def test_what_the_library_refuses_to_send_is_not_sent(table, operations):
    """It is a mistake of the caller, and costs no request."""
    with tally_requests() as tally:
        for write in (write_group, library):
            with pytest.raises(ValueError):  # noqa: PT011 - the library's words differ
                write(table, operations)
    assert tally.total() == 0


def test_a_group_of_too_many_rows_is_not_sent(table):
    """Azurite's answer to it is one that the library cannot read."""
    with tally_requests() as tally, pytest.raises(ValueError, match="at most 100 rows"):
        write_group(table, [("create", key(f"{n}")) for n in range(101)])
    assert tally.total() == 0


def test_a_group_is_one_request_to_its_table(table):
    """The meter reads the table from the body."""
    with tally_requests() as tally:
        write_group(table, [("create", key(f"{n}")) for n in range(100)])
        assert write_group(table, []) == []
    assert {(one.kind.entity, one.kind.operation, one.cause): n for one, n in tally.counts().items()} == {
        (table.table_name, "EntityGroupTransaction", "useful"): 1
    }


@pytest.mark.parametrize(("mode", "tries"), [("503_before", 2), ("reset_after", 1), ("truncated_reply", 1)])
def test_a_group_is_tried_again_as_by_the_library(azurite, table, mode, tries):
    """A busy service is asked again; a lost reply is the caller's to settle, since the rows may be written."""
    seen = []
    for write in (write_group, library):
        plan = Plan([Fault(1, mode)])
        with Connections(azurite.connection_string, transport=plan.transport) as opened:
            client = opened.tables.get_table_client(table.table_name)
            try:
                write(client, [("upsert", key("a"))])
                outcome = "written"
            except AzureError as error:
                outcome = type(error).__name__
        seen.append((outcome, plan.count))
    assert seen[0] == seen[1]
    assert seen[0][1] == tries


ANSWERS = (
    b"--batchresponse_b\r\nContent-Type: multipart/mixed; boundary=changesetresponse_c\r\n\r\n"
    b"--changesetresponse_c\r\nContent-Type: application/http\r\n\r\nHTTP/1.1 204 No Content\r\netag: W/1\r\n\r\n\r\n"
    b"--changesetresponse_c\r\nContent-Type: application/http\r\n\r\nHTTP/1.1 204 No Content\r\nETag: W/2\r\n\r\n\r\n"
    b"--changesetresponse_c--\r\n--batchresponse_b--\r\n"
)


@pytest.mark.parametrize("length", range(0, len(ANSWERS), 7))
def test_a_reply_without_an_answer_to_each_row_is_no_success(length):
    """Whatever cut it, the rows may be written: the caller must look."""
    assert _etags(ANSWERS, 2, "t") == ["W/1", "W/2"]
    whole = ANSWERS.index(b"--\r\n--batchresponse_b--")
    if length < whole:
        with pytest.raises(ServiceResponseError):
            _etags(ANSWERS[:length], 2, "t")
    with pytest.raises(ServiceResponseError):
        _etags(ANSWERS, 3, "t")


@pytest.mark.parametrize(
    ("status", "told", "kind", "code", "index"),
    [
        (
            413,
            b'{"odata.error":{"code":"RequestBodyTooLarge","message":{"value":"x"}}}',
            RequestTooLargeError,
            "RequestBodyTooLarge",
            0,
        ),
        (
            409,
            b'{"odata.error":{"code":"EntityAlreadyExists","message":{"value":"7:x"}}}',
            TableTransactionError,
            "EntityAlreadyExists",
            7,
        ),
        (400, b"<html>", TableTransactionError, "", 0),
        (500, b'{"odata.error":[]}', TableTransactionError, "", 0),
    ],
)
def test_a_refused_row_names_its_index_and_code(status, told, kind, code, index):
    """Also where something between here and storage answers in its own words."""
    start = b"boundary=changesetresponse_c\r\n\r\n--changesetresponse_c\r\nContent-Type: application/http\r\n\r\n"
    answer = start + f"HTTP/1.1 {status} Refused\r\n\r\n".encode() + told + b"\r\n--changesetresponse_c--\r\n"
    with pytest.raises(TableTransactionError) as refused:
        _etags(answer, 9, "table")
    error = refused.value
    assert (type(error), error.status_code, error.reason, error.error_code, error.index) == (
        kind,
        status,
        "Refused",
        code,
        index,
    )
