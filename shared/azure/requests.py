"""The operation, the entity and the billing meter of a storage request, derived from its method and address.

The operations have the names of Azure's own metrics and logs, so that both can be compared.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

BLOB, QUEUE, TABLE, BUS = "blob", "queue", "table", "bus"


class RequestKind(NamedTuple):
    """One kind of request: the billed account, the service, the queue, container, table or topic, and the operation."""

    account: str
    service: str
    entity: str
    operation: str


#: (method, names in the path, `comp` of the query) -> operation.
_BLOB: Final[Mapping[tuple[str, int, str], str]] = MappingProxyType(
    {
        ("GET", 0, "list"): "ListContainers",
        ("GET", 1, "list"): "ListBlobs",
        ("GET", 1, ""): "GetContainerProperties",
        ("HEAD", 1, ""): "GetContainerProperties",
        ("PUT", 1, ""): "CreateContainer",
        ("DELETE", 1, ""): "DeleteContainer",
        ("POST", 1, "batch"): "DeleteBlobs",
        ("GET", 2, ""): "GetBlob",
        ("HEAD", 2, ""): "GetBlobProperties",
        ("PUT", 2, ""): "PutBlob",
        ("DELETE", 2, ""): "DeleteBlob",
        ("PUT", 2, "block"): "PutBlock",
        ("PUT", 2, "blocklist"): "PutBlockList",
        ("GET", 2, "blocklist"): "GetBlockList",
        ("PUT", 2, "appendblock"): "AppendBlock",
        ("PUT", 2, "lease"): "LeaseBlob",
        ("PUT", 2, "metadata"): "SetBlobMetadata",
        ("PUT", 2, "properties"): "SetBlobProperties",
    }
)
_QUEUE: Final[Mapping[tuple[str, int, str], str]] = MappingProxyType(
    {
        ("GET", 0, "list"): "ListQueues",
        ("PUT", 1, ""): "CreateQueue",
        ("DELETE", 1, ""): "DeleteQueue",
        ("GET", 1, "metadata"): "GetQueueMetadata",
        ("HEAD", 1, "metadata"): "GetQueueMetadata",
        ("PUT", 1, "metadata"): "SetQueueMetadata",
        ("POST", 2, ""): "PutMessage",
        ("GET", 2, ""): "GetMessages",
        ("DELETE", 2, ""): "ClearMessages",
        ("PUT", 3, ""): "UpdateMessage",
        ("DELETE", 3, ""): "DeleteMessage",
    }
)
#: Operations on one entity. A whole table and a batch are recognized by their path.
_TABLE: Final[Mapping[str, str]] = MappingProxyType(
    {"GET": "QueryEntity", "PUT": "UpdateEntity", "PATCH": "MergeEntity", "DELETE": "DeleteEntity"}
)
_TABLES: Final[Mapping[str, str]] = MappingProxyType(
    {"GET": "QueryTables", "POST": "CreateTable", "DELETE": "DeleteTable"}
)


def identify(service: str, method: str, url: str, body: object = None) -> RequestKind:
    """Derive the kind of a request. Only the body of a batch of entities names its table."""
    address, _, query = url.partition("?")
    _, _, host, *names = address.rstrip("/").split("/")
    account, _, domain = host.partition(".")
    # The emulators have one host for all accounts, with the account as the first name of the path.
    if not domain.startswith(service):
        account = names.pop(0) if names else ""
    if service == TABLE:
        return RequestKind(account, service, *_table(method, names[0] if names else "", body))
    comp = query.partition("comp=")[2].partition("&")[0]
    depth, known = (min(len(names), 2), _BLOB) if service == BLOB else (len(names), _QUEUE)
    entity = names[0] if names else ""
    operation = known.get((method, depth, comp)) or f"{method} {comp}".strip()
    return RequestKind(account, service, entity, "PeekMessages" if "peekonly=true" in query else operation)


def _table(method: str, name: str, body: object) -> tuple[str, str]:
    table, parenthesis, key = name.partition("(")
    if table == "$batch":
        return _table_of_batch(body), "EntityGroupTransaction"
    if table == "Tables":
        return key.strip("')"), _TABLES.get(method, method)
    if method == "POST":
        return table, "InsertEntity"
    whole = not parenthesis or key == ")"
    return table, "QueryEntities" if whole and method == "GET" else _TABLE.get(method, method)


def _table_of_batch(body: object) -> str:
    """Return the table of the first operation. A transaction has only one table."""
    text = body[:2000] if isinstance(body, bytes) else b""
    address = text.partition(b" http")[2].partition(b" HTTP/")[0]
    return address.rpartition(b"/")[2].partition(b"(")[0].decode(errors="replace")


#: The billing meter of each operation on blobs. All others are "other".
_BLOB_METERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "PutBlob": "blob-write",
        "PutBlock": "blob-write",
        "PutBlockList": "blob-write",
        "AppendBlock": "blob-write",
        "GetBlob": "blob-read",
        "ListBlobs": "blob-list",
        "ListContainers": "blob-list",
        "CreateContainer": "blob-list",
        "DeleteBlob": "blob-delete",
        "DeleteContainer": "blob-delete",
    }
)


class Charge(NamedTuple):
    """The billing meter of requests, and their cause."""

    meter: str
    cause: str

    def __str__(self) -> str:
        return f"{self.meter} {self.cause}"

    @classmethod
    def parse(cls, text: str) -> "Charge":
        """Read the text of a row. Rows of the first version have the cause alone."""
        meter, _, cause = text.rpartition(" ")
        return cls(meter, cause)


def meter_of(kind: RequestKind) -> str:
    """Return the billing meter of a kind of request."""
    return _BLOB_METERS.get(kind.operation, "blob-other") if kind.service == BLOB else kind.service
