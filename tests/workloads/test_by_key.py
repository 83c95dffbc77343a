"""`by_key`: a ready split for a partial that is a dict by account."""

from hypothesis import given, strategies as st

from shared.workloads import by_key, has_split, shard_of, split


class Plain:
    """A workload with nothing but a split."""

    name, split = "plain", by_key


@given(st.dictionaries(st.text(max_size=9), st.integers(), max_size=40), st.sampled_from([1, 2, 16, 256, 4096]))
def test_each_account_is_in_its_cut_once(partial, count):
    """All cuts together are the whole."""
    cuts = split(Plain(), partial, count)
    assert len(cuts) == count
    assert {key: value for cut in cuts for key, value in cut.items()} == partial
    assert all(shard_of(key, count) == number for number, cut in enumerate(cuts) for key in cut)


def test_it_counts_as_a_split():
    """So its jobs are published in shards."""
    assert has_split(Plain())


def test_two_bytes_leave_the_shards_of_before():
    """Readers of powers of two up to 256 took the first byte alone."""
    for text in ("", "a-1", "ä", "account/7#?"):
        assert [shard_of(text, 4096) % count for count in (2, 16, 256)] == [
            shard_of(text, count) for count in (2, 16, 256)
        ]
    assert len({shard_of(str(number), 4096) for number in range(20_000)}) > 4000
