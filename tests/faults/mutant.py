"""One mistake in the real code, and the search for a run that objects to it."""

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from unittest.mock import patch

from tests.faults import campaign
from tests.faults.plan import Fault


@dataclass(frozen=True)
class Mutant:
    """One mistake: what is replaced by what, and the run that should object, with a fault at the first such request."""

    owner: object
    name: str
    wrong: object
    scenario: str
    mode: str = ""
    #: Stage and beginning of the site, as they are without the mistake: its own request may stand there.
    site: tuple = ()
    #: Which of several such requests.
    nth: int = 0
    #: What else it replaces: owner, name, and what stands in its place.
    also: tuple = ()
    #: What makes the mistake good, and must be away for it to show: its name, and what stands in its place.
    made_good_by: str = ""
    guard: tuple = ()


def found(mutant):
    """Return the run that found it and what it said, or "nothing".

    The same run says nothing without the mistake, and nothing with it as long as what makes it good is there.
    """
    storages, scenario = campaign.MemoryStorages(), campaign.BY_NAME[mutant.scenario]
    sites = campaign.run(scenario, storages).sites
    faults = [Fault(_place(sites, mutant), mutant.mode)] if mutant.mode else []
    mistake = [(mutant.owner, mutant.name, mutant.wrong), *mutant.also]
    guard = [mutant.guard] if mutant.guard else []
    told = f"{scenario}: {', '.join(map(str, faults)) or 'no fault needed'}"

    def breaches(replaced):
        with _replaced(replaced):
            return campaign.work((scenario.name, faults), storages)[1].breaches

    for replaced in [guard, mistake] if guard else [[]]:
        if clean := breaches(replaced):
            raise AssertionError(f"with {replaced or 'nothing'} replaced: {told}: {clean}")
    said = breaches(mistake + guard)
    return (told, said[0][:160].replace("|", " ")) if said else ("nothing", "")


def _place(sites, mutant):
    stage, begin = mutant.site
    places = [at for at, (where, site) in enumerate(sites, 1) if where == stage and site.startswith(begin)]
    return places[mutant.nth]


@contextmanager
def _replaced(parts):
    with ExitStack() as stack:
        for owner, name, wrong in parts:
            made = patch(f"{owner}.{name}", wrong) if isinstance(owner, str) else patch.object(owner, name, wrong)
            stack.enter_context(made)
        yield
