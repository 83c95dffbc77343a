"""The beginning of a name stands for the name, where it fits one."""

import pytest

from shared.errors import AmbiguousError
from shared.operating.prefixes import complete_prefix


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("3146", "3146415e4c0f"),
        ("3146415e4c0f", "3146415e4c0f"),
        # Too short to select by.
        ("314", "314"),
        ("9999", "9999"),
        # A whole name is meant, although another one begins with it.
        ("night", "night"),
    ],
)
def test_what_is_typed_is_completed(typed, meant):
    """Only where one name begins so; else what was typed stays."""
    assert complete_prefix(typed, ["3146415e4c0f", "7a00aa00aa00", "night", "nightly"], "names") == meant


def test_several_names_are_told():
    """Whoever types too little reads what fits, and nothing is chosen for them."""
    with pytest.raises(AmbiguousError, match="2 fingerprints begin with '3146': 314600000000, 314611111111; type more"):
        complete_prefix("3146", ["314611111111", "314600000000"], "fingerprints")
    with pytest.raises(AmbiguousError, match="and 3 more"):
        complete_prefix("many", [f"many-{n}" for n in range(8)], "jobs")
