"""Instances that are ready before a planned opening. This is all that the rest of the app learns about it.

The record of them, its decisions and Azure's Resource Manager are `shared/scaling`, which the commands import too.
`sluice gate open --at` plans instances, and `sluice tune warm` carries the record out where the app may not.
"""

from typing import Final

from shared.azure import Setting
from shared.capability import Capability, PointerKind
from shared.pending import WARM_POINTER
from shared.scaling import PUBLIC, WarmChoice
from shared.values import SettingReader


def _setting(name: str, what: str, value: str) -> Setting:
    return Setting(f"SLUICE_WARM_{name}", f"warming: {what}", value, default=value)


def _read(read: SettingReader) -> WarmChoice:
    most = read.whole_number("SLUICE_WARM_MOST", 3, 900)
    site, identity, endpoint = (read.text(f"SLUICE_WARM_{name}") for name in ("SITE", "IDENTITY", "ENDPOINT"))
    choice = WarmChoice(site, identity, most, endpoint)
    for problem in choice.problems():
        read.report(problem)
    return choice


CAPABILITY: Final = Capability(
    name="warming",
    settings=(
        _setting("SITE", "resource id of the app whose instances planned openings warm; empty: no app", ""),
        _setting(
            "IDENTITY",
            "client id of the identity that may change that app's scale; empty: `sluice tune warm --due` changes it",
            "",
        ),
        _setting("MOST", "instances that a planned opening may warm, 3 to 900", "20"),
        _setting("ENDPOINT", "Azure Resource Manager of that app's cloud", PUBLIC),
    ),
    read=_read,
    pointers=(PointerKind(WARM_POINTER, "follow"),),
    build=".flows:Warming",
)
