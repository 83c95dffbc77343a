"""What `make test` leaves out, and says so at its end. `--all` runs it too, and so does whoever names a path.

Of the longest enumerations `--all` tries a drawn part in each run. Whoever names their path tries all of it.
"""

from collections import Counter
from datetime import UTC, datetime
from functools import cache
from zlib import crc32

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
#: Of a long enumeration: one in so many in a usual run, and in one of everything. The second divides no number of modes of faults, so
#: that each mode is drawn.
USUAL, DRAWN = 10, 5
_COUNTS = pytest.StashKey[Counter]()
_IS_WHOLE = pytest.StashKey[bool]()
#: By what a run of everything draws; empty where nothing is drawn.
_SEED = pytest.StashKey[str]()


def add_option(parser):
    """Add `--all` and `--drawn`."""
    parser.addoption("--all", action="store_true", help="run what is left out otherwise, as CI does")
    parser.addoption(
        "--drawn", metavar="SEED", help="draw of long enumerations what another run drew: its end says by what"
    )


def is_whole(config):
    """Return whether this run leaves nothing out."""
    return config.stash[_IS_WHOLE]


def every_tenth(table):
    """Return the rows of a table of faults as parameters: every tenth runs always, and in CI a drawn part of the others."""
    rest = pytest.mark.ci("every tenth row of a table of faults runs, and these are the others", is_drawn=True)
    return [pytest.param(*row, marks=() if number % USUAL == 0 else rest) for number, row in enumerate(table)]


def some(config, name, points):
    """Return those of an enumeration that this run tries."""
    points = list(points)
    if not is_whole(config):
        return points[::USUAL]
    if not (seed := config.stash[_SEED]):
        return points
    return points[_lot(seed, name) % min(DRAWN, len(points)) :: DRAWN]


def _lot(seed, name):
    return crc32(f"{seed} {name}".encode())


def pytest_configure(config):
    """Decide once what runs; a worker of pytest-xdist is told, because it is always handed paths."""
    is_named = config.args_source is pytest.Config.ArgsSource.ARGS
    if config.getoption("--all") and not is_named:
        config.args += PACKAGES
    decided = {
        "is_whole": is_named or config.getoption("--all"),
        "seed": "" if is_named else config.getoption("--drawn") or datetime.now(UTC).date().isoformat(),
    } | getattr(config, "workerinput", {})
    config.stash[_IS_WHOLE], config.stash[_SEED] = decided["is_whole"], decided["seed"]
    config.stash[_COUNTS] = Counter()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Tell a worker what was decided."""
    node.workerinput |= {"is_whole": node.config.stash[_IS_WHOLE], "seed": node.config.stash[_SEED]}


def pytest_ignore_collect(collection_path, config):
    """Read no folder that is left out."""
    return True if not config.stash[_IS_WHOLE] and _is_left_out(collection_path) else None


def pytest_collection_modifyitems(config, items):
    """Leave out the tests that are for CI; a whole run begins with their files, which take longest and wait most."""
    is_whole_run, seed = config.stash[_IS_WHOLE], config.stash[_SEED]
    slow, kept = set(), []
    for item in items:
        marker = item.get_closest_marker("ci")
        if marker or _is_left_out(item.path):
            slow.add(item.path)
        if is_whole_run:
            is_kept = not marker or not seed or not marker.kwargs or _lot(seed, item.nodeid) % DRAWN == 0
        else:
            # No hook of this folder is called for a path outside of it.
            is_kept = not marker and not _is_left_out(item.path)
        if is_kept:
            kept.append(item)
        elif marker:
            config.stash[_COUNTS][marker.args[0]] += 1
    items[:] = sorted(kept, key=lambda item: item.path not in slow) if is_whole_run else kept


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
    """Say what was left out and why, or by what a part was drawn."""
    counts, seed = sorted(config.stash[_COUNTS].items()), config.stash[_SEED]
    if not config.stash[_IS_WHOLE]:
        terminalreporter.section("left out; CI runs it, and `make test ARGS=--all`, and who names a path")
        left_out = PACKAGES | LEFT_OUT
        for why in dict.fromkeys(left_out.values()):
            paths = [path for path, reason in left_out.items() if reason == why]
            folders = ", ".join(dict.fromkeys(path.rpartition("/test_")[0] or path for path in paths))
            terminalreporter.line(f"{sum(map(_files, paths))} files of {folders}: {why}")
    elif seed:
        terminalreporter.section(
            f'drawn by {seed}; `make test ARGS="--all --drawn {seed}"` draws the same; a path runs all'
        )
    for why, count in counts:
        terminalreporter.line(f"{count} tests: {why}")


@cache
def _is_left_out(path):
    return not {path, *path.parents}.isdisjoint(ROOT / name for name in LEFT_OUT)


def _files(path):
    return len([*(ROOT / path).rglob("test_*.py")]) if (ROOT / path).is_dir() else 1
