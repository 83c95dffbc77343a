import time, os
from functools import wraps
from tests.benchmarks.fair import Failing
from shared.pipeline import Arrivals, Finisher, Settler
from shared.pipeline.start import Starter
from shared.pipeline.dispatch import Dispatcher
from shared.pipeline.feeding.feed import _Feeding
from shared.pipeline.feeding import feed as feedmod
from shared.pipeline.feeding.ready import ReadyTable
from pathlib import Path

class Traced(Failing):
    @classmethod
    def configured(cls, settings):
        made = super().configured(settings)
        p = Path(settings["DEQUEUE_STAMPS"] + ".trace")
        def note(*w):
            with p.open("a") as f: f.write(f"{time.time():.3f} {os.getpid()} " + " ".join(map(str, w)) + "\n")
        def watch(kind, method, name, after=False):
            inner = getattr(kind, method)
            @wraps(inner)
            def watched(self, *a, **o):
                t = time.time()
                if not after:
                    for w in [name(self, *a)]:
                        if w: note(method, w)
                r = inner(self, *a, **o)
                if after:
                    w = name(self, *a)
                    if w: note(method, f"took={time.time()-t:.3f}", w)
                return r
            setattr(kind, method, watched)
        new = lambda j: j if "flood" not in j else None
        watch(Arrivals, "handle", lambda s, d, *a: d.message_id)
        watch(Starter, "_wait", lambda s, j: new(j.job))
        watch(ReadyTable, "add", lambda s, j: new(j.job), after=True)
        watch(Dispatcher, "put", lambda s, j, *a: new(j.job), after=True)
        watch(Finisher, "finish", lambda s, m: m.job, after=True)
        inner = _Feeding._count_free
        def count_free(self):
            r = inner(self); pace = self._pace()
            note("round", f"w={self._window} depth={self._depth} free={r} hidden={self._hidden} in_work={pace.in_work} decided={pace.decided} chunk={pace.chunk:.2f} rest={feedmod.next_rest(len(self._feeder.queues), pace):.2f}")
            return r
        _Feeding._count_free = count_free
        watch(_Feeding, "_round", lambda s: "round", after=True)
        inner2 = Settler.settle
        def settle(self, messages):
            t = time.time(); r = inner2(self, messages); note("settle", len(messages), f"took={time.time()-t:.3f}"); return r
        Settler.settle = settle
        return made
