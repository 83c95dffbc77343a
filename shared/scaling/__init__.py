"""Pre-warming: instances that are ready before a gate opens.

Reading order: `instances` (how many per function, and their price), `resource_manager` (read, send, read again).
"""

from shared.scaling.instances import HeldVolume, InstancePlan, InstanceRequest, chunk_seconds, plan
from shared.scaling.resource_manager import PUBLIC, ResourceManager, Site, az_commands, bicep_parameters, prepare, send

__all__ = [
    "PUBLIC",
    "HeldVolume",
    "InstancePlan",
    "InstanceRequest",
    "ResourceManager",
    "Site",
    "az_commands",
    "bicep_parameters",
    "chunk_seconds",
    "plan",
    "prepare",
    "send",
]
