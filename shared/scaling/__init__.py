"""Instances that are ready before a gate opens, and that are given back afterwards.

Reading order:

- `instances`: how many per function, and their price.
- `site`: the app's scale, and the body that changes it.
- `resource_manager`: reads the app and changes it.
- `warm_decisions`: which counts planned openings want, and when they are given back. Makes no request.
- `warm_records`: the record of them.
- `warmer`: one check, and the facts that decide.
"""

from shared.scaling.instances import (
    MOST_MAXIMUM,
    HeldVolume,
    InstancePlan,
    InstanceRequest,
    end_at_latest,
    plan,
    price_at_most,
)
from shared.scaling.resource_manager import PUBLIC, ResourceManager, connect_manager, prepare, send
from shared.scaling.site import Site, WarmChoice, az_commands, bicep_parameters
from shared.scaling.warm_decisions import WarmRecord
from shared.scaling.warm_records import WARM_RECORD, WarmRecords, WarmRequest
from shared.scaling.warmer import FirstChunkDelays, WarmCheck, Warmer, WarmSources

__all__ = [
    "MOST_MAXIMUM",
    "PUBLIC",
    "WARM_RECORD",
    "FirstChunkDelays",
    "HeldVolume",
    "InstancePlan",
    "InstanceRequest",
    "ResourceManager",
    "Site",
    "WarmCheck",
    "WarmChoice",
    "WarmRecord",
    "WarmRecords",
    "WarmRequest",
    "WarmSources",
    "Warmer",
    "az_commands",
    "bicep_parameters",
    "connect_manager",
    "end_at_latest",
    "plan",
    "prepare",
    "price_at_most",
    "send",
]
