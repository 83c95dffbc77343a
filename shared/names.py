"""Names of settings that nothing reads: misspelt, retired by a release, or known to a newer one only.

A name that does not begin with `SLUICE_` is somebody else's, and never looked at.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

PREFIX: Final = "SLUICE_"
#: The switches of releases before 0.3.0, each with the capability that SLUICE_CAPABILITIES turns on since then.
SWITCHES: Final[Mapping[str, str]] = {"SLUICE_CONSOLE": "console", "SLUICE_REGISTRATION": "registration"}
#: Variables of azd that the deployment does not read any more, each with what to do.
RETIRED_OF_AZD: Final[Mapping[str, str]] = {"HAS_REGISTRATION": "azd env set SLUICE_CAPABILITIES registration"}
_ALONE: Final = "a chunk that ends its process runs in one of its own, from its third delivery on: remove it"
_RESTS: Final = "a worker without a bus rests for a second at most: remove it"
#: Settings that a release retired, each with what to do. They are told and never refused: an app keeps the settings of
#: its last deployment. A name stays here for good, so that no later setting comes near it.
RETIRED: Final[Mapping[str, str]] = {
    "SLUICE_ENRICHMENT_URL": "the example of a workload reads ENRICHMENT_URL now: rename it here and in your copy of the example",
    "SLUICE_IDLE_SHORTEST_MS": _RESTS,
    "SLUICE_IDLE_STEP_MS": _RESTS,
    "SLUICE_IDLE_LONGEST_MS": _RESTS,
    "SLUICE_POISON_KILLED_AT": _ALONE,
    "SLUICE_POISON_DEATHS": _ALONE,
} | {switch: f"name {name} in SLUICE_CAPABILITIES if you want it, and remove this" for switch, name in SWITCHES.items()}
#: Variables of the commands of `make`, which are no settings.
TOOLS: Final = ("SLUICE_TRACEBACK",)
#: What to do with a name that this release does not know, and that is near to none that it knows.
NOT_OURS: Final = (
    "this release does not know it: remove it, or update; a setting of your own code has a name that does not begin "
    "with SLUICE_; one of a capability is read where SLUICE_CAPABILITIES names that"
)
#: Letters that a misspelt name may have too many, too few, wrong or swapped.
_EDITS: Final = 2


def misspelt(names: Collection[str], known: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each name that is near to a known one, with the known ones that are nearest."""
    for name in _strange(names, known):
        if name not in RETIRED and (meant := nearest_names(name, known)):
            yield f"{name} is no setting: did you mean {' or '.join(meant)}?"


def find_switched(environ: Mapping[str, str], line: Collection[str]) -> dict[str, str]:
    """Return a sentence, by its capability, for each switch that asks for one which the line does not name.

    Never silence: an app that is deployed by code alone may have the switch, and messages on its queues.
    """
    return {
        name: f"{switch} is {environ[switch]!r}, and nothing reads it: set SLUICE_CAPABILITIES={','.join([*line, name])}, and remove it"
        for switch, name in SWITCHES.items()
        if environ.get(switch, "").strip().lower() not in {"", "off"} and name not in line
    }


def unread(names: Collection[str], known: Collection[str]) -> dict[str, str]:
    """Return each retired name, and each unknown one that is not misspelt, with what to do."""
    return {
        name: RETIRED.get(name, NOT_OURS)
        for name in _strange(names, known)
        if name in RETIRED or not nearest_names(name, known)
    }


def nearest_names(name: str, known: Collection[str]) -> list[str]:
    """Return the known names that are nearest to a name, or none if it is not near to any."""
    near = {one: distance for one in sorted(known) if (distance := _distance(name, one)) <= _EDITS}
    return [one for one, distance in near.items() if distance == min(near.values())]


def _strange(names: Collection[str], known: Collection[str]) -> list[str]:
    return sorted(one for one in names if one.upper().startswith(PREFIX) and one not in (*known, *TOOLS))


def _distance(name: str, known: str) -> int:
    # The connections are known as SluiceStorage and SluiceBus.
    plain, wanted = (text.upper().removeprefix("SLUICE").removeprefix("_") for text in (name, known))
    if set(plain.split("_")) < set(wanted.split("_")):
        # Whole words were left out, as in SLUICE_BUDGET.
        return _EDITS
    return _edits(plain.replace("_", ""), wanted.replace("_", ""))


def _edits(one: str, other: str) -> int:
    """Return how many letters were added, left out, changed or swapped with their neighbour."""
    rows = [list(range(len(other) + 1))]
    for i, letter in enumerate(one, 1):
        above, row = rows[-1], [i]
        for j, wanted in enumerate(other, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (letter != wanted)))
            if i > 1 and j > 1 and one[i - 2 : i] == other[j - 2 : j][::-1]:
                row[-1] = min(row[-1], rows[-2][j - 2] + 1)
        rows.append(row)
    return rows[-1][-1]
