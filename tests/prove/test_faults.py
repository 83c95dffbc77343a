"""Each step of a proof fails once, is interrupted once, and leaves nothing; a removal that fails says what is left."""

import threading
from contextlib import contextmanager

import pytest

from tests.prove.conftest import NAME, fail, nothing
from tests.waiting import until
from tools.local.prove.__main__ import INTERRUPTED, WRONG, prove
from tools.local.prove.acts import ACTS, ROLE_LOOKS
from tools.local.prove.shell import Done, Shell
from tools.local.prove.steps import BY_KEY, STEPS

#: A call of each step that can be broken.
CALL_OF = {
    "tools": ("az", "account", "show"),
    "absent": ("azd", "env", "list"),
    "environment": ("azd", "env", "set"),
    "provision": ("azd", "up"),
    "roles": ("az", "role"),
    "doctor": ("sluice", "doctor", "--json"),
    "deep": ("sluice", "doctor", "--deep"),
    "e2e": ("python", "-m", "pytest"),
    "job": ("sluice", "gate"),
    "kill": ("sluice", "submit"),
    "questions": ("az", "monitor", "log-analytics", "workspace"),
}
#: The step "kill" submits the second job.
SECOND = {"kill"}


#: Tests of what happens to a program.
with_programs = pytest.mark.parametrize("runs", [Shell], ids=["programs"])


def broken(key, act=fail):
    """Return the fault of a step's call."""
    left = [key in SECOND]

    def answer(words):
        return None if left and left.pop() else act(words)

    return {CALL_OF[key]: answer}


@with_programs
def test_nothing_fails_where_nothing_is_broken(cloud, concluded, tmp_path):
    """The status is 0, and the page has every step and every answer."""
    assert concluded() == 0
    text = (tmp_path / "page.md").read_text()
    assert [one.key for one in STEPS if f"\n| {one.key} |" not in text] == []
    assert "- failed: nothing; not reached: nothing" in text
    assert cloud.left() == []


def test_every_step_is_broken_below():
    """A step more needs its fault here."""
    assert {*CALL_OF, "remove"} == {one.key for one in STEPS}


@pytest.mark.parametrize("key", CALL_OF)
def test_a_step_that_fails_is_named_with_its_remedy_and_nothing_is_left(key, cloud, concluded, tmp_path, capsys):
    """The others go on where they do not need it."""
    cloud.faults = broken(key)
    assert concluded() == WRONG
    said = capsys.readouterr().err
    assert f"step {key} failed: " in said
    assert "broken on purpose" in said
    assert BY_KEY[key].remedy in said
    assert said.count(" failed: ") == 1
    assert cloud.left() == []
    assert (tmp_path / "page.md").exists() == (key not in {"tools", "absent"})


def test_a_project_leaves_out_the_tests_of_the_engine(cloud, concluded, monkeypatch, tmp_path):
    """It has none, and everything else is proven there as in the repository."""
    monkeypatch.setattr("tools.local.prove.acts.ROOT", tmp_path)
    assert concluded() == 0
    assert "left out: this is a project" in (tmp_path / "page.md").read_text()
    assert not cloud.is_called("python")


@with_programs
@pytest.mark.parametrize("key", CALL_OF)
def test_a_signal_within_a_step_ends_its_program_and_leads_to_the_removal(key, cloud, concluded, stop):
    """The program that runs is ended; what Azure goes on making meanwhile is removed too."""

    def interrupt(_):
        stop.set()

    cloud.faults = broken(key, interrupt)
    assert concluded() == INTERRUPTED
    assert cloud.left() == []
    later = [one.key for one in STEPS][[*CALL_OF].index(key) + 1 : -1]
    assert [one for one in later if one not in SECOND and cloud.is_called(*CALL_OF[one])] == []


@with_programs
def test_what_azure_goes_on_making_after_azd_was_ended_is_removed(cloud, concluded, stop, monkeypatch):
    """The group comes into being behind the removal, unless that ends the deployment first."""
    over = threading.Event()

    @contextmanager
    def slow():
        stop.set()
        until(lambda: over.is_set() or cloud.is_called("az", "deployment", "sub", "cancel"))
        with nothing() as made:
            yield made

    monkeypatch.setattr(cloud, "_make", slow)
    assert concluded() == INTERRUPTED
    over.set()
    # The deployment holds it to its end.
    with cloud._lock:
        assert cloud.left() == []


@with_programs
def test_a_second_signal_does_not_end_the_removal(cloud, concluded, stop):
    """A person who presses the keys twice would pay for it."""

    def interrupt(_):
        stop.set()

    cloud.faults = {("sluice", "doctor"): interrupt, ("azd", "down"): interrupt, ("az", "group"): interrupt}
    assert concluded() == INTERRUPTED
    assert cloud.left() == []


def test_what_azd_cannot_take_down_is_deleted_as_a_group(cloud, site, stop):
    """That is no fault of the run."""
    cloud.faults = {("azd", "down"): fail}
    ended = prove(site, stop, ACTS, lambda: 0.0)
    assert (ended[-1].key, ended[-1].problem) == ("remove", "")
    assert cloud.is_called("az", "group", "delete")
    assert cloud.left() == []


def test_locks_are_taken_away_before_the_group(cloud, site, stop):
    """A person's own parameters may put one on the account, and it refuses every deletion."""
    locks = ["/subscriptions/s/locks/keep"]
    cloud.faults = {
        ("az", "lock", "list"): lambda _: Done(0, f'[{{"id": "{locks[0]}"}}]', ""),
        ("az", "lock", "delete"): lambda words: Done(0, "", "") if words[-1] == locks.pop() else fail(words),
        ("azd", "down"): lambda words: fail(words) if locks else None,
    }
    assert prove(site, stop, ACTS, lambda: 0.0)[-1].problem == ""
    assert not cloud.is_called("az", "group", "delete")


def test_a_removal_that_fails_says_what_is_left_and_the_command(cloud, concluded, tmp_path, capsys):
    """And why: the words of what hindered it."""
    cloud.faults = {("azd", "down"): fail, ("az", "group", "delete"): fail}
    assert concluded() == WRONG
    said = capsys.readouterr().err
    assert f"left: the resource group rg-{NAME}: `az group delete --name rg-{NAME} --yes`" in said
    assert "broken on purpose" in said
    assert cloud.left() == [f"the resource group rg-{NAME}"]
    assert f"rg-{NAME}" in (tmp_path / "page.md").read_text()


def test_a_removal_that_cannot_look_says_so(cloud, concluded, capsys):
    """Where az answers nothing any more, the person must look."""
    cloud.faults = {("azd", "up"): lambda _: cloud.faults.update({("az",): fail}) or fail(_)}
    assert concluded() == WRONG
    assert f"perhaps the resource group rg-{NAME}" in capsys.readouterr().err


@pytest.mark.parametrize("there", ["group", "environment"])
def test_a_name_that_is_taken_is_refused_and_stays(there, cloud, concluded, tmp_path):
    """It is not the run's own, whoever made it."""
    folder = cloud.kept / NAME
    folder.mkdir()
    (folder / "values.json").write_text("{}")
    if there == "group":
        cloud.up(["azd", "up", "--environment", NAME])
    before = cloud.left()
    assert concluded() == WRONG
    assert cloud.left() == before
    assert not (tmp_path / "page.md").exists()
    assert not cloud.is_called("azd", "env", "new")


def test_azds_default_environment_is_the_one_of_before(cloud, site, stop):
    """A person's next `azd up` goes where it went."""
    settings = cloud.kept / "config.json"
    settings.write_text('{"version": 1, "defaultEnvironment": "mine"}')
    prove(site, stop, ACTS, lambda: 0.0)
    assert settings.read_text() == '{"version": 1, "defaultEnvironment": "mine"}'


def test_a_fault_of_the_program_itself_leads_to_the_removal_too(cloud, site, stop):
    """What nobody thought of must not cost money for a month."""
    cloud.faults = {("azd", "env", "get-values"): lambda _: Done(0, "[1]", "")}
    ended = {one.key: one.problem for one in prove(site, stop, ACTS, lambda: 0.0)}
    assert "AttributeError" in ended["provision"]
    assert ended["remove"] == ""
    assert cloud.left() == []


def test_new_roles_are_waited_for(cloud, site, stop):
    """As long as a service refuses the login, and no longer than the looks last."""
    looks = []

    def refuse(_):
        looks.append(1)
        refused = '{"findings": [{"kind": "queue", "name": "a", "state": "refused", "problem": "refuses your login"}]}'
        return Done(1, refused, "") if len(looks) < 3 else None

    cloud.faults = {("sluice", "doctor", "--json"): refuse}
    assert [one.problem for one in prove(site, stop, ACTS, lambda: 0.0) if one.problem] == []
    assert len(looks) == 3
    looks[:] = []
    cloud.faults = {
        ("sluice", "doctor", "--json"): lambda words: (
            refuse(words) if len(looks) < 2 else looks.clear() or refuse(words)
        )
    }
    ended = {one.key: one.problem for one in prove(site, stop, ACTS, lambda: 0.0)}
    assert ended["doctor"] == "queue a refuses your login"
    assert sum(one[:3] == ["sluice", "doctor", "--json"] for one in cloud.calls) == 3 + ROLE_LOOKS


def test_a_program_that_hangs_is_ended_after_its_time(cloud, site):
    """With everything that it started."""
    done = site.shell.call("sh", "-c", "sleep 600 & wait", minutes=0.001)
    assert done.status == 124
    assert "took longer" in done.last_words


def test_a_step_that_takes_longer_than_its_share_is_ended(cloud, site, stop, monkeypatch):
    """Otherwise the price that was said before would not be the highest one."""
    begin = site.shell.begin

    def shorten(minutes, *, heeds_stop):
        begin(0 if minutes == BY_KEY["questions"].minutes else minutes, heeds_stop=heeds_stop)

    monkeypatch.setattr(site.shell, "begin", shorten)
    problems = {one.key: one.problem for one in prove(site, stop, ACTS, lambda: 0.0) if one.problem}
    assert [*problems] == ["questions"]
    assert "longer than it may" in problems["questions"]
    assert cloud.left() == []


@with_programs
def test_a_program_that_is_missing_is_named(site, stop, cloud):
    """Who has no azd reads what to install."""
    (cloud.programs / "azd").unlink()
    [first] = prove(site, stop, ACTS, lambda: 0.0)
    assert "azd is not on the PATH" in first.problem


@with_programs
def test_a_token_stands_in_no_log(cloud, site, stop, tmp_path):
    """It would open the subscription for an hour."""
    prove(site, stop, ACTS, lambda: 0.0)
    log = (tmp_path / "log").read_text()
    assert "get-access-token" in log
    assert ".signature" not in log


def test_settings_of_another_installation_reach_no_program(cloud, site, monkeypatch):
    """A terminal may have those of production."""
    monkeypatch.setenv("SluiceBus__fullyQualifiedNamespace", "production")
    monkeypatch.setenv("SLUICE_ROOMS", "team-a")
    out = site.shell.call("env", minutes=1, settings={"SluiceStorage": "of the proof"}).out
    assert "production" not in out
    assert "SLUICE_ROOMS" not in out
    assert "SluiceStorage=of the proof" in out
