"""The price of a run, at most."""

from typing import Final

from shared.azure import RequestCounts
from shared.usage import useful

#: Storage requests of a whole run, and operations of the bus, rounded up. A test counts the requests of a run.
REQUESTS: Final[RequestCounts] = useful(
    queue=60, table=70, blob_write=30, blob_list=15, blob_read=20, blob_other=15, bus=300
)
#: How long a run takes, in seconds: the longest wait is for the end of a lease.
SECONDS: Final = 40
