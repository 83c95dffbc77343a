"""Following hints: passes over the queues of submissions, how many requests they are, and when they end."""

import json
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest

from shared.app.stores import VISIBILITY
from shared.azure.connections import Connections
from shared.dequeue import listener
from shared.dequeue.hint_follower import MOST_QUEUES, PORTION, REST, Followed, HintFollower
from shared.dequeue.listener import TASKS, sweep
from shared.dequeue.work_queue import AGAIN_AFTER, MOST_DELIVERIES, SOON, redeliver_after
from shared.errors import PutOffError, StorageUnavailableError
from tests.dequeue import hint_process
from tests.dequeue.memory_queue import MemoryQueue
from tests.waiting import LIMIT
from tools.local.paths import ROOT


class Intake:
    """Two queues of submissions, and the follower of their hints."""

    def __init__(self, clock, tasks=TASKS, **parts):
        self.clock, self.done, self.parked, self.hints, self.pauses = clock, [], [], [], []
        self.queues = [MemoryQueue(clock, name, VISIBILITY) for name in ("submissions", "submissions-a")]
        self.follower = HintFollower(
            **{
                "sources": self.queues,
                "sweep": partial(sweep, clock=clock, visibility=VISIBILITY, tasks=tasks),
                "handle": lambda delivery, _until: self.done.append(delivery.body),
                "park": lambda delivery: self.parked.append((delivery.queue, delivery.body)),
                "send_hint": self.hints.append,
                "monotonic": clock.monotonic,
                "pause": self.pause,
                **parts,
            }
        )

    def follower_elsewhere(self):
        """Return the follower of another process."""
        handle = lambda delivery, _until: self.done.append(delivery.body)  # noqa: E731
        sweeps = partial(sweep, clock=self.clock, visibility=VISIBILITY)
        return replace(self.follower, sweep=sweeps, handle=handle)

    def pause(self, seconds):
        """Let the time pass at once."""
        self.pauses.append(seconds)
        self.clock.advance(seconds)

    @property
    def receives(self):
        """How many messages each receive found, on both queues."""
        return sorted(found for queue in self.queues for found in queue.receives)


def test_a_hint_takes_what_waits_in_every_room(manual_clock):
    """No queue is named by it; each is empty afterwards, and what failed to come twice is not done twice."""
    intake = Intake(manual_clock)
    intake.queues[0].put(b"one", b"two")
    intake.queues[1].put(b"three")
    assert intake.follower.on_hint() is Followed.DONE
    assert sorted(intake.done) == [b"one", b"three", b"two"]
    assert [queue.depth() for queue in intake.queues] == [0, 0]
    assert intake.receives == [0, 0, 1, 2]


def test_a_hint_that_names_a_queue_costs_the_receives_of_that_one(manual_clock):
    """And one that names what is no queue of submissions costs none: publishers write hints."""
    intake = Intake(manual_clock)
    for queue in intake.queues:
        queue.put(b"one")
    assert intake.follower.on_hint("submissions-a") is Followed.DONE
    assert [queue.receives for queue in intake.queues] == [[], [1, 0]]
    assert intake.follower.on_hint("submissions-b") is Followed.DONE
    assert [queue.receives for queue in intake.queues] == [[], [1, 0]]


def test_a_room_with_many_messages_holds_up_no_other(manual_clock):
    """The hint of the other begins a pass of its own beside the one that goes on, and only the third one waits."""
    intake, followed = Intake(manual_clock, tasks=1), []
    third = MemoryQueue(manual_clock, "submissions-b", VISIBILITY)
    intake.queues.append(third)
    intake.queues[0].put(*[b"many"] * 300)

    def handle(delivery, _until):
        if not followed and delivery.body == b"many":
            intake.queues[1].put(b"second")
            followed.append(intake.follower.on_hint("submissions-a"))
        if delivery.body == b"second":
            third.put(b"third")
            followed.append(intake.follower.on_hint("submissions-b"))
            followed.append(intake.follower.on_hint("submissions"))
        intake.done.append(delivery.body)

    intake.follower.handle = handle
    assert intake.follower.on_hint("submissions") is Followed.DONE
    assert followed == [Followed.JOINED, Followed.JOINED, Followed.DONE]
    # The second pass has taken what waited for it, before the first one has done one message.
    assert intake.done[:3] == [b"second", b"third", b"many"]
    assert [queue.depth() for queue in intake.queues] == [0, 0, 0]


def test_a_third_room_waits_for_a_portion_and_not_for_all_that_two_others_have(manual_clock):
    """Its hint joins the two passes that go on, and is followed after the first of them."""
    intake, followed = Intake(manual_clock, tasks=1), []
    third = MemoryQueue(manual_clock, "submissions-b", VISIBILITY)
    intake.queues.append(third)
    for queue in intake.queues[:2]:
        queue.put(*[queue.name.encode()] * 300)

    def handle(delivery, _until):
        if not followed and delivery.queue == "submissions":
            followed.append("second")
            intake.follower.on_hint("submissions-a")
        if followed == ["second"] and delivery.queue == "submissions-a":
            third.put(b"third")
            followed.append(intake.follower.on_hint("submissions-b"))
        intake.done.append(delivery.body)

    intake.follower.handle = handle
    assert intake.follower.on_hint("submissions") is Followed.DONE
    assert followed == ["second", Followed.JOINED]
    assert (len(intake.done), intake.done.index(b"third")) == (601, pytest.approx(PORTION, abs=PORTION))


def test_hints_of_many_queues_at_once_leave_none_behind(manual_clock):
    """Whatever passes they join or begin, each message is done once, and the next hint begins anew."""
    queues = [MemoryQueue(manual_clock, f"submissions-{n}", VISIBILITY) for n in range(6)]
    intake = Intake(manual_clock, sources=queues)
    start = threading.Barrier(8)

    def publish(number):
        start.wait(LIMIT)
        for n in range(60):
            queue = queues[(number + n) % 6]
            queue.put(b"%d/%d" % (number, n))
            intake.follower.on_hint(queue.name)

    with ThreadPoolExecutor(8) as publishers:
        list(publishers.map(publish, range(8)))
    assert sorted(intake.done) == sorted(b"%d/%d" % (number, n) for number in range(8) for n in range(60))
    queues[0].put(b"later")
    assert (intake.follower.on_hint(), intake.done[-1]) == (Followed.DONE, b"later")


def test_no_pass_looks_at_more_than_a_few_queues(manual_clock):
    """A hint for all of 201 rooms is many passes, and one for a room that comes during the first waits for few of them."""
    intake, seen = Intake(manual_clock), []

    def sweep_and_note(sources, handle, until):
        seen.append([source.name for source in sources])
        if len(seen) == 1:
            intake.follower.on_hint("submissions-r7")
        sweep(sources, handle, until, clock=manual_clock, visibility=VISIBILITY)

    intake.follower.sources = [MemoryQueue(manual_clock, f"submissions-r{n}", VISIBILITY) for n in range(201)]
    intake.follower.sweep = sweep_and_note
    assert intake.follower.on_hint() is Followed.DONE
    assert [len(names) for names in seen] == [MOST_QUEUES] * 6 + [10]
    assert sum("submissions-r7" in names for names in seen) == 2


def test_a_look_says_where_something_was_found(manual_clock):
    """So the tick knows whose publishers send no hints."""
    intake = Intake(manual_clock)
    intake.queues[1].put(b"one")
    assert intake.follower.look(["submissions", "submissions-a"], 20) == {"submissions-a"}
    assert intake.follower.look(["submissions", "submissions-a"], 20) == set()


def test_a_look_ends_in_time_and_a_hint_goes_on(manual_clock):
    """A tick has more to do."""
    intake = Intake(manual_clock, handle=lambda *_: manual_clock.advance(15), tasks=1)
    intake.queues[1].put(*[b"one"] * 5)
    assert intake.follower.look(["submissions-a"], 20) == {"submissions-a"}
    assert (intake.hints, intake.queues[1].depth()) == (["submissions-a"], 3)


def test_a_needless_hint_is_one_empty_receive_of_each_queue(manual_clock):
    """And no other request."""
    intake = Intake(manual_clock)
    assert intake.follower.on_hint() is Followed.DONE
    assert [queue.requests for queue in intake.queues] == [[(TASKS, 0)]] * 2


def test_a_hint_that_comes_during_a_pass_is_followed_by_another_pass(manual_clock):
    """What was dropped behind the last receive of its queue is found, though the hint itself took nothing."""

    class LateQueue(MemoryQueue):
        def receive(self, most):
            found = super().receive(most)
            if not found and not late:
                self.put(b"late")
                late.append(intake.follower.on_hint())
            return found

    late = []
    intake = Intake(manual_clock)
    intake.queues[1] = LateQueue(manual_clock, "submissions-a")
    intake.queues[1].put(b"first")
    assert intake.follower.on_hint() is Followed.DONE
    assert (late, sorted(intake.done)) == ([Followed.JOINED], [b"first", b"late"])


def test_a_flood_of_hints_is_few_receives(manual_clock):
    """Those of a pass join it, and after a pass that found nothing the next one waits for more."""
    intake, joined = Intake(manual_clock), []

    def pause(seconds):
        intake.pause(seconds)
        joined.extend(intake.follower.on_hint() for _ in range(100 if len(intake.pauses) < 3 else 0))

    intake.follower.pause = pause
    intake.follower.on_hint()
    assert intake.follower.on_hint() is Followed.DONE
    assert joined == [Followed.JOINED] * 200
    assert intake.pauses == [pytest.approx(REST)] * 3
    assert intake.receives == [0] * 2 * 4


def test_after_work_the_next_hint_waits_for_nothing(manual_clock):
    """Only a pass that found nothing is followed by a rest."""
    intake = Intake(manual_clock)
    for body in (b"one", b"two"):
        intake.queues[0].put(body)
        intake.follower.on_hint()
    assert (len(intake.done), intake.pauses) == (2, [])


def test_after_forty_seconds_nothing_new_is_taken_and_another_hint_goes_on(manual_clock):
    """What was received and not begun can be seen at once, and each message was told when its time is up."""
    times = []

    def handle(_delivery, until):
        times.append(until - manual_clock.monotonic())
        manual_clock.advance(15)

    intake = Intake(manual_clock, handle=handle, tasks=1)
    intake.queues[0].put(*[b"%d" % number for number in range(10)])
    assert intake.follower.on_hint() is Followed.HANDED_OVER
    assert times == [40, 25, 10]
    assert (intake.hints, intake.queues[0].depth(), intake.queues[0].peek()) == (["submissions"], 7, 7)
    assert intake.follower.on_hint() is Followed.HANDED_OVER, "nothing of the first one is left to join"


def test_what_fails_comes_again_and_is_parked_at_the_hosts_last_delivery(manual_clock):
    """Before that it stays hidden for half a minute, as after a failure of the host's trigger."""
    counts = []

    def fail(delivery, _until):
        counts.append(delivery.count)
        raise ValueError("injected")

    intake = Intake(manual_clock, handle=fail)
    intake.queues[0].put(b"bad")
    for _ in range(MOST_DELIVERIES + 1):
        intake.follower.on_hint()
        manual_clock.advance(AGAIN_AFTER)
    assert counts == list(range(1, MOST_DELIVERIES + 1))
    assert intake.parked == [("submissions", b"bad")]
    assert intake.queues[0].depth() == 0


def test_what_failed_because_storage_did_not_answer_comes_again_within_seconds(manual_clock):
    """One connection broke: a job must not wait half a minute for it. An outage gets the pace of the host's trigger."""

    def fail(_delivery, _until):
        raise StorageUnavailableError("the reply was lost on purpose")

    intake = Intake(manual_clock, handle=fail)
    intake.queues[0].put(b"one")
    for seconds in (*SOON, AGAIN_AFTER, AGAIN_AFTER):
        intake.follower.on_hint("submissions")
        manual_clock.advance(seconds - 0.5)
        assert intake.queues[0].peek() == 0
        manual_clock.advance(0.5)
        assert intake.queues[0].peek() == 1
    assert redeliver_after(PutOffError(7), 1) == 7


def test_what_was_delivered_too_often_is_not_tried_again(manual_clock):
    """Such as one whose every delivery killed the process: the host, too, moves it before any work."""
    intake = Intake(manual_clock)
    intake.queues[0].put(b"killer")
    for _ in range(MOST_DELIVERIES):
        intake.queues[0].receive(1)
        manual_clock.advance(AGAIN_AFTER)
    intake.follower.on_hint()
    assert (intake.done, intake.parked) == ([], [("submissions", b"killer")])


def test_a_message_that_could_not_be_parked_stays(manual_clock):
    """It comes again, and is parked then."""

    def fail(_delivery):
        raise ConnectionError("injected")

    intake = Intake(manual_clock, park=fail)
    intake.queues[0].put(b"killer")
    for _ in range(MOST_DELIVERIES):
        intake.queues[0].receive(1)
        manual_clock.advance(AGAIN_AFTER)
    intake.follower.on_hint()
    assert intake.queues[0].depth() == 1


def test_a_pass_that_could_not_begin_blocks_no_later_one(manual_clock, monkeypatch):
    """The host delivers the hint again, and it must not join a pass that is not there."""
    intake, start = Intake(manual_clock), listener.QueueListener.start

    def fail(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(listener.QueueListener, "start", fail)
    with pytest.raises(RuntimeError):
        intake.follower.on_hint()
    monkeypatch.setattr(listener.QueueListener, "start", start)
    intake.queues[0].put(b"one")
    assert (intake.follower.on_hint(), intake.done) == (Followed.DONE, [b"one"])


def test_a_burst_is_worked_on_by_several_tasks_and_no_more(manual_clock):
    """As many as a pass may have, whatever waits; each message is done once."""
    begun, working, peak, met = [], set(), [0], threading.Barrier(TASKS)

    def handle(delivery, _until):
        begun.append(delivery.body)
        working.add(delivery.body)
        peak[0] = max(peak[0], len(working))
        # The first message of each task waits for those of the others.
        if delivery.body in begun[:TASKS]:
            met.wait(LIMIT)
        intake.done.append(delivery.body)
        working.discard(delivery.body)

    intake = Intake(manual_clock, handle=handle)
    bodies = [b"%d" % number for number in range(100)]
    intake.queues[0].put(*bodies)
    intake.follower.on_hint()
    assert (sorted(intake.done), peak[0]) == (sorted(bodies), TASKS)


def test_a_hint_that_comes_again_stays_until_the_dead_ones_messages_are_visible(manual_clock):
    """The lock of the hint ends first: a visit that ended at once would leave the messages to the next poll."""
    intake = Intake(manual_clock)
    intake.queues[0].put(b"one")
    intake.queues[0].receive(1)
    assert (intake.follower.on_hint(), intake.done) == (Followed.DONE, [])
    assert (intake.follower.on_hint(deliveries=2), intake.done) == (Followed.DONE, [b"one"])


class Mortal(MemoryQueue):
    """A queue as a process sees it that is killed before one of its steps: from then on nothing that it does counts."""

    def __init__(self, clock, dies_at):
        super().__init__(clock, "submissions", VISIBILITY)
        self.steps, self.dies_at, self.at_step = 0, dies_at, lambda: None

    @property
    def is_dead(self):
        """Whether the process was killed."""
        return self.steps >= self.dies_at

    def lives(self):
        """Begin a step of the process. Return False from the kill on."""
        if self.is_dead:
            return False
        self.steps += 1
        self.at_step()
        return True

    def receive(self, most):
        """Receive, while alive."""
        return super().receive(most) if self.lives() else []

    def change(self, name, receipt, hidden_for):
        """Delete, renew or give back, while alive."""
        return super().change(name, receipt, hidden_for) if self.lives() else None


@pytest.mark.parametrize("joins_at", range(1, 5))
def test_a_hint_that_joined_is_answered_whenever_the_process_is_killed(manual_clock, joins_at):
    """It was done at once. The hint that ran the passes comes again, and answers for both."""
    kills = 0
    for dies_at in range(joins_at, 12):
        intake = Intake(manual_clock, tasks=1)
        queue = Mortal(manual_clock, dies_at)
        intake.queues[:] = [queue]
        elsewhere, follower, outcomes = intake.follower_elsewhere(), intake.follower, []

        def take(delivery, _until, queue=queue, done=intake.done):
            if queue.lives():
                done.append(delivery.body)

        def join(queue=queue, follower=follower, outcomes=outcomes):
            if queue.steps == joins_at:
                queue.put(b"joined")
                outcomes.append(follower.on_hint())

        follower.handle, queue.at_step = take, join
        queue.put(b"first")
        follower.on_hint()
        if queue.is_dead:
            kills += 1
            queue.dies_at = 10**6
            elsewhere.on_hint(deliveries=2)
        assert outcomes == [Followed.JOINED]
        assert (set(intake.done), queue.depth()) == ({b"first", b"joined"}, 0), f"killed before step {dies_at}"
    assert 0 < kills < 12 - joins_at


@pytest.mark.parametrize("is_long", [False, True])
def test_a_hint_that_comes_again_answers_for_hints_of_other_queues_that_had_joined_it(manual_clock, is_long):
    """They were done at once. It looks at all queues once nothing is hidden, or has another hint do so when its time is up."""
    intake = Intake(manual_clock, tasks=1)
    intake.queues[1].put(b"of the joined one")
    if is_long:
        intake.queues[0].put(b"one", b"two")
        intake.follower.handle = lambda *_: manual_clock.advance(41)
        assert intake.follower.on_hint("submissions", 2) is Followed.HANDED_OVER
        assert intake.hints == ["submissions", ""]
    else:
        assert intake.follower.on_hint("submissions", 2) is Followed.DONE
        assert intake.done == [b"of the joined one"]
        assert len(intake.queues[1].receives) == 2


def test_the_limits_are_those_of_the_hosts_trigger():
    """A message may be received by either of them, so both must count alike."""
    queues = json.loads((ROOT / "host.json").read_text())["extensions"]["queues"]
    assert (queues["maxDequeueCount"], queues["visibilityTimeout"]) == (MOST_DELIVERIES, f"00:00:{AGAIN_AFTER}")


def test_what_a_killed_process_had_received_is_taken_by_the_next_hint(azurite, storage_queue):
    """On storage itself: one of its messages was being worked on, the others not begun; all are delivered again."""
    bodies = [f"m{number}" for number in range(5)]
    for body in bodies:
        storage_queue.send_message(body)
    command = [sys.executable, "-m", "tests.dequeue.hint_process", azurite.connection_string, storage_queue.queue_name]
    killed = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    assert killed.stdout.readline().startswith(b"begun m")
    killed.kill()
    killed.wait()
    killed.stdout.close()
    time.sleep(hint_process.VISIBILITY)
    handled = []
    with Connections(azurite.connection_string) as connections:
        follower = hint_process.follower_of(
            connections, lambda delivery, _until: handled.append(delivery), storage_queue.queue_name
        )
        assert follower.on_hint() is Followed.DONE
    assert sorted((one.body.decode(), one.count) for one in handled) == [(body, 2) for body in bodies]
    assert storage_queue.get_queue_properties().approximate_message_count == 0
