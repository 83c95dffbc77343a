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
    MOST_MAXIMUM as MOST_MAXIMUM,
    HeldVolume as HeldVolume,
    InstancePlan as InstancePlan,
    InstanceRequest as InstanceRequest,
    end_at_latest as end_at_latest,
    plan as plan,
    price_at_most as price_at_most,
)
from shared.scaling.resource_manager import (
    PUBLIC as PUBLIC,
    ResourceManager as ResourceManager,
    connect_manager as connect_manager,
    prepare as prepare,
    send as send,
)
from shared.scaling.site import (
    Site as Site,
    WarmChoice as WarmChoice,
    az_commands as az_commands,
    bicep_parameters as bicep_parameters,
)
from shared.scaling.warm_decisions import WarmRecord as WarmRecord
from shared.scaling.warm_records import (
    WARM_RECORD as WARM_RECORD,
    WarmRequest as WarmRequest,
)
from shared.scaling.warmer import (
    FirstChunkDelays as FirstChunkDelays,
    WarmCheck as WarmCheck,
    Warmer as Warmer,
    build_warmer as build_warmer,
    records_of as records_of,
    sources_of as sources_of,
)
