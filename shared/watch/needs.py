"""Something that needs a person: its kinds, and their words for the console and the command. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class NeedKind(StrEnum):
    """The kinds of needs, as the keys have them. The keys sort as a page does, so late ones come last.

    A fault of the installation comes before a fault of a job. Kinds of a later version are shown by the words in their
    keys.
    """

    TICK_FAILS = "b-tick-fails"
    REPLAY_STOPPED = "c-replay-stopped"
    RULES_UNREADABLE = "d-rules-unreadable"
    GATE_UNREADABLE = "e-gate-unreadable"
    GATE_HOLDS = "f-gate-holds"
    ROOM_FLOODS = "g-room-floods"
    FAILED = "x-failed"
    PAUSED = "x-paused"
    PLANLESS = "x-planless"
    UNBALANCED = "x-unbalanced"
    LATE = "z-late"


#: No rows have them: they follow from the last point, and from parked messages.
SILENT: Final = "a-tick-silent"
WORK_WAITS: Final = "h-work-waits"
PARKED: Final = "y-parked"
#: What the need about the rules is about.
RULES: Final = "the rules"
#: What both needs of the tick are about.
TICK: Final = "the tick"
#: The way out, in one sentence.
_REMEDIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        NeedKind.TICK_FAILS: "look into the log for sluice.tick.failed: the rest of the tick goes on",
        NeedKind.REPLAY_STOPPED: "its page says why; correct the workload, deploy, then replay again",
        NeedKind.RULES_UNREADABLE: "correct the rules and put them again: those of before stay in force",
        NeedKind.GATE_UNREADABLE: "a gate with a fault counts as closed: its page says what is wrong with its blob",
        NeedKind.GATE_HOLDS: "send the work again under the right name, or open this gate; closing it registers its name",
        NeedKind.ROOM_FLOODS: "have its publisher stop, then discard the cause: the files hold each message",
        NeedKind.FAILED: "find the cause, mend it, then replay what is parked",
        NeedKind.PAUSED: "find the cause, mend it, then resume the job",
        NeedKind.PLANLESS: "have its publisher send the submission again",
        NeedKind.UNBALANCED: "compare the declared numbers with those found: its page has both",
        NeedKind.LATE: "its page says what holds it up",
        SILENT: "check whether the app runs and its timer is on: sluice doctor",
        WORK_WAITS: "check whether the app runs: sluice doctor",
        PARKED: "each cause says what to do: sluice parked list",
    }
)
_LETTERS_OF_JOBS: Final = frozenset({"x", "z"})
#: Characters of a sentence.
_LONGEST: Final = 200


@dataclass(frozen=True, slots=True)
class Need:
    """Something that needs a person."""

    kind: str
    #: The job, or the other thing that it is about.
    about: str
    #: One sentence.
    found: str
    #: When it was last found so.
    at: datetime
    since: datetime | None = None
    #: A need that is not grave is a notice: nothing is lost by waiting.
    is_grave: bool = True
    #: It is over after this, unless it is found again. None: something else ends it.
    until: datetime | None = None

    @property
    def words(self) -> str:
        """Return its kind in words."""
        return name_kind(self.kind)

    @property
    def remedy(self) -> str:
        """Return the way out. Empty: this version does not know the kind."""
        return _REMEDIES.get(self.kind, "")

    @property
    def has_row(self) -> bool:
        """Return whether a row says it, which a person can take off the list."""
        return self.kind not in {SILENT, WORK_WAITS, PARKED}

    @property
    def is_of_job(self) -> bool:
        """Return whether it is about a job."""
        return is_kind_of_job(self.kind)


def is_kind_of_job(kind: str) -> bool:
    """Return whether needs of this kind are about jobs."""
    return kind.partition("-")[0] in _LETTERS_OF_JOBS


def name_kind(kind: str) -> str:
    """Return a kind in words."""
    letter, _, words = kind.partition("-")
    return f"{'job ' if letter in _LETTERS_OF_JOBS else ''}{words.replace('-', ' ') or kind}"


def cut_found(words: str) -> str:
    """Return a sentence as a row has it: of bounded length, and without characters that control."""
    cut = words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"
    return "".join(one if one.isprintable() else " " for one in cut)


def sort_needs(needs: Iterable[Need]) -> list[Need]:
    """Return the grave ones first, and else as their keys sort."""
    return sorted(needs, key=lambda need: (not need.is_grave, need.kind, need.about))
