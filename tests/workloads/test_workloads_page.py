"""The page on workloads: the code on it runs as it stands."""

import re
import sys
from decimal import Decimal
from functools import reduce

import msgspec

from shared.workloads import Line, Total, shard_of, split
from shared.workloads.registry import Workloads, run_lines
from tools.local import docs, readme
from tools.local.paths import ROOT

PAGE = (ROOT / "docs" / "workloads.md").read_text()
SALES, CODE, LINES, TEST, SPLIT = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_code_on_the_page_is_a_workload_of_thirty_lines(tmp_path, monkeypatch):
    """Copied into a file and named as the page says, it takes a file of sales to totals."""
    assert len([line for line in CODE.splitlines() if line.strip()]) <= 30
    (tmp_path / "shops.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    setting = re.search(r"`SLUICE_WORKLOADS` names it as `own\.(shops:Shops)`", PAGE)[1]
    try:
        shops = Workloads.load(setting, {}).find("shops")
    finally:
        sys.modules.pop("shops", None)
    chunks = [[b'{"shop":"a","amount":"1.10"}', b'{"shop":"b","amount":"2"}'], [b'{"shop":"a","amount":"-1"}', b"{}"]]
    processed = [run_lines(shops, chunk, 0) for chunk in chunks]
    partials = [msgspec.json.decode(msgspec.json.encode(one.partial), type=shops.partial) for one in processed]
    assert [one.reason for one in processed[1].rejections] == ["bad_amount", "does_not_fit"]
    assert processed[0].accepted.sums == {"amount": "3.10"}
    yielded = list(shops.finish(reduce(shops.merge, partials)))
    assert yielded == [
        Line({"shop": "a", "amount": "1.10"}),
        Total("a", {"amount": "1.10"}),
        Line({"shop": "b", "amount": "2"}),
        Total("b", {"amount": "2"}),
    ]
    assert Decimal(yielded[1].properties["amount"]) == Decimal("1.10")


def test_the_lines_on_the_page_are_made_of_each_transaction():
    """As it stands, and without the four parts of a workload that has totals."""
    names, emitted = {}, []
    exec(LINES, names)
    rated = Workloads([names["Rated"]()]).find("rated")
    calls = [b'{"account":"a","seconds":"1.5"}', b"{}", b'{"account":"b","seconds":"2"}']
    ran = run_lines(rated, calls, 7, lambda text, _items: emitted.append(text))
    assert (ran.accepted.sums, ran.rejected.items) == ({"seconds": "3.5"}, 1)
    assert list(map(msgspec.json.decode, b"".join(emitted).splitlines())) == [
        {"number": 7, "account": "a", "amount": "3.0"},
        {"number": 9, "account": "b", "amount": "4"},
    ]


def test_the_split_on_the_page_keeps_every_account_in_its_shard():
    """Merged, the slices are the whole; each slice is of the type that is stored."""
    names = {}
    exec(CODE + SPLIT, names)
    shops, whole = names["SplitShops"](), {f"shop-{n}": Decimal(n) for n in range(100)}
    slices = split(shops, dict(whole), 16)
    assert reduce(shops.merge, slices) == whole
    for number, one in enumerate(slices):
        stored = msgspec.json.decode(msgspec.json.encode(one), type=shops.partial)
        assert {shard_of(item.account, 16) for item in shops.finish(stored) if isinstance(item, Total)} == {number}


def test_the_test_on_the_page_passes():
    """On the example of own/, which is the README's."""
    names = {}
    exec(TEST, names)
    names["test_sales_keeps_its_promises"]()


def test_the_first_code_on_the_page_is_the_readme_s():
    """One `sales.py`: whoever goes on from the README finds the file that they have."""
    assert readme.workload() == SALES


def test_no_page_has_another_sales_py():
    """A block that defines the class is that file, wherever it stands."""
    pages = [page.read_text() for page in docs.documents()]
    found = [code for page in pages for code in re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)]
    assert {code for code in found if "class Sales:" in code} == {SALES}
