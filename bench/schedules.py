# SPDX-License-Identifier: Apache-2.0
"""A small event simulator of dynamic orders in NumPy: many rounds side by side, each scheduled by a policy of its own.

It is the world of `tarry simulate` without latency, deaths and uneven costs: a worker takes a time of its own for each piece
that it holds, is told at once what to do, and drops a piece that another worker has reported. The rules are those of
src/protocol/steering, and their constants are the numbers of a policy (NAMES): STEERING has
Tarry's. bench/learned.py learns others, and checks this simulator against `tarry simulate`.

Times are nanoseconds in float64, exact below 2^53. All sums of floats are of two terms, so that no library's order of
summing changes a schedule.
"""

import math

import numpy

# What a policy decides by, and what Tarry has there.
NAMES = {
    "past": 0.0,  # log2 of the weight of earlier rounds, in pieces; below -21: none
    "prior": math.log2(0.05),  # log2 of the weight of the other workers' median
    "overdue": 2.0,  # an overdue piece is expected to take so many times what it has taken
    "doubt": 0.0,  # a worker that has shown little ends so much later: per piece planned, over the pieces it has shown
    "take": 0.0,  # in pieces: how much sooner a piece must end to be taken over
    "duplicate": 0.0,  # the same of a piece that another worker computes
    "give": 0.0,  # the same of a piece that is passed on
    "alone": 0.0,  # compute the planned piece first that all other holders would end last (below 0: soonest)
}
FAR = 1e18  # later than anything
LATE = 0.05  # of its time: what a piece that should be done is expected to take at least
OUTLIER = 16.0  # a piece counts as at most so many times what was expected
GAIN = 0.25  # of a piece: a way that gains less is not sought during the round
MOVES = 6  # pieces that one report moves to its worker, and from it
STEPS = 8  # ways are sought again at each of so many steps at most, in all worlds at once
SEARCHES = 2  # failed searches for a way that end a pass


def changed(**values):
    """Tarry's policy with these numbers changed."""
    return numpy.array([values.get(name, value) for name, value in NAMES.items()])


STEERING = changed()


def least(values):
    """The least along the last axis, which is short."""
    found = values[..., 0]
    for at in range(1, values.shape[-1]):
        found = numpy.minimum(found, values[..., at])
    return found


class Plan:
    """Who holds what: from the lists of pieces by worker, in the order of the plan. All lists are equally long."""

    def __init__(self, assignment, pieces):
        self.slots = numpy.array(assignment)
        self.workers, self.load = self.slots.shape
        self.pieces = pieces
        holders = [[] for _ in range(pieces)]
        for worker, held in enumerate(assignment):
            for piece in held:
                holders[piece].append(worker)
        self.holders = numpy.array(holders)
        self.copies = self.holders.shape[1]

    def static_ns(self, times):
        """Time of each round if workers compute their pieces in the plan's order and drop none."""
        ends = numpy.cumsum(times, axis=2)
        first = numpy.full((len(times), self.pieces), numpy.inf)
        for worker in range(self.workers):
            at = self.slots[worker]
            first[:, at] = numpy.minimum(first[:, at], ends[:, worker])
        return first.max(axis=1)


class Worlds:
    """Worlds that run side by side, one policy each. A world keeps from round to round what it has learned of its workers."""

    def __init__(self, plan, policies):
        self.plan = plan
        self.count = len(policies)
        columns = dict(zip(NAMES, numpy.asarray(policies, dtype=float).T))
        # Multiples of 2^-20: the last bit of a library's exp2 then changes nothing.
        weights = [numpy.rint(numpy.exp2(columns[name]) * 2 ** 20) / 2 ** 20 for name in ("past", "prior")]
        self.weight_past, self.weight_prior = weights
        self.overdue, self.doubt, self.duplicate = columns["overdue"], columns["doubt"], columns["duplicate"]
        self.take_margin, self.give_margin = columns["take"], columns["give"]
        self.alone = columns["alone"]
        shape = self.count, plan.workers
        self.past = numpy.zeros(shape)
        self.median = numpy.zeros(self.count)

    # ---- what is known ----

    def begin(self, times):
        plan, shape = self.plan, (self.count, self.plan.workers)
        self.times = times
        self.steps = 0
        self.cost, self.ns = numpy.zeros(shape), numpy.zeros(shape)
        self.current = numpy.full(shape, -1)
        self.since, self.finish = numpy.zeros(shape), numpy.full(shape, numpy.inf)
        self.look_at = numpy.full(shape, numpy.inf)
        self.queue = numpy.zeros(shape)
        self.owner = numpy.full((self.count, plan.pieces), -1)
        self.done = numpy.zeros((self.count, plan.pieces), dtype=bool)
        self.left = numpy.full(self.count, plan.pieces)
        self.updates = numpy.zeros(self.count, dtype=int)
        self.reports = numpy.zeros(self.count, dtype=int)

    def base(self, e):
        """The weight of what was known before the round, and the pace."""
        past = self.past[e]
        use = (past > 0) & (self.weight_past[e] > 0)[:, None]
        base = numpy.where(use, past, self.median[e][:, None])
        weight = numpy.where(use, self.weight_past[e][:, None], self.weight_prior[e][:, None])
        return numpy.where(base > 0, weight, 0), base

    def expected(self, e):
        weight, base = self.base(e)
        total = weight + self.cost[e]
        known = total > 0
        return numpy.where(known, (weight * base + self.ns[e]) / numpy.where(known, total, 1), 0)

    def outlook(self, e, time):
        """Pace, the rest of what each worker is at, and the end of its share, from `time` on."""
        weight, base = self.base(e)
        cost, ns = self.cost[e], self.ns[e]
        total = weight + cost
        known = total > 0
        expected = numpy.where(known, (weight * base + ns) / numpy.where(known, total, 1), 0)
        busy = self.current[e] >= 0
        elapsed = numpy.where(busy, time[:, None] - self.since[e], 0)
        late = known & (elapsed > expected)
        overdue = (weight * base + ns + self.overdue[e][:, None] * elapsed) / (total + 1)
        pace = numpy.where(known, numpy.where(late, overdue, expected), 1)
        shown = numpy.where(self.median[e][:, None] > 0, elapsed, 0)
        over = shown - numpy.where((self.past[e] > 0) | (cost > 0), expected, 0)
        rest = numpy.where(busy, numpy.maximum(numpy.maximum(pace - shown, LATE * pace), over), 0)
        pace = pace * (1 + self.doubt[e][:, None] / (1 + total))
        return pace, rest, rest + self.queue[e] * pace

    def learn_median(self, e, time):
        expected = self.expected_alone(e)
        known = expected > 0
        busy = self.current[e] >= 0
        values = numpy.where(known, expected, numpy.where(busy, numpy.maximum(time[:, None] - self.since[e], 0), 0))
        any_known = known.any(axis=1)
        values = numpy.sort(values, axis=1)[:, self.plan.workers // 2]
        self.median[e] = numpy.where(any_known, numpy.maximum(values, 1), self.median[e])
        self.updates[e] = 0

    def expected_alone(self, e):
        """The pace without what other workers take; 0: nothing is known."""
        use = (self.past[e] > 0) & (self.weight_past[e] > 0)[:, None]
        weight = numpy.where(use, self.weight_past[e][:, None], 0)
        total = weight + self.cost[e]
        return numpy.where(total > 0, (weight * self.past[e] + self.ns[e]) / numpy.where(total > 0, total, 1), 0)

    # ---- what workers do ----

    def start_next(self, e, worker, time):
        """Workers go to the piece planned for them that comes first; they rest if none is."""
        plan = self.plan
        if len(e) == 0:
            return
        held = plan.slots[worker]
        planned = self.owner[e[:, None], held] == worker[:, None]
        if (self.alone[e] != 0).any():
            score = self.alone[e][:, None] * self.others_end(e, worker, held, time)
            slot = numpy.where(planned, score, -numpy.inf).argmax(axis=1)
        else:
            slot = planned.argmax(axis=1)
        row = numpy.arange(len(e))
        some = planned[row, slot]
        piece = numpy.where(some, held[row, slot], -1)
        self.current[e, worker] = piece
        self.since[e, worker] = time
        takes = self.times[e, worker, slot]
        self.finish[e, worker] = numpy.where(some, time + takes, numpy.inf)
        self.look_at[e, worker] = numpy.where(some, numpy.inf, self.next_look(e, worker, time))
        self.owner[e[some], piece[some]] = -1
        self.queue[e, worker] -= some

    def next_look(self, e, worker, time):
        """When a worker that rests is looked at again: a piece elsewhere may turn out to take longer."""
        open_to = ~self.done[e[:, None], self.plan.slots[worker]].all(axis=1)
        return numpy.where(open_to, time + numpy.maximum(self.median[e], 1) / 4 + 1, numpy.inf)

    def others_end(self, e, worker, held, time):
        """Of each piece: when the first of its other holders would have finished it."""
        pace, _, end = self.outlook(e, time)
        others = self.plan.holders[held]
        after = (end + pace)[numpy.arange(len(e))[:, None, None], others]
        return least(numpy.where(others == worker[:, None, None], FAR, after))

    # ---- how shares change ----

    def take(self, e, worker, outlook):
        """Takes over the piece that would end last elsewhere, if it would end sooner here; which rows did."""
        plan, (pace, rest, end) = self.plan, outlook
        row = numpy.arange(len(e))
        held = plan.slots[worker]
        owner = self.owner[e[:, None], held]
        free = ~self.done[e[:, None], held] & (owner != worker[:, None]) & (self.current[e, worker][:, None] != held)
        planned = free & (owner >= 0)
        offer = numpy.where(planned, end[row[:, None], owner], -numpy.inf)
        my_pace = pace[row, worker]
        mine = end[row, worker] + my_pace
        margin = numpy.where(planned, self.take_margin[e][:, None], self.duplicate[e][:, None]) * my_pace[:, None]
        running = free & (owner < 0)
        at = numpy.nonzero(running.any(axis=1))[0]
        if len(at):
            others = plan.holders[held[at]]
            inside = at[:, None, None]
            busy = self.current[e[at]][numpy.arange(len(at))[:, None, None], others] == held[at][:, :, None]
            ends = least(numpy.where(busy, rest[inside, others], numpy.inf))
            offer[at] = numpy.where(running[at], ends, offer[at])
        good = free & (offer - mine[:, None] > margin)
        slot = numpy.where(good, offer, -numpy.inf).argmax(axis=1)
        did = good[row, slot]
        at = row[did]
        piece, to, before = held[at, slot[at]], worker[at], owner[at, slot[at]]
        passed = before >= 0
        self.queue[e[at[passed]], before[passed]] -= 1
        end[at[passed], before[passed]] -= pace[at[passed], before[passed]]
        self.owner[e[at], piece] = to
        self.queue[e[at], to] += 1
        end[at, to] += pace[at, to]
        return did

    def give(self, e, worker, outlook):
        """Passes the planned piece on that ends soonest elsewhere, if that is sooner than all ends here; which rows did."""
        plan, (pace, _, end) = self.plan, outlook
        row = numpy.arange(len(e))
        held = plan.slots[worker]
        planned = self.owner[e[:, None], held] == worker[:, None]
        others = plan.holders[held]
        shut = (others == worker[:, None, None]) | (self.current[e][row[:, None, None], others] == held[:, :, None])
        after = numpy.where(shut | ~planned[:, :, None], numpy.inf, (end + pace)[row[:, None, None], others])
        after = after.reshape(len(e), -1)
        best = after.argmin(axis=1)
        did = after[row, best] < end[row, worker] - self.give_margin[e] * pace[row, worker]
        at = row[did]
        slot = best[at] // plan.copies
        piece, to, frm = held[at, slot], others[at, slot, best[at] % plan.copies], worker[at]
        self.move(e, at, piece, frm, to, outlook)
        return did

    def move(self, e, at, piece, before, to, outlook):
        pace, _, end = outlook
        self.owner[e[at], piece] = to
        self.queue[e[at], before] -= 1
        self.queue[e[at], to] += 1
        end[at, before] -= pace[at, before]
        end[at, to] += pace[at, to]

    def balance(self, e, worker, time):
        for step in (self.take, self.give):
            at, to, outlook = e, worker, self.outlook(e, time)
            for _ in range(MOVES):
                if len(at) == 0:
                    break
                did = step(at, to, outlook)
                at, to, outlook = at[did], to[did], tuple(part[did] for part in outlook)

    def relieve(self, e, time, gain, most):
        """Shares that end last pass pieces on along ways of any length; `most` ways are sought in each world."""
        outlook = self.outlook(e, time)
        failed = numpy.zeros((len(e), self.plan.workers), dtype=bool)
        for _ in range(most):
            pace, _, end = outlook
            soonest = (end + pace).min(axis=1)
            row = numpy.arange(len(e))
            late = numpy.where((self.queue[e] > 0) & ~failed, end, -numpy.inf)
            top = late.argmax(axis=1)
            level = end[row, top] * (1 - 1e-9) - gain * pace[row, top]
            on = (late[row, top] > soonest) & (level > soonest) & (failed.sum(axis=1) < SEARCHES)
            if not on.all():
                e, top, level, failed = e[on], top[on], level[on], failed[on]
                outlook = tuple(part[on] for part in outlook)
                if len(e) == 0:
                    return
            found = self.find_way(e, top, level, outlook)
            failed[numpy.arange(len(e)), top] = ~found

    def find_way(self, e, top, level, outlook):
        """One piece less for `top`, such that all on the way end before `level`; which rows there is a way for."""
        plan, (pace, _, end) = self.plan, outlook
        count = len(e)
        row = numpy.arange(count)
        current, owner = self.current[e], self.owner[e]
        reached = numpy.zeros((count, plan.workers), dtype=bool)
        reached[row, top] = True
        came, via = numpy.full((count, plan.workers), -1), numpy.full((count, plan.workers), -1)
        found = numpy.full(count, -1)
        after = end + pace
        frontier = reached.copy()
        open_rows = row
        while len(open_rows):
            at = open_rows
            own = owner[at]
            gives = (own >= 0) & frontier[at[:, None], own]
            some, piece = numpy.nonzero(gives)
            if len(some) == 0:
                break
            where = at[some]
            frm = own[some, piece]
            to = plan.holders[piece]
            fine = ~reached[where[:, None], to] & (current[where[:, None], to] != piece[:, None])
            index, copy = numpy.nonzero(fine)
            where, frm, piece, to = where[index], frm[index], piece[index], to[index, copy]
            came[where, to], via[where, to] = frm, piece
            new = numpy.zeros_like(reached)
            new[where, to] = True
            ends = new & (after < level[:, None])
            got = ends.any(axis=1)
            found[got] = numpy.where(ends, after, numpy.inf)[got].argmin(axis=1)
            reached |= new
            frontier = new & (end < level[:, None])
            open_rows = row[(found < 0) & frontier.any(axis=1)]
        good = found >= 0
        at, to = row[good], found[good]
        while len(at):
            self.move(e, at, via[at, to], came[at, to], to, outlook)
            to = came[at, to]
            on = to != top[at]
            at, to = at[on], to[on]
        return good

    def share_all(self, e):
        """Greedily at the start of the round, then along ways."""
        pace, _, end = self.outlook(e, numpy.zeros(len(e)))
        row = numpy.arange(len(e))
        for piece in range(self.plan.pieces):
            holders = self.plan.holders[piece]
            after = end[:, holders] + pace[:, holders]
            to = holders[after.argmin(axis=1)]
            self.owner[e, piece] = to
            self.queue[e, to] += 1
            end[row, to] += pace[row, to]
        self.relieve(e, numpy.zeros(len(e)), 0, 4 * self.plan.workers)

    # ---- the round ----

    def play(self, times):
        """A round whose workers take times[world, worker, slot]; its ns by world."""
        plan = self.plan
        self.begin(times)
        e = numpy.arange(self.count)
        over = numpy.zeros(self.count)
        if (self.median > 0).any():
            self.learn_median(e, over)
        self.share_all(e)
        for worker in range(plan.workers):
            self.start_next(e, numpy.full(self.count, worker), numpy.zeros(self.count))
        while len(e):
            e = self.step(e, over)
        self.end_round(over)
        return over

    def step(self, e, over):
        """The next thing that happens in each of the worlds `e`; gives back those that go on."""
        row = numpy.arange(len(e))
        self.steps += 1
        moments = numpy.minimum(self.finish[e], self.look_at[e])
        worker = moments.argmin(axis=1)
        time = moments[row, worker]
        piece = self.current[e, worker]
        at = row[piece >= 0]
        if len(at):
            self.report(e[at], worker[at], piece[at], time[at])
        ended = self.left[e] == 0
        over[e[ended]] = time[ended]
        e, worker, time, piece = e[~ended], worker[~ended], time[~ended], piece[~ended]
        rests = piece < 0
        self.look_at[e[rests], worker[rests]] = self.next_look(e[rests], worker[rests], time[rests])
        self.balance(e, worker, time)
        self.wake(e, time)
        return e

    def report(self, e, worker, piece, time):
        elapsed = time - self.since[e, worker]
        row = numpy.arange(len(e))
        expected = self.expected(e)[row, worker]
        self.cost[e, worker] += 1
        self.ns[e, worker] += numpy.where((expected > 0) & (elapsed > OUTLIER * expected), OUTLIER * expected, elapsed)
        self.done[e, piece] = True
        self.left[e] -= 1
        owner = self.owner[e, piece]
        planned = owner >= 0
        self.queue[e[planned], owner[planned]] -= 1
        self.owner[e[planned], piece[planned]] = -1
        self.reports[e] += 1
        self.current[e, worker] = -1
        others, who = numpy.nonzero(self.current[e] == piece[:, None])
        self.drop(e[others], who, time[others])
        self.start_next(e, worker, time)
        self.start_next(e[others], who, time[others])
        self.updates[e] += 1
        first = self.median[e] == 0
        if self.steps % STEPS == 0:
            first |= self.updates[e] > self.plan.workers // 4
        if first.any():
            self.learn_median(e[first], time[first])
            self.relieve(e[first], time[first], GAIN, SEARCHES + 2)

    def drop(self, e, worker, time):
        """What a dropped piece tells of a worker that has finished nothing yet."""
        if len(e) == 0:
            return
        row = numpy.arange(len(e))
        known = self.expected(e)[row, worker]
        pace = self.outlook(e, time)[0][row, worker]
        more = (known > 0) & (self.cost[e, worker] == 0) & (pace > known)
        self.past[e[more], worker[more]] = pace[more]
        self.current[e, worker] = -1

    def wake(self, e, time):
        """Workers that rest and have something planned now begin it."""
        some, who = numpy.nonzero((self.current[e] < 0) & (self.queue[e] > 0))
        if len(some):
            self.start_next(e[some], who, time[some])

    def end_round(self, over):
        e = numpy.arange(self.count)
        busy = (self.current >= 0) & (self.cost == 0)
        expected = self.expected(e)
        elapsed = over[:, None] - self.since
        pace = self.outlook(e, over)[0]
        past = numpy.where(busy & (expected > 0) & (pace > expected), pace, self.past)
        past = numpy.where(busy, numpy.maximum(past, elapsed), past)
        self.past = numpy.where(self.cost > 0, expected, past)
