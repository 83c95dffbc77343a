"""Waiting for a gate in a worker process."""

from shared.azure import Connections as Connections
from shared.waiting import (
    BlobGlobalFlag as BlobGlobalFlag,
    ListeningRelease as ListeningRelease,
    PollingRelease as PollingRelease,
    Release as Release,
)
