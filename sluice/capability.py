"""The parts of a capability of your own: `SLUICE_CAPABILITIES=own.returns:RETURNS` turns one on."""

from shared.app import BuildSite as BuildSite
from shared.azure import Setting as Setting
from shared.capability import (
    Capability as Capability,
    CommandGroup as CommandGroup,
    DeadLetter as DeadLetter,
    HttpAnswer as HttpAnswer,
    HttpCall as HttpCall,
    TickStep as TickStep,
    Trigger as Trigger,
    bus as bus,
    bus_delivery as bus_delivery,
    dead_letters as dead_letters,
    http as http,
    queue as queue,
)
from shared.messages import Delivery as Delivery
from shared.refusals import ReasonCode as ReasonCode, refuse as refuse
from shared.topology import BusEntities as BusEntities, BusQueue as BusQueue, Entities as Entities
from shared.values import SettingReader as SettingReader
