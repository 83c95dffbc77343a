"""What is worked out of Bicep files: loops, conditions, modules, and what stays unknown until it is deployed."""

from types import SimpleNamespace

import azure.functions as func
import pytest

from functions import accept_submission
from shared.grammar import LONGEST_ROOM, MOST_ROOMS
from shared.settings import Settings
from shared.topology import rooms, topology
from tools.local.infra import entities
from tools.local.infra.bicep import BicepError, read
from tools.local.infra.deployment import deployed
from tools.local.infra.expressions import Unknown
from tools.local.infra.project import Project
from tools.local.stack import sample_values

ACCOUNT = "resource account 'A.B/accounts@1' = {\n  name: 'one'\n}\n"


@pytest.fixture
def made(tmp_path):
    """Write a main file, and modules beside it, and work them out."""

    def make(main, modules=(), **parameters):
        for name, text in dict(modules).items():
            (tmp_path / name).write_text(text)
        (tmp_path / "main.bicep").write_text(main)
        return deployed(tmp_path / "main.bicep", parameters, {})

    return make


def outputs(made, expression, head=""):
    """Return the value of an expression."""
    return made(f"{head}\noutput value object = {expression}").outputs["value"]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("'a-${1}-${true}'", "a-1-true"),
        (r"'it\'s'", "it's"),
        ("union({ a: 1, b: 1 }, { b: 2 })", {"a": 1, "b": 2}),
        ("union(['a', 'b'], ['b', 'c'])", ["a", "b", "c"]),
        ("take(concat(['a'], ['b', 'c']), 2)", ["a", "b"]),
        ("[for (x, i) in ['a', 'b']: '${x}${i * 2}']", ["a0", "b2"]),
        ("[for x in items({ b: 2, a: 1 }): x.key]", ["a", "b"]),
        ("join(['a', 'b'], ',')", "a,b"),
        ("empty('') && !empty([1]) ? 'yes' : 'no'", "yes"),
        ("1 > 2 || 2 >= 2", True),
        ("{ 'a-b': [null, -1] }['a-b'][1]", -1),
    ],
)
def test_an_expression_has_its_value(made, expression, value):
    """As Bicep has it."""
    assert outputs(made, expression) == value


def test_a_loop_deploys_a_resource_for_each_item(made):
    """Children of a looped parent are named below theirs."""
    found = made(
        ACCOUNT
        + "resource rows 'A.B/accounts/rows@1' = [for name in ['x', 'y']: {\n  parent: account\n  name: name\n}]\n"
        + "resource cells 'A.B/accounts/rows/cells@1' = [for i in [0, 1]: {\n  parent: rows[i]\n  name: 'c'\n}]\n"
    )
    assert [one.name for one in found.of_type("A.B/accounts/rows/cells")] == ["one/x/c", "one/y/c"]


@pytest.mark.parametrize(("wanted", "count"), [(True, 1), (False, 0)])
def test_a_condition_decides(made, wanted, count):
    """What its condition refuses is not deployed, and asking it for something is no error."""
    head = "param wanted bool\n"
    body = "resource a 'A.B/c@1' = if (wanted) {\n  name: 'a'\n}\noutput id string = a.id\n"
    found = made(head + body, wanted=wanted)
    assert len(found.resources) == count


def test_what_only_azure_knows_is_told_apart_by_where_it_comes_from(made):
    """The same property of the same resource is the same value, also through `existing`."""
    found = made(
        ACCOUNT
        + "resource again 'A.B/accounts@1' existing = {\n  name: 'one'\n}\n"
        + "output first string = account.properties.address\noutput second string = again.properties.address\n"
    )
    assert found.outputs["first"] == found.outputs["second"] == Unknown("A.B/accounts:one.properties.address")
    assert len(found.resources) == 1


def test_a_module_sees_its_parameters_and_gives_its_outputs(made):
    """Within it a parameter's default counts when nothing was given."""
    module = "param name string\nparam mark string = '!'\noutput said string = '${name}${mark}'\n"
    main = "module one 'm.bicep' = {\n  params: { name: 'hello' }\n}\noutput said string = one.outputs.said\n"
    assert made(main, {"m.bicep": module}).outputs["said"] == "hello!"


def test_a_loop_deploys_a_module_for_each_item(made):
    """Not the first alone: what the others create would be checked by nobody."""
    module = "param name string\nresource one 'A.B/accounts@1' = {\n  name: name\n}\n"
    main = "module all 'm.bicep' = [for name in ['x', 'y']: {\n  params: { name: name }\n}]\n"
    assert [one.name for one in made(main, {"m.bicep": module}).resources] == ["x", "y"]


@pytest.mark.parametrize(
    ("main", "said"),
    [
        ("output a string = nothing", "nothing is called nothing"),
        ("output a string = utcNow()", "do not know the function utcNow"),
        ("var v = { b: 1 }\noutput a string = v.c", "there is no 'c'"),
        ("param p string\noutput a string = p", "neither value nor default"),
        ("output a string = {", "does not parse"),
        ("resource r 'A.B/c@1' = {\n  tags: {}\n}", "r has no name"),
        ("resource r 'A.B/c/d@1' = {\n  name: 'x'\n}", "is its parent missing"),
    ],
)
def test_what_cannot_be_worked_out_says_where_and_why(made, main, said):
    """A person finds the line, or the name that leads to it."""
    with pytest.raises(BicepError, match=said) as error:
        made(main)
    assert "main.bicep" in str(error.value)


def test_no_filtered_subscription_keeps_the_rule_that_passes_everything():
    """A subscription is born with a rule called $Default that passes all: its own first rule must take that name."""
    found = Project().deployed()
    rules = {one.name for one in found.of_type("Microsoft.ServiceBus/namespaces/topics/subscriptions/rules")}
    (namespace,) = found.of_type("Microsoft.ServiceBus/namespaces")
    for topic in topology().bus.topics:
        for one in topic.subscriptions:
            assert (f"{namespace.name}/{topic.name}/{one.name}/$Default" in rules) == bool(one.filters)


def test_publishers_reach_the_queue_that_the_app_takes_submissions_from():
    """Where they may write is where the app takes from, and both places are in the topology, of each room too."""
    settings = Settings.parse({**sample_values(), "SLUICE_ROOMS": "team-a,b"})
    functions = accept_submission.blueprint(SimpleNamespace(settings=settings))
    app = func.FunctionApp()
    app.register_functions(functions)
    listening = {one.get_function_name(): one.get_trigger().queue_name for one in app.get_functions()}
    inbound, whole = entities.INBOUND, topology(entities=[rooms(settings.rooms)])
    assert listening == {"accept_submission": inbound["queue"]}
    assert {inbound["queue"], f"{inbound['queue']}-team-a", f"{inbound['queue']}-b"} <= set(whole.queues)
    assert {inbound["container"], f"{inbound['container']}-team-a"} <= set(whole.containers)
    assert {f"{inbound['queue']}-poison"} == {
        name for name in whole.queues if name.startswith("sub") and "poison" in name
    }


def test_the_deployment_takes_as_many_rooms_as_the_app():
    """One more is refused before anything is made, not by an app that does not start."""
    assert read(Project().main).parameters["rooms"].decorators["maxLength"] == str(MOST_ROOMS)


def test_the_longest_room_has_names_that_azure_takes():
    """63 characters a queue or container, 64 a deployment."""
    room = "r" * LONGEST_ROOM
    whole = topology(entities=[rooms([room])])
    assert max(map(len, (*whole.queues, *whole.containers))) <= 63
    assert len(f"roles-of-room-{room}") <= 64
