"""The workload in the README runs as it stands there."""

import re
import sys
from functools import reduce

from shared.workloads import Line
from shared.workloads.registry import Workloads, run_lines
from tools.local.paths import ROOT

README = (ROOT / "README.md").read_text()
CODE = re.search(r"```python\n(.*?)```", README, re.DOTALL)[1]


def test_the_code_in_the_readme_is_a_workload_of_twelve_lines(tmp_path, monkeypatch):
    """Copied into the file and named in the setting that the README says, it adds up two chunks of sales."""
    assert len([line for line in CODE.splitlines() if line.strip()]) <= 12
    file, setting = re.search(r"`(\w+\.py)` in this folder, and `SLUICE_WORKLOADS=(\S+) make up`", README).groups()
    (tmp_path / file).write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        sales = Workloads.load(setting, {}).find("sales")
    finally:
        sys.modules.pop("sales", None)
    chunks = [
        [b'{"units":2}', b'{"units":3}'],
        [b'{"units":4}', b'{"units":"x"}'],
    ]
    processed = [run_lines(sales, chunk, 0) for chunk in chunks]
    assert [one.reason for one in processed[1].rejections] == ["bad_amount"]
    assert processed[0].accepted.sums == {"units": "5"}
    assert list(sales.finish(reduce(sales.merge, [one.partial for one in processed]))) == [Line({"units": 9})]
