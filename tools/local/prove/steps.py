"""The steps of a proof as data, and the choice of the next one. Nothing here asks anything."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what it does, how long it may take, and what a person does when it fails."""

    key: str
    what: str
    remedy: str
    #: After so long it has failed. Their sum is the longest that anything of the run can cost money.
    minutes: int
    #: From here on something may be there that must go again.
    makes: bool = False
    #: Without it the later ones make no sense.
    is_needed: bool = False


REMOVE: Final = Step(
    "remove",
    "removes everything, and looks that it is gone",
    "remove by hand what is listed as left, by the command beside it",
    45,
)
STEPS: Final = (
    Step(
        "tools",
        "az and azd answer, and both are logged in",
        "install what is named, then `az login` and `azd auth login`",
        2,
        is_needed=True,
    ),
    Step(
        "absent",
        "no resource group and no environment of this name is there",
        "choose another name by `--name`, or remove what an earlier run left",
        2,
        is_needed=True,
    ),
    Step(
        "environment",
        "azd makes the environment",
        "read azd's words, and see whether the region is spelt right",
        5,
        makes=True,
        is_needed=True,
    ),
    Step(
        "provision",
        "azd creates the resources and uploads the app",
        "read the end of azd's log, and try `azd provision --preview` by hand (docs/deploy.md)",
        60,
        makes=True,
        is_needed=True,
    ),
    Step(
        "roles",
        "gives who runs this the two roles of a deep examination, on this bus and this account alone",
        "who runs this must be Owner, or Role Based Access Control Administrator",
        10,
    ),
    Step(
        "doctor",
        "`sluice doctor`: everything is there, and as it was deployed",
        "run `sluice doctor` in an installation that stays: each finding has its remedy",
        20,
    ),
    Step(
        "deep",
        "`sluice doctor --deep`: storage and bus keep what Sluice relies on",
        "the page of each property says what follows where it does not hold (docs/proof.md)",
        15,
    ),
    Step("e2e", "the end-to-end tests against the deployed app", "read the tests' log: it has each failure whole", 45),
    Step("job", "a first job behind a gate, as docs/deploy.md types it", "read `sluice jobs watch` in the log", 15),
    Step(
        "kill",
        "kills a process of an instance under a job, where the platform lets one",
        "the job must end complete all the same: report it with the log",
        20,
    ),
    Step(
        "questions",
        "asks what docs/appendix/unproven.md asks and a command can answer",
        "an answer that is not as hoped for is news: report it",
        40,
    ),
    REMOVE,
)
BY_KEY: Final = {one.key: one for one in STEPS}


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a step."""

    key: str
    seconds: float
    #: What was found, in order.
    said: tuple[str, ...] = ()
    #: Empty: it went well.
    problem: str = ""


def choose_next(ended: Sequence[Ended], *, is_interrupted: bool) -> Step | None:
    """Return the step that comes now, or None at the end.

    A fault of a needed step and an interruption lead to the removal. Before anything was made there is nothing to remove:
    anything there then has another owner.
    """
    keys = {one.key for one in ended}
    if REMOVE.key in keys:
        return None
    if is_interrupted or any(one.problem and BY_KEY[one.key].is_needed for one in ended):
        return REMOVE if any(BY_KEY[key].makes for key in keys) else None
    return next(one for one in STEPS if one.key not in keys)


def most_hours() -> float:
    """Return how long something of a run can be there at most."""
    first = next(number for number, one in enumerate(STEPS) if one.makes)
    return sum(one.minutes for one in STEPS[first:]) / 60
