"""The workload that waits: against a service on this machine that is slow, refuses, lies or is not there."""

import asyncio
import json
import threading
from contextlib import contextmanager
from decimal import Decimal

import pytest

from docs.examples.enrichment import Enrichment, Segment
from shared.errors import SettingsError
from shared.workloads.registry import run_lines
from tests.waiting import LIMIT


class Accounts:
    """A service in a thread of its own; `answer` says what it replies to a path."""

    def __init__(self, answer):
        self._answer, self.now, self.most, self.asked = answer, 0, 0, []
        self._ready, self._loop = threading.Event(), asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        self._ready.wait(LIMIT)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self):
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self):
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._handle, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/accounts"
        self._ready.set()
        await self._stop.wait()
        server.close()
        handling = asyncio.all_tasks() - {asyncio.current_task()}
        for task in handling:
            task.cancel()
        await asyncio.gather(*handling, return_exceptions=True)
        await server.wait_closed()

    async def _handle(self, reader, writer):
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        self.asked.append(path)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            writer.write(await self._answer(path))
            await writer.drain()
        finally:
            self.now -= 1
            writer.close()


def reply(status, content=b"", *, length=None):
    """Return an HTTP answer."""
    length = len(content) if length is None else length
    return b"HTTP/1.1 %d Whatever\r\nContent-Type: text\r\nContent-Length: %d\r\n\r\n%s" % (status, length, content)


async def by_first_letter(path):
    """Know accounts by their first letter, after a wait."""
    await asyncio.sleep(0.01)
    account = path.rpartition("/")[2]
    return reply(404) if account.startswith("x") else reply(200, json.dumps({"segment": account[0]}).encode())


@contextmanager
def enrichment(answer):
    """Yield the workload with its service."""
    with Accounts(answer) as accounts:
        yield Enrichment.configured({"ENRICHMENT_URL": accounts.url}), accounts


def lines(*accounts):
    """Return a purchase of 1.50 for each account."""
    return [json.dumps({"account": account, "amount": "1.50"}).encode() for account in accounts]


def test_transactions_wait_together_and_not_one_after_the_other():
    """A hundred and fifty answers are awaited thirty-two at a time, no more; unknown accounts are rejected alone."""
    with enrichment(by_first_letter) as (workload, accounts):
        processed = run_lines(workload, lines(*[f"{'abx'[n % 3]}{n}" for n in range(150)]), 0)
    assert processed.partial == {"a": Segment(50, Decimal("75.00")), "b": Segment(50, Decimal("75.00"))}
    assert {one.reason for one in processed.rejections} == {"unknown_account"}
    assert processed.rejected.sums == {"amount": "75.00"}
    assert 1 < accounts.most <= Enrichment.concurrency


def test_an_account_cannot_lead_elsewhere():
    """Whatever a transaction calls its account stays one segment of the path."""
    with enrichment(by_first_letter) as (workload, accounts):
        run_lines(workload, lines("a/../../admin?x=1#y\r\nHost: z"), 0)
    assert accounts.asked == ["/accounts/a%2F..%2F..%2Fadmin%3Fx%3D1%23y%0D%0AHost%3A%20z"]


@pytest.mark.parametrize(
    "answer",
    [reply(503), reply(200, b'{"segm', length=50), b"not http at all\r\n\r\n", b"", b"HTTP/1.1 x\r\n\r\n"],
    ids=["busy", "cut off", "no http", "nothing", "no status"],
)
def test_a_service_that_fails_leaves_the_chunk_for_later(answer):
    """It is no fault of the transactions, so none is rejected for it."""

    async def failing(_path):
        return answer

    with enrichment(failing) as (workload, _), pytest.raises(ConnectionError):
        run_lines(workload, lines("a"), 0)


def test_a_service_that_is_not_there_leaves_the_chunk_for_later():
    """Nobody listens on the port."""
    with Accounts(by_first_letter) as accounts:
        url = accounts.url
    with pytest.raises(ConnectionError):
        run_lines(Enrichment(url), lines("a"), 0)


def test_a_service_that_never_answers_is_given_up():
    """The wait ends, and the chunk is left for later."""

    async def silent(_path):
        await asyncio.sleep(0.5)
        return reply(404)

    with Accounts(silent) as accounts, pytest.raises(TimeoutError):
        run_lines(Enrichment(accounts.url, 0.05), lines("a"), 0)


@pytest.mark.parametrize("url", ["", "ftp://x", "http://", "127.0.0.1:80"])
def test_only_an_http_url_is_a_service(url):
    """Any other setting is refused at the start."""
    with pytest.raises(SettingsError, match=r"ENRICHMENT_URL: .* no http or https URL"):
        Enrichment.configured({"ENRICHMENT_URL": url})


def test_merging_adds_segments_up():
    """Partials of two chunks become one."""
    workload = Enrichment("http://127.0.0.1:1")
    left, right = {"a": Segment(1, Decimal(1))}, {"a": Segment(2, Decimal(3)), "b": Segment(1, Decimal(4))}
    merged = workload.merge(left, right)
    assert merged == {"a": Segment(3, Decimal(4)), "b": Segment(1, Decimal(4))}
    assert [one.account for one in workload.finish(merged) if hasattr(one, "account")] == ["a", "b"]
