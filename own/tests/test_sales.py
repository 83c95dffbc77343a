from own.sales import Sales
from sluice.testing import run_lines
from sluice.workloads import Line


def test_units_are_added_up():
    sales = Sales()
    processed = run_lines(sales, [b'{"units":2}', b'{"units":3}', b'{"units":"x"}'], 0)
    assert [one.reason for one in processed.rejections] == ["bad_amount"]
    assert list(sales.finish(processed.partial)) == [Line({"units": 5})]
