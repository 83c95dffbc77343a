"""Limits of Azure that a large load meets, each with its source. None was tried on Azure."""

from dataclasses import dataclass
from typing import Final

from shared.scaling import MOST_MAXIMUM


@dataclass(frozen=True, slots=True)
class AzureLimit:
    """One documented limit."""

    what: str
    most: int
    source: str


QUEUE: Final = AzureLimit("messages of one storage queue per second", 2_000, "scalability targets of Queue Storage")
PARTITION: Final = AzureLimit(
    "entities of one table partition per second", 2_000, "scalability targets of Table Storage"
)
ACCOUNT: Final = AzureLimit(
    "requests of one storage account per second", 20_000, "scalability targets of a storage account, default"
)
BUS: Final = AzureLimit(
    "operations of one Service Bus namespace per second, tier Standard",
    1_000,
    "throttling of Service Bus, one credit per operation: from memory, to be verified",
)
INSTANCES: Final = AzureLimit("instances of one function", MOST_MAXIMUM, "hosting plan Flex Consumption")
REGION: Final = AzureLimit(
    "instances of 2 GB of all Flex apps of a subscription in one region", 250, "quota of Flex Consumption, 512,000 MB"
)

#: In the order of the page.
LIMITS: Final = (QUEUE, PARTITION, ACCOUNT, BUS, INSTANCES, REGION)
