"""Every order in which tasks can count themselves off and on; and Mizonov's count, which the same orders catch."""

import itertools

from shared.dequeue.task import AtomicCell, TaskCount
from tests.ids.turns import Turns


class SteppedCell:
    """A cell whose every access waits for its task's turn, and which remembers every value it had."""

    def __init__(self, cell, turns, task, seen):
        self._cell, self._turns, self._task, self._seen = cell, turns, task, seen

    def load(self):
        """Read when it is this task's turn."""
        self._turns.arrive(self._task)
        return self._cell.load()

    def compare_and_set(self, expected, wanted):
        """Change it when it is this task's turn."""
        self._turns.arrive(self._task)
        done = self._cell.compare_and_set(expected, wanted)
        self._seen.append(self._cell.load())
        return done


class SeedCount(TaskCount):
    """Mizonov's count: it reads, and acts upon what it has read later."""

    def grow_to(self, wanted):
        """Start what seems to be missing."""
        missing = wanted - self._cell.load()
        if missing > 0:
            _add(self._cell, missing)
        return max(missing, 0)

    def leave(self, least):
        """Leave if more than the least seem to be there."""
        if self._cell.load() <= least:
            return False
        _add(self._cell, -1)
        return True


def _add(cell, number):
    while not cell.compare_and_set(now := cell.load(), now + number):
        pass


def run(kind, active, programs, schedule):
    """Run one program a task in the order of the schedule; returns their answers and every count on the way."""
    cell, turns, seen = AtomicCell(), Turns(len(programs)), []
    cell.compare_and_set(0, active)
    answers = [None] * len(programs)

    def task(number, program):
        count = kind(SteppedCell(cell, turns, number, seen))

        def whole():
            answers[number] = program(count)

        return whole

    turns.run([task(number, program) for number, program in enumerate(programs)], schedule)
    return answers, seen, cell.load()


def schedules(tasks, length):
    """Return every order of the first turns."""
    return itertools.product(range(tasks), repeat=length)


def leave(count):
    """End unless it is the last one."""
    return count.leave(1)


def grow(count):
    """Have three."""
    return count.grow_to(3)


def test_of_all_that_leave_exactly_one_stays_in_any_order():
    """Three idle tasks in pull mode: never none, never two that poll on."""
    for schedule in schedules(3, 6):
        answers, seen, left = run(TaskCount, 3, [leave] * 3, schedule)
        assert (sorted(answers), left) == ([False, True, True], 1), schedule
        assert min(seen) >= 1, schedule


def test_tasks_that_find_work_together_start_what_is_missing_once():
    """Two detect work at the same time and grow to three: two more are started, not four, and never above three."""
    for schedule in schedules(2, 6):
        answers, seen, active = run(TaskCount, 1, [grow, grow], schedule)
        assert (sum(answers), active) == (2, 3), schedule
        assert max(seen) <= 3, schedule


def test_growing_and_leaving_at_the_same_time_keeps_count():
    """Whatever the order: who is counted runs, at least one of them, and never more than the cap."""
    for schedule in schedules(4, 5):
        answers, seen, active = run(TaskCount, 2, [leave, grow, leave, grow], schedule)
        assert active == 2 - answers[0] - answers[2] + answers[1] + answers[3], schedule
        assert 1 <= min(seen, default=active) <= max(seen, default=active) <= 3, schedule


def test_the_same_orders_catch_mizonovs_count():
    """Read first and acted upon later, two tasks see "two" and both leave, and two detections start twice as many."""
    leaving = [run(SeedCount, 2, [leave, leave], schedule)[2] for schedule in schedules(2, 6)]
    growing = [run(SeedCount, 1, [grow, grow], schedule)[2] for schedule in schedules(2, 6)]
    assert 0 in leaving
    assert 5 in growing


def test_a_cap_that_fell_ends_exactly_those_above_it():
    """Five run, two may: three leave, in whatever order they ask."""
    for schedule in schedules(5, 4):
        answers, _, left = run(TaskCount, 5, [lambda count: count.leave(2)] * 5, schedule)
        assert (sum(answers), left) == (3, 2), schedule
