"""Connections to Azure: the only package that builds clients, counts their requests and knows their errors.

Reading order:

- `connection_settings` and `connections` make the clients. `transport` is the HTTP below them.
- `meter` counts, `pushback` notices refusals.
- `row_groups` writes rows of a table together.
- `bus` sends and receives: no other module makes a message of the bus. `bus_post` sends an empty one by HTTP.
- `value_store` has two small uses of a blob: a value, and a lease.
"""

from shared.azure.bus import (
    FAILURES as FAILURES,
    BusMessage as BusMessage,
    BusReceiver as BusReceiver,
    BusSender as BusSender,
    Destination as Destination,
    is_login_refused as is_login_refused,
    is_missing as is_missing,
    is_silent as is_silent,
    peek as peek,
    read_front as read_front,
)
from shared.azure.bus_post import BusPost as BusPost
from shared.azure.connection_settings import (
    BUS_CONNECTION as BUS_CONNECTION,
    BUS_SETTING as BUS_SETTING,
    HOST_STORAGE as HOST_STORAGE,
    STORAGE_CONNECTION as STORAGE_CONNECTION,
    STORAGE_SETTING as STORAGE_SETTING,
    Login as Login,
    Setting as Setting,
    find_connection as find_connection,
    find_host_storage as find_host_storage,
    in_azure as in_azure,
    missing as missing,
)
from shared.azure.connections import LOCAL_MARK as LOCAL_MARK, Connections as Connections
from shared.azure.meter import (
    BUS as BUS,
    TABLE as TABLE,
    BusOperation as BusOperation,
    Cause as Cause,
    Charge as Charge,
    CountedRequest as CountedRequest,
    RequestCounts as RequestCounts,
    RequestKind as RequestKind,
    RequestTally as RequestTally,
    because as because,
    charges as charges,
    current_cause as current_cause,
    looking as looking,
    tally_requests as tally_requests,
    usage_of_counts as usage_of_counts,
)
from shared.azure.pushback import (
    USED_BY_WORK as USED_BY_WORK,
    Governor as Governor,
    Pushback as Pushback,
    governors_of_work as governors_of_work,
    trying_once as trying_once,
)
from shared.azure.row_groups import (
    LOST_RACE as LOST_RACE,
    MOST_GROUP_BYTES as MOST_GROUP_BYTES,
    MOST_GROUP_ROWS as MOST_GROUP_ROWS,
    Entity as Entity,
    GroupOperation as GroupOperation,
    check_limits as check_limits,
    delete_rows as delete_rows,
    entity_size as entity_size,
    write_group as write_group,
)
from shared.azure.transport import (
    NEVER_EXPIRES as NEVER_EXPIRES,
    date_of as date_of,
    error_code as error_code,
    expecting_an_answer as expecting_an_answer,
    is_refused as is_refused,
    put_on as put_on,
    send_on as send_on,
)
from shared.azure.value_store import (
    LEASE_SECONDS as LEASE_SECONDS,
    BlobLease as BlobLease,
    BlobStore as BlobStore,
    OptimisticStore as OptimisticStore,
    Snapshot as Snapshot,
    connect as connect,
    try_lease as try_lease,
)
