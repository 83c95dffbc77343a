"""Connections to Azure: the only package that builds clients, counts their requests and knows their errors.

Reading order:

- `connection_settings` and `connections` make the clients. `transport` is the HTTP below them.
- `meter` counts, `pushback` notices refusals.
- `row_groups` writes rows of a table together.
- `bus` sends.
- `value_store` has two small uses of a blob: a value, and a lease.
"""

from shared.azure.bus import FAILURES, BusSender, Destination
from shared.azure.connection_settings import (
    BUS_CONNECTION,
    BUS_SETTING,
    STORAGE_CONNECTION,
    STORAGE_SETTING,
    Login,
    Setting,
    find_connection,
    in_azure,
    missing,
)
from shared.azure.connections import Connections
from shared.azure.meter import (
    BUS,
    TABLE,
    BusOperation,
    Cause,
    Charge,
    CountedRequest,
    RequestCounts,
    RequestKind,
    RequestTally,
    because,
    charges,
    current_cause,
    looking,
    tally_requests,
    usage_of_counts,
)
from shared.azure.pushback import USED_BY_WORK, BriefSender, Governor, Pushback, governors_of_work
from shared.azure.row_groups import (
    LOST_RACE,
    MOST_GROUP_BYTES,
    MOST_GROUP_ROWS,
    Entity,
    GroupOperation,
    check_limits,
    delete_rows,
    entity_size,
    write_group,
)
from shared.azure.transport import date_of, error_code, expecting_an_answer, is_missing, is_refused
from shared.azure.value_store import LEASE_SECONDS, BlobLease, BlobStore, OptimisticStore, Snapshot, connect, try_lease

__all__ = [
    "BUS",
    "BUS_CONNECTION",
    "BUS_SETTING",
    "FAILURES",
    "LEASE_SECONDS",
    "LOST_RACE",
    "MOST_GROUP_BYTES",
    "MOST_GROUP_ROWS",
    "STORAGE_CONNECTION",
    "STORAGE_SETTING",
    "TABLE",
    "USED_BY_WORK",
    "BlobLease",
    "BlobStore",
    "BriefSender",
    "BusOperation",
    "BusSender",
    "Cause",
    "Charge",
    "Connections",
    "CountedRequest",
    "Destination",
    "Entity",
    "Governor",
    "GroupOperation",
    "Login",
    "OptimisticStore",
    "Pushback",
    "RequestCounts",
    "RequestKind",
    "RequestTally",
    "Setting",
    "Snapshot",
    "because",
    "charges",
    "check_limits",
    "connect",
    "current_cause",
    "date_of",
    "delete_rows",
    "entity_size",
    "error_code",
    "expecting_an_answer",
    "find_connection",
    "governors_of_work",
    "in_azure",
    "is_missing",
    "is_refused",
    "looking",
    "missing",
    "tally_requests",
    "try_lease",
    "usage_of_counts",
    "write_group",
]
