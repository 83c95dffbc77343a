"""The worked example of idle polling."""

from decimal import Decimal

from tools.planning.example import PRINTED, IdlePolling


def test_the_example_to_the_cent():
    """79,200 requests a day and poller, 2.376 dollars a month, 475.20 for 200; the published sum is another one."""
    example = IdlePolling()
    assert (example.a_day, example.month_each, example.month) == (79_200, Decimal("2.376"), Decimal("475.200"))
    assert example.month != PRINTED
    assert PRINTED % example.month_each, "no whole number of pollers makes the published sum"
    assert IdlePolling(seconds=Decimal(60)).a_day == 1_320
