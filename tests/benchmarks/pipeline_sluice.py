"""Sluice end to end on the local stack: submit, ids, dispatch, process, ledger, results, totals, finish."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

from functions_local_host.launcher import Host

from shared.app import Stores
from shared.azure.connections import Connections
from shared.ledger.records import FINISHED, Job
from shared.settings import BILLING
from tests.benchmarks.pipeline_measure import (
    ACCOUNTS,
    RequestLog,
    Run,
    cpu_of,
    file_of,
    main_thread_cpu_of,
    peak_of,
    total_of,
)
from tools.local.paths import ROOT
from tools.local.stack import Stack, StackOptions, running

#: Each look asks Azurite, which the job needs too. The end is the job's own, not that of the look that found it.
LOOK_EVERY = 0.25
PATIENCE = 600.0


@dataclass(frozen=True, slots=True)
class SluiceRun:
    """One job, and what it took in detail."""

    run: Run
    job: Job
    #: Seconds from the first line read to the message sent.
    publishing: float
    by_kind: Counter[str]
    #: Requests that the host made for itself, which `by_kind` holds too.
    by_host: Counter[str]
    peaks: Mapping[str, int]
    #: Seconds of CPU, by who took them; Azurite and the broker are the stand-ins for what is not on this machine later.
    cpus: Mapping[str, float]

    @property
    def stretches(self) -> Mapping[str, float]:
        """Seconds from the first line read to the job's end, one after the other."""
        job = self.job
        ended = job.finished_at.timestamp()
        began, started = ended - self.run.seconds, job.started_at.timestamp()
        # A payload in stretches starts while the rest is published.
        marks = (began, min(began + self.publishing, started), started, job.progressed_at.timestamp(), ended)
        names = ("publishing", "until its first hundred chunks were put", "until its last result", "finishing")
        return dict(zip(names, (after - before for before, after in pairwise(marks)), strict=True))


@contextmanager
def sluice(chunk_items: int | None, *, instances: int = 2) -> Iterator["Sluice"]:
    """Run the stack as it is deployed, with worker processes and chunks of this size. None: as the default gives a job."""
    workloads = {"SLUICE_WORKLOADS": f"{BILLING},tests.benchmarks.busy:Busy"}
    # The sample has the other settings of the deployment.
    settings = {"MALLOC_ARENA_MAX": "2", "SLUICE_CHUNK_ITEMS": str(chunk_items or "auto"), **workloads}
    with (
        running(StackOptions(instances=instances, counts_requests=True, settings=settings)) as stack,
        Connections.parse(stack.settings) as connections,
    ):
        yield Sluice(stack, connections, f"Sluice, chunks of {chunk_items:,}" if chunk_items else "Sluice, default")


class Sluice:
    """A running stack that jobs are given to, one after the other."""

    def __init__(self, stack: Stack, connections: Connections, who: str) -> None:
        self._stack, self._ledger, self._who = stack, Stores(connections).ledger, who
        assert isinstance(stack.host, Host), "only the project's own host counts its requests"
        self._host, self._jobs = stack.host, 0
        self._looks = connections.meter.tally

    def run(self, items: int, workload: str = "billing", accounts: int = ACCOUNTS) -> SluiceRun:
        """Submit a file and wait until its outputs are there."""
        path, total = file_of(items, accounts), total_of(items)
        instances, supervisor = list(self._host.instance_pids().values()), self._host.process.pid
        pids = [supervisor, *instances]
        own, log, used = self._asked(), RequestLog(self._stack.azurite), cpu_of(pids)
        standing_in = self._standing_in()
        serving = main_thread_cpu_of(instances) + cpu_of([supervisor])
        looked, before = self._looks.total(), time.monotonic()
        self._jobs += 1
        name = f"bench-{self._jobs}"
        command = [sys.executable, "-m", "tests.benchmarks.pipeline_publish", str(path), name, workload, total]
        environment = {**os.environ, **self._stack.settings}
        published = json.loads(subprocess.check_output(command, cwd=ROOT, env=environment))
        job = self._ended(name, before + PATIENCE)
        seconds = job.finished_at.timestamp() - published["began"]
        cpu = cpu_of(pids) - used + published["cpu"]
        host_cpu = main_thread_cpu_of(instances) + cpu_of([supervisor]) - serving
        by_kind, looks = log.by_kind(), self._looks.total() - looked
        by_kind["GET jobs"] -= looks
        peaks = {name: peak_of(pid) for name, pid in self._host.instance_pids().items()}
        return SluiceRun(
            run=Run(self._who, items, seconds, by_kind.total(), cpu, host_cpu),
            job=job,
            publishing=published["sent"] - published["began"],
            by_kind=by_kind,
            by_host=self._asked() - own,
            peaks={**peaks, "publisher": published["peak"]},
            cpus={
                "publisher": published["cpu"],
                "app": cpu - host_cpu - published["cpu"],
                "local host": host_cpu,
                **{who: now - standing_in[who] for who, now in self._standing_in().items()},
            },
        )

    def pids(self) -> Mapping[str, int]:
        """Return the running worker processes, by name."""
        return self._host.instance_pids()

    def _ended(self, name: str, end: float) -> Job:
        while time.monotonic() < end:
            job = self._ledger.read(name)
            if job is not None and job.state in FINISHED:
                if job.totals.accepted.items != job.items:
                    raise AssertionError(f"{name} is {job.state} and says {job.problem}: {job.totals}")
                return job
            time.sleep(LOOK_EVERY)
        raise TimeoutError(f"{name} did not end in {PATIENCE:g} s: {self._ledger.read(name)}")

    def _standing_in(self) -> Mapping[str, float]:
        return {"Azurite": cpu_of([self._stack.azurite.process.pid]), "local broker": cpu_of([self._stack.broker.pid])}

    def _asked(self) -> Counter[str]:
        return Counter(
            {f"{requester}: {method} {service}": n for (requester, service, method), n in self._host.requests().items()}
        )
