"""The workload in the README runs as it stands there."""

import re
from functools import reduce

from shared.own import read_own
from shared.workloads import Line
from shared.workloads.registry import Workloads, run_lines
from tools.local.paths import ROOT

README = (ROOT / "README.md").read_text()
CODE = re.search(r"```python\n(.*?)```", README, re.DOTALL)[1]


def test_the_code_in_the_readme_is_a_workload_of_twelve_lines():
    """It is the file of own/ that the README says, and its settings name it. It adds up two chunks of sales."""
    assert len([line for line in CODE.splitlines() if line.strip()]) <= 12
    file = re.search(r"`(own/\w+\.py)` is a workload: `make up`", README)[1]
    assert (ROOT / file).read_text() == CODE, "write the README's text into own/sales.py"
    sales = Workloads.load(read_own(ROOT, {})["SLUICE_WORKLOADS"], {}).find("sales")
    chunks = [
        [b'{"units":2}', b'{"units":3}'],
        [b'{"units":4}', b'{"units":"x"}'],
    ]
    processed = [run_lines(sales, chunk, 0) for chunk in chunks]
    assert [one.reason for one in processed[1].rejections] == ["bad_amount"]
    assert processed[0].accepted.sums == {"units": "5"}
    assert list(sales.finish(reduce(sales.merge, [one.partial for one in processed]))) == [Line({"units": 9})]
