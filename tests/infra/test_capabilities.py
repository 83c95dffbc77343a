"""Several capabilities in one deployment: each entity, rule and right is there, on its own parent."""

import json
import shutil
from itertools import chain, combinations

import pytest

from shared.topology import topology
from tests.own_returns import add_returns
from tools.local.infra.capabilities import chosen, document
from tools.local.infra.checks import entities, roles
from tools.local.infra.project import Project
from tools.local.paths import ROOT

OWN = "deployed_of_test:CAPABILITY"
#: The one of docs/processes.md.
RETURNS = "own.returns:RETURNS"
#: With a topic and filters of its own, so that a parent that is found by its place is a wrong one.
CODE = """
from types import MappingProxyType
from shared.topology import CorrelationFilter, DeliveryRules, Subscription, Topic
from sluice.capability import BusEntities, BusQueue, Capability, Entities, bus, dead_letters

def entities(choice):
    forwarded = DeliveryRules(forward_dead_letters="parcels-dead")
    kind = CorrelationFilter(MappingProxyType({"parcel": True}))
    topics = (Topic("parcel-events", (Subscription("all", (), forwarded), Subscription("some", (kind,), forwarded))),)
    queues = (BusQueue("parcels-dead"), BusQueue("carriers", forwarded))
    return (Entities("parcels", ("parcels",), ("parcelstates",), ("parcelhomes",), BusEntities(queues, topics)),)

CAPABILITY = Capability(
    name="parcels",
    entities=entities,
    triggers=lambda _: (
        dead_letters("park_parcels", "parcels-dead", "park"),
        bus("hear_carriers", "carriers", "hear"),
        bus("show_parcels", "parcel-events/some", "show"),
    ),
)
"""
WORDS = ("registration", "console", OWN)
LINES = [*chain.from_iterable(combinations(WORDS, number) for number in range(len(WORDS) + 1)), (OWN, "registration")]
LINES += [(RETURNS,), ("registration", RETURNS), (RETURNS, "registration"), (RETURNS, OWN)]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of infra with a capability of somebody's own beside those of Sluice."""
    root = tmp_path_factory.mktemp("own")
    (root / "deployed_of_test.py").write_text(CODE)
    for name in ("infra", "functions"):
        shutil.copytree(ROOT / name, root / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(root)
        shutil.copytree(ROOT / "own", root / "own")
        add_returns(root / "own", patch)
        (root / "own" / "infra" / "capabilities.json").write_text(
            json.dumps({OWN: document(OWN), RETURNS: document(RETURNS)})
        )
        yield Project(root=root)


@pytest.mark.parametrize("line", LINES, ids=",".join)
def test_each_set_of_capabilities_is_deployed_as_the_topology_says(project, line):
    """Bicep learns the places of entities at a deployment only: it finds parents by their names."""
    deployment = project.deployed(capabilities=",".join(line))
    parts = [part for said in line for part in chosen(said).entities]
    assert [str(one) for one in entities.compare(topology(1, parts), deployment)] == []
    counted = {scope for said in line for _, scope in roles.of_capability_of_app(chosen(said))}
    rights = [one for one in deployment.resources if one.type.endswith("roleAssignments")]
    assert counted <= {roles.scope_of(one) for one in rights}


def test_a_capability_that_no_file_has_fails_the_deployment(project):
    """Its app would start and listen to nothing."""
    with pytest.raises(Exception, match="there is no 'returns'"):
        project.deployed(capabilities="returns")
