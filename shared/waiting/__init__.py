"""Waiting for a gate in a worker process.

Reading order: `release` (the worker's `with`), `wait` (one wait for every kind of wake-up), `watch` (one read of a flag
for all that wait), `listening` (signals).
"""

from shared.waiting.release import Release

__all__ = ["Release"]
