import random

import pytest

from shared.errors import RefusedError
from tests.fuzz import campaign, corpus, deliveries, grammar
from tests.fuzz.target import ACCEPTED, Target

SEED = 11
#: Cases of each target in a run of the tests; what costs more has fewer.
SLICE = 400


@pytest.fixture(autouse=True, scope="module")
def installation():
    """What the deliveries of this module are made to is closed at its end."""
    yield
    deliveries.close()


@pytest.mark.parametrize("name", campaign.TARGETS)
def test_whatever_comes_is_accepted_or_refused_by_name(name):
    """A slice of `make fuzz`; a tenth at least gets past every check, or the cases would say little."""
    most = min(SLICE, max(20, campaign.TARGETS[name].share // 200))
    _, tally = campaign.piece((name, SEED, 0, most))
    assert tally.failures == []
    assert tally.accepted >= 0.1


@pytest.mark.parametrize(("name", "was", "parts"), corpus.entries())
def test_what_failed_once_is_answered_now(name, was, parts):
    """Each input that a run found, as small as it could be made."""
    assert campaign.tried(campaign.TARGETS[name], parts)[1] is None, f"it was {was}"


def test_a_case_is_made_again_from_its_seed_and_number():
    """So that what one run found another one finds, on any machine."""
    for target in campaign.TARGETS.values():
        assert [campaign.made(target, 3, n) for n in range(20)] == [campaign.made(target, 3, n) for n in range(20)]


def test_what_no_page_knows_is_a_failure():
    """An exception, a reason that no catalogue has, and a case that does not end."""

    def never():
        while True:
            pass

    def unnamed():
        raise RefusedError("because", "", "")

    ends = {name: Target(name, None, run, 1) for name, run in {"raises": lambda: {}[1], "unnamed": unnamed}.items()}
    assert campaign.tried(ends["raises"], ())[1][0] == "KeyError in the check"
    assert "which no catalogue has" in campaign.tried(ends["unnamed"], ())[1][1]
    assert "EndlessError" in campaign.tried(Target("never", None, never, 1), ())[1][0]


def test_a_failing_input_is_made_smaller():
    """Only what the failure needs is kept."""

    def run(text):
        return [ACCEPTED][text.count(b"x")]

    found = campaign.smaller(Target("x", None, run, 1), (b"a" * 50 + b"x" + b"b" * 20,), "IndexError in the check")
    assert found == (b"x",)


def test_documents_stay_nearly_right():
    """A few fields are changed, the others are as they were, and no two documents are alike."""
    document = {"a": 1, "b": ["c", {"d": "e"}], "f": None}
    changed = {grammar.spelt(grammar.mutated(document, random.Random(n)), random.Random(n)) for n in range(300)}
    assert len(changed) > 150
    assert sum('"b"' in text for text in changed) > 0.6 * len(changed)
    assert any(text.count('"a"') > 1 for text in changed)
