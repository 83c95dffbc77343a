"""Waiting for a gate in a worker process."""

from shared.azure import Connections as Connections
from shared.waiting import BlobGlobalFlag as BlobGlobalFlag
from shared.waiting import ListeningRelease as ListeningRelease
from shared.waiting import PollingRelease as PollingRelease
from shared.waiting import Release as Release
