"""What `make test` leaves out, and says so at its end. `--all` runs it too, and so does whoever names a path."""

from collections import Counter
from functools import cache

import pytest

from tools.local.paths import ROOT

_CAMPAIGN = "a campaign against a whole stack"
#: Tests that stand beside what they test. No run finds them that does not name them.
PACKAGES = {
    "tools/packages/functions-local-host/tests/host_tests": "the host is a package of its own",
    "tools/packages/servicebus-local/tests/broker_tests": "the broker is a package of its own",
}
#: Folders and files that are not even read, each with its reason. Single tests say theirs: `@pytest.mark.ci("...")`.
LEFT_OUT = {
    "tests/others": "software of others must be installed: `make others`",
    "tests/browser": "a browser must be installed: `make browser`",
    "tests/chaos": _CAMPAIGN,
    "tests/publish/test_published_by_others.py": "starts a stack of its own",
    "tests/publish/test_examples_here.py": "starts a stack of its own",
    "tests/release/test_wheel.py": "builds, installs or resolves packages",
    "tests/release/test_packages.py": "builds, installs or resolves packages",
    "tools/local/tests": "what a project has in place of these tests",
    "tests/infra/test_package.py": "builds, installs or resolves packages",
    "tests/fuzz": _CAMPAIGN,
    **dict.fromkeys(
        (
            f"tests/outside/test_{name}.py"
            for name in ("examples", "hostile", "order_rush", "order_secrets", "rights", "rooms", "seats")
        ),
        _CAMPAIGN,
    ),
    **dict.fromkeys(
        (
            f"tests/e2e/test_{name}.py"
            for name in (
                "canary",
                "console",
                "documents",
                "first_sale",
                "gate_release",
                "hints",
                "orders",
                "rooms",
                "start",
                "up",
                "work_queues",
            )
        ),
        "starts a stack of its own; test_app.py and test_pipeline.py run",
    ),
}
_COUNTS = pytest.StashKey[Counter]()
_IS_WHOLE = pytest.StashKey[bool]()


def add_option(parser):
    """Add `--all`."""
    parser.addoption("--all", action="store_true", help="run what is left out otherwise, as CI does")


def is_whole(config):
    """Return whether this run leaves nothing out."""
    return config.stash[_IS_WHOLE]


def every_tenth(table):
    """Return the rows of a table of faults as parameters: every tenth runs always, and all of them in CI."""
    rest = pytest.mark.ci("every tenth row of a table of faults runs, and these are the others")
    return [pytest.param(*row, marks=() if number % 10 == 0 else rest) for number, row in enumerate(table)]


def pytest_configure(config):
    """Decide once what runs; a worker of pytest-xdist is told, because it is always handed paths."""
    is_named = config.args_source is pytest.Config.ArgsSource.ARGS
    if config.getoption("--all") and not is_named:
        config.args += PACKAGES
    decided = getattr(config, "workerinput", {}).get("is_whole", is_named or config.getoption("--all"))
    config.stash[_IS_WHOLE] = decided
    config.stash[_COUNTS] = Counter()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Tell a worker what was decided."""
    node.workerinput["is_whole"] = node.config.stash[_IS_WHOLE]


def pytest_ignore_collect(collection_path, config):
    """Read no folder that is left out."""
    return True if not config.stash[_IS_WHOLE] and _is_left_out(collection_path) else None


def pytest_collection_modifyitems(config, items):
    """Leave out the tests that are for CI; a whole run begins with their files, which take longest and wait most."""
    if config.stash[_IS_WHOLE]:
        slow = {item.path for item in items if item.get_closest_marker("ci") or _is_left_out(item.path)}
        items.sort(key=lambda item: item.path not in slow)
        return
    kept = []
    for item in items:
        if _is_left_out(item.path):
            # No hook of this folder is called for a path outside of it.
            continue
        if (marker := item.get_closest_marker("ci")) is None:
            kept.append(item)
        else:
            config.stash[_COUNTS][marker.args[0]] += 1
    items[:] = kept


def pytest_sessionfinish(session):
    """Hand the counts of a worker to the process that prints them."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = dict(session.config.stash[_COUNTS])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Keep the counts of a worker: each one has read the same tests."""
    if found := getattr(node, "workeroutput", {}).get("left_out"):
        node.config.stash[_COUNTS] = Counter(found)


def pytest_terminal_summary(terminalreporter, config):
    """Say what was left out and why."""
    if config.stash[_IS_WHOLE]:
        return
    terminalreporter.section("left out; CI runs it, and `make test ARGS=--all`, and who names a path")
    left_out = PACKAGES | LEFT_OUT
    for why in dict.fromkeys(left_out.values()):
        paths = [path for path, reason in left_out.items() if reason == why]
        folders = ", ".join(dict.fromkeys(path.rpartition("/test_")[0] or path for path in paths))
        terminalreporter.line(f"{sum(map(_files, paths))} files of {folders}: {why}")
    for why, count in sorted(config.stash[_COUNTS].items()):
        terminalreporter.line(f"{count} tests: {why}")


@cache
def _is_left_out(path):
    return not {path, *path.parents}.isdisjoint(ROOT / name for name in LEFT_OUT)


def _files(path):
    return len([*(ROOT / path).rglob("test_*.py")]) if (ROOT / path).is_dir() else 1
