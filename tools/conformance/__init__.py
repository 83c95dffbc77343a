"""Checks whether storage and bus do what Sluice relies on: here the stand-ins, at a user's the real ones.

Reading order:

- `properties` is the list. `judgement` says what follows from observations, and is pure.
- `scene` is what a check gets; `blob_checks`, `table_checks`, `queue_checks`, `message_checks` and `session_checks` try.
- `bus_wishes`, `storage_site`, `bus_site` and `belongings` make what a run needs and remove it; `leftovers` those of killed runs.
- `examination` is a run, `price` its price.
"""

from tools.conformance.belongings import Leftover, first_line
from tools.conformance.bus_site import ROLE
from tools.conformance.bus_wishes import PREFIX, QUEUES, TOPICS, QueueWish, TopicWish
from tools.conformance.examination import Report, examine
from tools.conformance.judgement import Finding, Observation, State, judge
from tools.conformance.leftovers import new_nonce
from tools.conformance.price import REQUESTS, SECONDS
from tools.conformance.properties import PROPERTIES, Property

__all__ = [
    "PREFIX",
    "PROPERTIES",
    "QUEUES",
    "REQUESTS",
    "ROLE",
    "SECONDS",
    "TOPICS",
    "Finding",
    "Leftover",
    "Observation",
    "Property",
    "QueueWish",
    "Report",
    "State",
    "TopicWish",
    "examine",
    "first_line",
    "judge",
    "new_nonce",
]
