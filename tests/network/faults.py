# SPDX-License-Identifier: Apache-2.0
"""What can befall a worker or its link while others go on; each is done by the thread of its proxy."""

import signal
import threading
import time

ABSENCE_SECONDS = 4.0  # longer than it takes to ask a silent worker (0.5 s) and to wait for its answer (2 s)
LONGEST_ABSENCE_SECONDS = 60.0  # a busy machine teaches the server longer limits
SLOW_RATE = 40_000  # bytes per second
RESTART_SECONDS = 0.2


class Fault:
    """One fault of one case; each kind has a case of its own in every phase."""

    reasons: set = set()  # for which the server does without the victim, beside a worker that is merely late
    needs_reason = True  # it has to, once at least
    rounds = None  # until all are back; else the run ends by itself
    options = ()  # of the server

    def __init__(self, case):
        self.case = case
        self.finished = threading.Event()
        self.round = self.time = None

    def strike(self, round):
        self.round, self.time = round, time.time()
        self.do()

    def later(self, seconds, action):
        self.case.link.later(seconds, lambda: (action(), self.finished.set()))

    def once_left_out(self, action, waited=ABSENCE_SECONDS):
        """After the time of absence, or longer if the server has not done without the victim by then."""
        if waited < LONGEST_ABSENCE_SECONDS and not self.case.reasons():
            self.case.link.later(1.0, lambda: self.once_left_out(action, waited + 1.0))
        else:
            action()
            self.finished.set()


class Killed(Fault):
    """SIGKILL, and nobody starts it again."""

    reasons = {"gone"}
    rounds = 30

    def do(self):
        self.case.worker.signal(signal.SIGKILL)
        self.case.link.reset()
        self.finished.set()


class Restarted(Fault):
    """SIGKILL, and a new process with the same id."""

    reasons = {"gone"}

    def do(self):
        self.case.worker.signal(signal.SIGKILL)
        self.case.link.reset()
        self.later(RESTART_SECONDS, self.case.start_victim)


class Paused(Fault):
    """SIGSTOP for longer than the limit, then SIGCONT."""

    reasons = {"silent", "late"}

    def do(self):
        self.case.worker.signal(signal.SIGSTOP)
        self.case.link.hole("up")  # what it had sent before is on its way
        self.case.link.later(ABSENCE_SECONDS, lambda: self.once_left_out(self._go_on))

    def _go_on(self):
        self.case.link.heal()
        self.case.worker.signal(signal.SIGCONT)


class CutOff(Fault):
    """Nothing goes through either way, and nobody is told; then the link heals. The worker may give up first."""

    reasons = {"silent", "late", "gone"}

    def do(self):
        self.case.link.hole()
        self.case.link.later(ABSENCE_SECONDS, lambda: self.once_left_out(self.case.link.heal))


class Reset(Fault):
    """The connection is reset, and new ones for a while."""

    reasons = {"gone"}

    def do(self):
        self.case.link.shut()
        self.later(0.5, self.case.link.heal)


class Slowed(Fault):
    """The link gets so narrow that a part would take seconds. Slow is not silent: bytes come."""

    reasons = {"late"}
    needs_reason = False  # what is on its way may take until the link is wide again

    def do(self):
        self.case.link.rate = SLOW_RATE
        self.later(ABSENCE_SECONDS, self._widen)

    def _widen(self):
        self.case.link.rate = None


class Doubled(Fault):
    """A second worker with the same id, at the same time."""

    needs_reason = False

    def do(self):
        self.later(0.0, lambda: self.case.start_victim("twin"))


class ServerKilled(Fault):
    """SIGKILL of the server, which goes on from its checkpoint."""

    rounds = 31
    needs_reason = False
    options = ("--checkpoint", "run.ck", "--checkpoint-every", "3")

    def do(self):
        self.case.cluster.server.signal(signal.SIGKILL)
        self.finished.set()
