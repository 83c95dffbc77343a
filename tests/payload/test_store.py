"""Blobs of payloads on a real blob service: written once, never replaced, whatever happens to a reply."""

import base64
import hashlib
import io
import threading
from urllib.parse import unquote

import pytest
import requests
from azure.core import MatchConditions
from azure.core.exceptions import AzureError, ResourceModifiedError, ServiceResponseError
from azure.core.pipeline.transport import RequestsTransport
from azure.storage.blob import BlobServiceClient, ContainerClient, ContentSettings, LinearRetry
from hypothesis import given, strategies as st
from urllib3.util import parse_url

from shared.errors import PayloadTamperedError, RefusedError, StorageUnavailableError
from shared.grammar import BLOB
from shared.payload import Codec, Limits, PayloadStore
from shared.payload.frames import compress
from shared.refusals import Reason
from tools.local.paths import ROOT

#: Blocks so small that three of them are a payload.
BLOCKS = Limits(block_bytes=1000)
SMALL, LARGE = b"one line\n", bytes(range(256)) * 10


class Faults(RequestsTransport):
    """Loses the reply of chosen requests after they took effect, and keeps the order of all."""

    def __init__(self, lost=()):
        super().__init__()
        self.lost, self.sent = set(lost), []

    def send(self, request, **kwargs):
        """Send, then lose the reply if it is one of those."""
        response = super().send(request, **kwargs)
        self.sent.append((request.method, request.url.partition("?")[2]))
        if len(self.sent) - 1 in self.lost:
            raise ServiceResponseError("the reply was lost")
        return response


@pytest.fixture
def faulty(azurite, container):
    """Return stores whose transport loses the replies of the given requests."""
    opened = []

    def make(*lost, limits=BLOCKS):
        quick = LinearRetry(backoff=0, retry_total=2, random_jitter_range=0)
        transport = Faults(lost)
        service = BlobServiceClient.from_connection_string(
            azurite.connection_string, transport=transport, retry_policy=quick
        )
        opened.append(service)
        return PayloadStore(service.get_container_client(container.container_name), limits), transport

    yield make
    for service in opened:
        service.close()


def put(store, content, job="job-1"):
    """Write the content."""
    return store.put(job, io.BytesIO(content), len(content), hashlib.sha256(content).hexdigest())


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["one put", "blocks"])
def test_a_payload_is_read_back_by_ranges(container, content):
    """What was written is there under its hash, as a whole and in ranges."""
    store = PayloadStore(container, BLOCKS)
    blob = put(store, content)
    assert blob.name == f"job-1/{hashlib.sha256(content).hexdigest()}"
    assert store.find(blob.name) == blob
    assert b"".join(store.stream(blob)) == content
    assert store.read(blob, 3, 5) == content[3:8]


@pytest.mark.parametrize("encoding", ["zstd", "gzip"])
def test_a_payload_with_an_encoding_is_read_as_it_is_stored(container, encoding):
    """A publisher's tool may set the header, and the transport unpacks by it what it knows: the hash is of the stored bytes."""
    stored = compress(LARGE, Codec(encoding))
    settings = ContentSettings(content_encoding=encoding)
    container.upload_blob("job-1/encoded", stored, content_settings=settings)
    store = PayloadStore(container, BLOCKS)
    assert b"".join(store.stream(store.find("job-1/encoded"))) == stored


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["one put", "blocks"])
def test_writing_again_touches_what_is_there(container, content):
    """A sweep that saw the old ETag can no longer delete what a second publisher relies on."""
    store = PayloadStore(container, BLOCKS)
    first, second = put(store, content), put(store, content)
    assert (first.name, first.size) == (second.name, second.size)
    assert first.etag != second.etag
    with pytest.raises(ResourceModifiedError):
        container.delete_blob(first.name, etag=first.etag, match_condition=MatchConditions.IfNotModified)
    assert store.read(second, 0, second.size) == content


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["one put", "blocks"])
def test_any_lost_reply_of_a_write_is_resolved(faulty, content):
    """Whichever reply is lost, the write succeeds once and what is there is what was written."""
    clean, transport = faulty()
    put(clean, content, job="clean")
    requests = len(transport.sent)
    for lost in range(requests):
        store, transport = faulty(lost)
        blob = put(store, content, job=f"lost-{lost}")
        assert len(transport.sent) > requests, "no reply was lost"
        assert store.find(blob.name) == blob
        assert b"".join(store.stream(blob)) == content


class Meddling(RequestsTransport):
    """Lets somebody else act between staging the blocks and committing them, once."""

    def __init__(self, act):
        super().__init__()
        self.act = act

    def send(self, request, **kwargs):
        """Act before the commit goes out."""
        if "comp=blocklist" in request.url and self.act:
            act, self.act = self.act, None
            act()
        return super().send(request, **kwargs)


@pytest.fixture
def meddled(azurite, container):
    """Return a put of the large content during which somebody else acts on the blob."""
    name = f"job-1/{hashlib.sha256(LARGE).hexdigest()}"

    def make(act):
        with BlobServiceClient.from_connection_string(
            azurite.connection_string, transport=Meddling(lambda: act(container.get_blob_client(name)))
        ) as service:
            blob = put(PayloadStore(service.get_container_client(container.container_name), BLOCKS), LARGE)
        return blob, container.download_blob(name).readall()

    return make


def test_a_commit_that_comes_second_succeeds(meddled):
    """Somebody wrote the same while the blocks were staged: their blob counts."""
    blob, found = meddled(lambda there: there.upload_blob(LARGE, overwrite=True))
    assert (blob.size, found) == (len(LARGE), LARGE)


def test_a_commit_does_not_replace_other_bytes(meddled, container):
    """Somebody wrote something else under the name while the blocks were staged: it is reported, not overwritten."""
    with pytest.raises(PayloadTamperedError):
        meddled(lambda there: there.upload_blob(b"something else", overwrite=True))
    (name,) = container.list_blob_names()
    assert container.download_blob(name).readall() == b"something else"


class Forgetful(RequestsTransport):
    """Asks for blocks that nobody staged in the first commit, as if ours had been thrown away."""

    def __init__(self):
        super().__init__()
        self.commits = 0

    def send(self, request, **kwargs):
        """Change the first commit's list of blocks."""
        if "comp=blocklist" in request.url:
            self.commits += 1
            if self.commits == 1:
                ours, others = base64.b64encode(b"00000000"), base64.b64encode(b"99999999")
                request.set_bytes_body(request.body.replace(ours, others))
        return super().send(request, **kwargs)


def test_blocks_that_were_thrown_away_are_staged_again(azurite, container):
    """A blob that was written under the name and swept again takes the staged blocks with it."""
    transport = Forgetful()
    with BlobServiceClient.from_connection_string(azurite.connection_string, transport=transport) as service:
        blob = put(PayloadStore(service.get_container_client(container.container_name), BLOCKS), LARGE)
    assert transport.commits == 2
    assert container.download_blob(blob.name).readall() == LARGE


def test_two_publishers_of_the_same_content_both_succeed(faulty):
    """Whoever commits first, both end with the same blob."""
    stores = [faulty()[0] for _ in range(4)]
    blobs = []
    threads = [threading.Thread(target=lambda store=store: blobs.append(put(store, LARGE))) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({blob.name for blob in blobs}) == 1
    assert len(blobs) == 4


@pytest.mark.parametrize("there", [b"other bytes", SMALL + b"and more", b""], ids=["other", "longer", "empty"])
def test_a_name_that_holds_other_bytes_is_not_taken_for_a_success(container, there):
    """Somebody wrote something else under the hash: the publisher is told, and nothing is replaced."""
    name = f"job-1/{hashlib.sha256(SMALL).hexdigest()}"
    container.upload_blob(name, there)
    with pytest.raises(PayloadTamperedError, match="holds other bytes"):
        put(PayloadStore(container), SMALL)
    assert container.download_blob(name).readall() == there


def test_a_blob_that_was_replaced_is_not_read(container, store):
    """A read belongs to the blob that was found, not to its name."""
    container.upload_blob("a.ndjson", SMALL)
    found = store.find("a.ndjson")
    container.upload_blob("a.ndjson", SMALL.upper(), overwrite=True)
    with pytest.raises(RefusedError) as refused:
        store.read(found, 0, 4)
    assert refused.value.reason == Reason.PAYLOAD_REPLACED


def test_a_payload_that_was_only_touched_is_still_read(container, store):
    """The same submission dropped again must not make the chunks of the first one unreadable."""
    first = put(store, SMALL)
    put(store, SMALL)
    assert store.read_touched(first, 4, 4) == SMALL[4:8]
    container.delete_blob(first.name)
    with pytest.raises(RefusedError) as refused:
        store.read_touched(first, 4, 4)
    assert refused.value.reason == Reason.PAYLOAD_MISSING


def test_a_range_behind_the_end_is_refused_without_a_request(faulty):
    """What an index promises beyond the blob's end is not asked for."""
    store, transport = faulty()
    blob = put(store, SMALL)
    before = len(transport.sent)
    with pytest.raises(RefusedError) as refused:
        store.read(blob, 4, len(SMALL))
    assert refused.value.reason == Reason.LENGTH_MISMATCH
    assert len(transport.sent) == before


def test_a_chunk_is_one_request(faulty):
    """However many frames a chunk has, it is fetched by one ranged read."""
    store, transport = faulty()
    blob = put(store, LARGE)
    before = len(transport.sent)
    store.read(blob, 100, 2000)
    assert [method for method, _ in transport.sent[before:]] == ["GET"]


@pytest.mark.parametrize("name", ["../results/secret", "a/../../results/secret", "results%2fsecret"])
def test_no_name_leaves_the_container(azurite, container, name):
    """A blob of another container is not reached even where the client library would normalise the path."""
    with BlobServiceClient.from_connection_string(azurite.connection_string) as service:
        store = PayloadStore(service.get_container_client(container.container_name))
        with pytest.raises(RefusedError) as refused:
            store.find(name)
    assert refused.value.reason == Reason.BAD_BLOB_NAME


def test_storage_that_does_not_answer_is_no_refusal(azurite, container):
    """An outage is not the publisher's fault: it is another error, and it says what to do."""
    with BlobServiceClient.from_connection_string(azurite.connection_string) as service:
        missing = PayloadStore(service.get_container_client("no-such-container"))
        with pytest.raises(StorageUnavailableError, match=r"ContainerNotFound.*try again"):
            missing.find("a.ndjson")
        with pytest.raises(StorageUnavailableError, match="could not write"):
            put(missing, SMALL)
    assert issubclass(StorageUnavailableError, Exception)
    assert not issubclass(StorageUnavailableError, AzureError)


@given(st.from_regex(BLOB, fullmatch=True))
def test_every_name_that_passes_stays_below_its_container(name):
    """Whatever the client library and the transport make of the path, it begins with the container."""
    with ContainerClient("http://127.0.0.1:1/account", "payloads") as client:
        url = client.get_blob_client(name).url
    path = unquote(parse_url(requests.Request("GET", url).prepare().url).path)
    assert path == f"/account/payloads/{name}"


def test_no_url_from_a_message_is_ever_opened():
    """`from_blob_url` would send the app's own token to whatever host a message names."""
    sources = [file for folder in ("shared", "functions", "capabilities") for file in (ROOT / folder).rglob("*.py")]
    assert [file.name for file in sources if "from_blob_url" in file.read_text()] == []
