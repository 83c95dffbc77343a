"""What every OptimisticStore promises, in memory and in a blob."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from shared.azure import BlobStore, OptimisticStore, connect
from shared.errors import StorageUnavailableError


def written(store: OptimisticStore, value: bytes, etag: str | None) -> str:
    """Write, and expect it to be accepted."""
    new_etag = store.try_write(value, etag)
    assert new_etag
    return new_etag


def test_what_was_never_written_is_not_there(store: OptimisticStore):
    """A read of nothing says so instead of failing, whether or not the container exists."""
    assert store.read() is None


def test_a_value_comes_back_with_the_etag_its_write_returned(store: OptimisticStore):
    """A writer may rest its next write on the answer to its last one, without reading."""
    etag = written(store, b"one", None)
    snapshot = store.read()
    assert snapshot is not None
    assert (snapshot.value, snapshot.etag) == (b"one", etag)
    written(store, b"two", etag)


def test_a_value_that_exists_is_not_created_again(store: OptimisticStore):
    """Of two that create, the second is refused and changes nothing."""
    written(store, b"first", None)
    assert not store.try_write(b"second", None)
    assert store.read().value == b"first"


def test_a_write_between_read_and_write_is_noticed(store: OptimisticStore):
    """The ETag belongs to the value that was read: of two writers that read the same, one is refused."""
    written(store, b"0", None)
    mine, yours = store.read(), store.read()
    written(store, b"yours", yours.etag)
    assert not store.try_write(b"mine", mine.etag)
    assert store.read().value == b"yours"


def test_an_etag_of_a_value_that_is_gone_is_refused(store: OptimisticStore):
    """A write that expects a value does not create one."""
    assert not store.try_write(b"value", '"0x8D4BCC2E4835CD0"')
    assert store.read() is None


def test_values_beside_each_other_do_not_touch(store: OptimisticStore):
    """A store beside another holds a value of its own, the same one each time it is asked for."""
    written(store, b"page", None)
    written(store.beside("log/0"), b"log", None)
    assert store.read().value == b"page"
    assert store.beside("log/0").read().value == b"log"


def test_of_many_simultaneous_writers_one_wins(store: OptimisticStore):
    """However many write on the same ETag, exactly one is accepted."""
    etag = written(store, b"0", None)
    with ThreadPoolExecutor(8) as writers:
        answers = list(writers.map(lambda n: store.try_write(b"%d" % n, etag), range(8)))
    assert sum(1 for new_etag in answers if new_etag) == 1


def test_a_storage_that_does_not_answer_is_an_error_of_ours():
    """No answer is told with the blob's name and what to do, not as an error of some library."""
    nowhere = "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=YQ==;BlobEndpoint=http://127.0.0.1:9/a;"
    with connect(nowhere, retry_total=0) as container, pytest.raises(StorageUnavailableError, match="'ids/x'"):
        BlobStore(container, "x").read()


def test_a_refusal_that_no_repetition_heals_is_an_error(azurite):
    """A blob that somebody leased is told at once, not tried for a while as if others wrote first."""
    with connect(azurite.connection_string, "leased") as container:
        store = BlobStore(container, "x")
        etag = written(store, b"0", None)
        lease = container.get_blob_client("x").acquire_lease(15)
        with pytest.raises(StorageUnavailableError, match="LeaseIdMissing"):
            store.try_write(b"1", etag)
        lease.release()
