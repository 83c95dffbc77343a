"""Waiting for a gate in a worker process.

Reading order: `release` (the worker's `with`, which listens for signals), `watch` (one wait for every kind of wake-up, and
one read of a flag for all that wait).
"""

from shared.waiting.release import ListeningRelease, PollingRelease, Release
from shared.waiting.watch import BlobGlobalFlag

__all__ = ["BlobGlobalFlag", "ListeningRelease", "PollingRelease", "Release"]
