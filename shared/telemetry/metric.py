"""One metric, in the words of the catalogue."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What becomes of the values of a metric."""

    #: They are added up.
    COUNTER = "counter"
    #: They are counted by how large they are.
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A number that the app tells."""

    name: str
    kind: Kind
    #: As UCUM writes it; what is counted stands in braces.
    unit: str
    #: What the values are told apart by.
    attributes: tuple[str, ...] = ()
    meaning: str
    #: What a person does when it looks wrong.
    remedy: str
