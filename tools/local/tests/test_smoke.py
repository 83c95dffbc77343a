"""The one test of Sluice that a project has: the stack starts with its own code and settings, and is whole."""

import json
import urllib.request

from tools.cli.doctor import examine
from tools.local.stack import StackOptions, running


def test_the_stack_starts_with_this_project_s_code() -> None:
    """A workload that cannot be loaded, or a setting that is wrong, stops the start, and the error names it."""
    with running(StackOptions(instances=1)) as stack:
        assert [one for one in examine(stack.settings) if one.problem] == []
        with urllib.request.urlopen(f"{stack.host.base_url}/api/health") as reply:
            assert json.load(reply)["status"] == "ok"
