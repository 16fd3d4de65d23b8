# SPDX-License-Identifier: Apache-2.0
"""Awkward ways to end, each a function that an interpreter of its own runs: situations.py NAME.

Each says what its interpreter has to end with: a status, and words on its output or its standard error.
"""

import atexit
import contextlib
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import tarry


class Situation(NamedTuple):
    run: Callable[[], None]
    status: int
    out: str
    error: str


SITUATIONS: dict[str, Situation] = {}
PLAN = tarry.Plan(2, 4, replication=2)
ALONE = tarry.Plan(1)
D = 1000
KEPT: list[Any] = []  # until the interpreter ends


def ends(status: int = 0, out: str = "", error: str = "") -> Callable[[Callable[[], None]], Callable[[], None]]:
    def add(run: Callable[[], None]) -> Callable[[], None]:
        SITUATIONS[run.__name__] = Situation(run, status, out, error)
        return run

    return add


def zeros() -> Any:
    return np.zeros(D, dtype=np.float32)


def serve(plan: tarry.Plan = ALONE, **settings: Any) -> tarry.Server:
    server = tarry.Server(plan, D, listen="127.0.0.1:0", insecure=True, **settings)
    server.open()
    return server


def work(server: tarry.Server, body: Callable[[tarry.Task], None], **settings: Any) -> threading.Thread:
    """A worker in a daemon thread."""

    def loop() -> None:
        with tarry.Worker(server.addresses[0], insecure=True, **settings) as worker:
            for task in worker:
                body(task)

    return start(loop)


def start(run: Callable[[], object]) -> threading.Thread:
    """A daemon thread that takes what ends it with its objects for no error."""

    def body() -> None:
        with contextlib.suppress(tarry.Error):
            run()

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    return thread


def start_round(server: tarry.Server) -> threading.Thread:
    """A round in a daemon thread, once all are there."""
    return start(lambda: (server.wait(), server.round(zeros())))


def fill(task: tarry.Task) -> None:
    task.gradient[:] = 1


def when(event: threading.Event, do: Callable[[], object]) -> None:
    """Does it in another thread once the event is set, and the main thread has had the time to wait."""

    def act() -> None:
        event.wait()
        time.sleep(0.05)
        do()

    start(act)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


class Slow:
    """Computes until it is let go."""

    def __init__(self) -> None:
        self.entered, self.go_on = threading.Event(), threading.Event()

    def __call__(self, task: tarry.Task) -> None:
        self.entered.set()
        self.go_on.wait()
        task.gradient[:] = 1


# ---- exceptions ----


@ends(1, error="ZeroDivisionError")
def an_exception_with_a_live_server() -> None:
    KEPT.append(serve())
    raise ZeroDivisionError


@ends(1, error="ZeroDivisionError")
def an_exception_with_a_live_server_and_its_workers() -> None:
    server = serve(PLAN)
    for _ in range(2):
        work(server, fill)
    server.wait()
    server.round(zeros())
    KEPT.append(server)
    raise ZeroDivisionError


@ends(1, error="ZeroDivisionError")
def an_exception_with_a_live_local_runtime() -> None:
    local = tarry.Local(PLAN, D, fill)
    local.round(zeros())
    raise ZeroDivisionError


@ends(1, error="ZeroDivisionError")
def an_exception_with_a_round_in_another_thread() -> None:
    slow = Slow()
    local = tarry.Local(PLAN, D, slow)
    start(lambda: local.round(zeros()))
    slow.entered.wait()
    threading.Timer(0.5, slow.go_on.set).start()
    raise ZeroDivisionError


@ends(0, out="4000.0")
def a_round_of_another_thread_that_the_interpreter_waits_for() -> None:
    local = tarry.Local(PLAN, D, fill)

    def run() -> None:
        time.sleep(0.2)
        found = local.round(zeros()).sum
        assert found is not None
        print(found.sum())

    threading.Thread(target=run).start()


@ends(1, error="ZeroDivisionError")
def an_exception_in_the_middle_of_a_task() -> None:
    server = serve()
    start_round(server)
    with tarry.Worker(server.addresses[0], insecure=True) as worker:
        for task in worker:
            KEPT.append(task)
            raise ZeroDivisionError


@ends(1, error="ZeroDivisionError: prepare")
def an_exception_in_prepare() -> None:
    def prepare(_job: tarry.Job) -> None:
        raise ZeroDivisionError("prepare")

    server = serve()
    with tarry.Worker(server.addresses[0], insecure=True, prepare=prepare) as worker:
        worker.take(20)


class Broken:
    """A replica that can't do one thing."""

    def __init__(self, *failing: str) -> None:
        self.failing = failing
        self.last: tarry.SumId | None = None

    def save(self) -> bytes:
        if "save" in self.failing:
            raise ZeroDivisionError("save")
        return b"state"

    def load(self, state: bytes) -> None:
        if "load" in self.failing:
            raise ZeroDivisionError("load")


def give(*failing: str) -> Callable[[tarry.Job], Broken]:
    return lambda _job: Broken(*failing)


def step_or_fill(task: tarry.Task) -> None:
    if not task.is_step:
        fill(task)


@ends(1, error="ZeroDivisionError: save")
def an_exception_in_save() -> None:
    local = tarry.Local(PLAN, D, step_or_fill, sum="everywhere", replicas=[Broken("save"), Broken("save")])
    local.round()
    with contextlib.suppress(tarry.StateError):
        local.state(timeout=0.1)
    local.round()


@ends(1, error="ZeroDivisionError: load")
def an_exception_in_load() -> None:
    server = serve(PLAN, sum="everywhere", digest_steps=1)
    work(server, step_or_fill, prepare=give(), worker=0, listen="127.0.0.1:0")
    server.wait(1)
    for _ in range(3):  # who lacks one sum alone fetches that, and loads no state
        server.round()

    def run_rounds() -> None:
        while True:
            with contextlib.suppress(tarry.CoverageError, tarry.LinksError):
                server.round()

    with tarry.Worker(
        server.addresses[0], insecure=True, prepare=give("load"), worker=1, listen="127.0.0.1:0"
    ) as worker:
        start(run_rounds)
        for task in worker:
            step_or_fill(task)


@ends(1, error="ZeroDivisionError: log")
def an_exception_in_log() -> None:
    def log(_sum_id: tarry.SumId) -> None:
        raise ZeroDivisionError("log")

    server = serve(sum="everywhere", log=log, voters_grace=0.05)
    work(server, step_or_fill, prepare=give(), listen="127.0.0.1:0")
    server.wait()
    server.round()


@ends(0, out="over", error="ZeroDivisionError: observe")
def an_exception_in_observe() -> None:
    def observe(_notice: tarry.Notice) -> None:
        raise ZeroDivisionError("observe")

    server = serve(observe=observe)
    work(server, fill)
    server.wait()
    server.round(zeros())
    print("over")


@ends(0, out="over", error="SystemExit: 7")
def sys_exit_in_observe() -> None:
    def observe(_notice: tarry.Notice) -> None:
        sys.exit(7)

    server = serve(observe=observe)
    work(server, fill)
    server.wait()
    print("over")


@ends(3)
def sys_exit_in_compute() -> None:
    with tarry.Local(PLAN, D, lambda task: sys.exit(3)) as local:
        local.round(zeros())


@ends(3)
def sys_exit_in_the_middle_of_a_task() -> None:
    server = serve()
    start_round(server)
    with tarry.Worker(server.addresses[0], insecure=True) as worker:
        for _ in worker:
            sys.exit(3)


# ---- signals ----


def assert_usable(local: tarry.Local) -> None:
    found = local.round(zeros()).sum
    assert found is not None
    print(found[0])


@ends(0, out="heard\n4.0\n4.0")
def ctrl_c_in_a_round() -> None:
    slow = Slow()
    with tarry.Local(PLAN, D, slow) as local:
        when(slow.entered, interrupt)
        try:
            local.round(zeros())
        except KeyboardInterrupt:
            print("heard")
        slow.go_on.set()
        assert_usable(local)
        assert_usable(local)


@ends(-signal.SIGINT, error="KeyboardInterrupt")
def ctrl_c_in_a_round_that_nobody_catches() -> None:
    slow = Slow()
    local = tarry.Local(PLAN, D, slow)
    when(slow.entered, interrupt)
    atexit.register(slow.go_on.set)
    local.round(zeros())


@ends(0, out="heard\n4.0")
def ctrl_c_twice() -> None:
    """The second one while the round ends, or just after."""
    heard: list[int] = []

    def handle(number: int, _frame: object) -> None:
        heard.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, handle)
    slow = Slow()
    with tarry.Local(PLAN, D, slow) as local:
        when(slow.entered, lambda: (interrupt(), time.sleep(0.0002), interrupt()))
        try:
            try:
                local.round(zeros())
            finally:
                waited = 0
                while len(heard) < 2:
                    time.sleep(0.01)
                    waited += 1
                    if waited % 300 == 0:  # two that arrive before Python looks are one
                        interrupt()
        except KeyboardInterrupt:
            print("heard")
        slow.go_on.set()
        assert_usable(local)


@ends(0, out="heard\n1.0")
def ctrl_c_while_it_waits_for_workers() -> None:
    waiting = threading.Event()
    server = serve()
    when(waiting, interrupt)
    try:
        waiting.set()
        server.wait()
    except KeyboardInterrupt:
        print("heard")
    work(server, fill)
    server.wait()
    found = server.round(zeros()).sum
    assert found is not None
    print(found[0])


@ends(0, out="heard\n1.0")
def ctrl_c_in_a_round_of_a_server() -> None:
    slow = Slow()
    server = serve()
    work(server, slow)
    server.wait()
    when(slow.entered, interrupt)
    try:
        server.round(zeros())
    except KeyboardInterrupt:
        print("heard")
    slow.go_on.set()
    found = server.round(zeros()).sum
    assert found is not None
    print(found[0])


@ends(0, out="heard\n1")
def ctrl_c_while_a_worker_waits_for_a_task() -> None:
    server = serve()
    waiting = threading.Event()
    worker = tarry.Worker(server.addresses[0], insecure=True, prepare=lambda _job: waiting.set())
    when(waiting, interrupt)
    try:
        worker.take()
    except KeyboardInterrupt:
        print("heard")
    start_round(server)
    task = worker.take()
    assert task is not None
    fill(task)
    print(int(task.give()))


@ends(0, out="heard\n1.0")
def ctrl_c_in_the_middle_of_a_task() -> None:
    """The worker gives up the task, and another worker begins anew."""
    sums: list[Any] = []
    server = serve(patience=20.0)
    rounds = start(lambda: (server.wait(), sums.append(server.round(zeros()).sum)))
    with tarry.Worker(server.addresses[0], insecure=True) as worker:
        try:
            for _ in worker:
                interrupt()
                time.sleep(10)
        except KeyboardInterrupt:
            print("heard")
    work(server, fill)
    rounds.join()
    print(sums[0][0])


@ends(0, out="heard\n4.0")
def ctrl_c_while_all_compute() -> None:
    entered, busy = threading.Event(), threading.Event()
    busy.set()

    def compute(task: tarry.Task) -> None:
        entered.set()
        while busy.is_set() and not task.cancelled:
            np.dot(np.ones((50, 50)), np.ones((50, 50)))
        task.gradient[:] = 1

    with tarry.Local(PLAN, D, compute) as local:
        when(entered, interrupt)
        try:
            local.round(zeros())
        except KeyboardInterrupt:
            print("heard")
        busy.clear()
        assert_usable(local)


@ends(0, out="heard\nover")
def ctrl_c_while_it_waits_for_a_state() -> None:
    waiting = threading.Event()
    server = serve(sum="everywhere")
    when(waiting, interrupt)
    try:
        waiting.set()
        server.state()
    except KeyboardInterrupt:
        print("heard")
    print("over")


@ends(0, out="heard\nover")
def ctrl_c_that_does_not_wake_the_main_thread() -> None:
    """As one that comes just before it begins to wait: here another thread gets the signal."""
    waiting = threading.Event()
    server = serve(sum="everywhere")
    when(waiting, interrupt)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        waiting.set()
        server.state()
    except KeyboardInterrupt:
        print("heard")
    print("over")


@ends(0, out="TimeoutError\n4.0")
def a_handler_of_a_signal_that_raises() -> None:
    def handle(_number: int, _frame: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, handle)
    slow = Slow()
    with tarry.Local(PLAN, D, slow) as local:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        try:
            local.round(zeros())
        except TimeoutError:
            print("TimeoutError")
        slow.go_on.set()
        assert_usable(local)


@ends(0, out="closed")
def a_handler_of_a_signal_that_closes() -> None:
    slow = Slow()
    server = serve()
    work(server, slow)
    server.wait()
    signal.signal(signal.SIGALRM, lambda number, frame: server.close())
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        server.round(zeros())
    except (tarry.InterruptedByCaller, tarry.StateError):
        print("closed")
    slow.go_on.set()


@ends(-signal.SIGTERM)
def a_termination_with_all_alive() -> None:
    slow = Slow()
    server, local = serve(), tarry.Local(PLAN, D, slow)
    work(server, fill)
    when(slow.entered, lambda: os.kill(os.getpid(), signal.SIGTERM))
    local.round(zeros())


# ---- processes ----


@ends(5)
def an_exit_without_an_end() -> None:
    slow = Slow()
    server, local = serve(), tarry.Local(PLAN, D, slow)
    work(server, fill)
    when(slow.entered, lambda: os._exit(5))
    local.round(zeros())


@ends(0, out="1.0")
def a_fork_whose_child_ends_as_usual() -> None:
    server = serve()
    work(server, fill)
    server.wait()
    local = tarry.Local(PLAN, D, fill)
    local.round(zeros())
    child = os.fork()
    if child == 0:
        sys.exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    found = server.round(zeros()).sum
    assert found is not None
    print(found[0])


@ends(0, out="the server is closed")
def a_fork_whose_child_uses_the_server() -> None:
    server = serve()
    child = os.fork()
    if child == 0:
        try:
            server.round(zeros())
        except tarry.StateError as error:
            print(error)
        with tarry.Local(PLAN, D, fill) as local:  # what the child makes is its own
            local.round(zeros())
        server.close()
        sys.exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4


@ends(0, out="None")
def a_worker_whose_server_says_that_it_is_over() -> None:
    server = serve()
    worker = tarry.Worker(server.addresses[0], insecure=True)
    threading.Timer(0.3, server.close).start()
    print(worker.take())


@ends(1, error="SystemResourceError")
def a_worker_whose_server_is_gone() -> None:
    server = serve()
    worker = tarry.Worker(server.addresses[0], insecure=True, patience=0.3)
    threading.Timer(0.3, lambda: server.close(finished=False)).start()
    worker.take(20)


# ---- lifetimes ----


@ends(0)
def all_in_globals() -> None:
    server = serve()
    worker = tarry.Worker(server.addresses[0], insecure=True)
    start_round(server)
    task = worker.take(20)
    assert task is not None
    straggler = tarry.Straggler("slow:1,2", 2)
    local = tarry.Local(PLAN, D, fill, straggler=straggler)
    KEPT.extend((server, worker, task, task.gradient, task.parameters, straggler, local, local.round(zeros())))


@ends(0, out="3000.0")
def arrays_outlive_the_worker() -> None:
    server = serve()
    start_round(server)
    with tarry.Worker(server.addresses[0], insecure=True) as worker:
        task = worker.take(20)
        assert task is not None
        array = task.gradient
        KEPT.append(array)
    del worker, task
    gc.collect()
    array[:] = 3
    print(array.sum())


@ends(0, out="2.0")
def arrays_outlive_the_interpreters_end() -> None:
    local = tarry.Local(ALONE, D, lambda task: (KEPT.append(task.gradient), task.gradient.fill(2))[1])
    local.round(zeros())

    class Last:
        def __del__(self, array: Any = KEPT[0], write: Callable[[int, bytes], int] = os.write) -> None:
            write(1, str(float(array[D - 1])).encode())

    KEPT.append(Last())


@ends(0, out="the server is closed")
def an_exit_handler_that_comes_after_the_end() -> None:
    server = serve()

    def handler() -> None:
        try:
            server.round(zeros())
        except tarry.StateError as error:
            print(error)

    # Handlers run in the opposite order: as if it had been registered before tarry was imported.
    from tarry import lifetime

    atexit.unregister(lifetime.close_all)
    atexit.register(handler)
    atexit.register(lifetime.close_all)


@ends(0)
def closed_again_and_again() -> None:
    server, local = serve(), tarry.Local(PLAN, D, fill)
    worker = tarry.Worker(server.addresses[0], insecure=True)
    for _ in range(3):
        worker.close()
        local.close()
        server.close()


@ends(0, out="ended")
def closed_by_many_threads_at_once() -> None:
    slow = Slow()
    slow.go_on.set()
    for _ in range(10):
        local, server = tarry.Local(PLAN, D, slow), serve()
        worker = tarry.Worker(server.addresses[0], insecure=True)

        def take(worker: tarry.Worker = worker) -> None:
            with contextlib.suppress(tarry.Error):
                worker.take()

        def run(local: tarry.Local = local) -> None:
            with contextlib.suppress(tarry.Error):
                while True:
                    local.round(zeros())

        closing = [local.close, server.close, worker.close] * 3
        threads = [threading.Thread(target=body) for body in (take, run, *closing)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    print("ended")


@ends(0, out="ended")
def garbage_in_cycles() -> None:
    class Owner:
        def __init__(self) -> None:
            self.own = self
            self.local = tarry.Local(PLAN, D, self.compute)
            self.server = serve()
            self.worker = tarry.Worker(self.server.addresses[0], insecure=True, prepare=self.prepare)

        def compute(self, task: tarry.Task) -> None:
            fill(task)

        def prepare(self, job: tarry.Job) -> None:
            self.job = job

    for _ in range(5):
        owner = Owner()
        owner.local.round(zeros())
        del owner
        gc.collect()
    print("ended")


@ends(0, out="ended")
def dropped_without_an_end() -> None:
    for _ in range(20):
        serve()
        tarry.Local(PLAN, D, fill).round(zeros())
        tarry.Worker("127.0.0.1:1", insecure=True)
    print("ended")


@ends(0)
def daemon_threads_that_wait_for_tasks() -> None:
    server = serve(PLAN)
    for _ in range(2):
        work(server, fill)
    server.wait()


@ends(0)
def daemon_threads_in_the_middle_of_tasks() -> None:
    slow = Slow()
    server = serve(PLAN)
    for _ in range(2):
        work(server, slow)
    start_round(server)
    slow.entered.wait()


@ends(0)
def daemon_threads_whose_observers_still_run() -> None:
    """Threads of the library come back to Python while it ends: what they do in C has to be done all the same."""
    told = threading.Event()

    def observe(_notice: tarry.Notice) -> None:
        told.set()
        time.sleep(0.5)

    class Last:
        def __del__(self, sleep: Callable[[float], None] = time.sleep) -> None:
            sleep(1)

    KEPT.append(Last())
    work(serve(), fill, observe=observe)
    told.wait()


@ends(0)
def a_daemon_thread_that_waits_for_workers() -> None:
    server = serve()
    start(server.wait)
    time.sleep(0.1)


@ends(0)
def a_worker_that_nobody_answers() -> None:
    worker = tarry.Worker("127.0.0.1:1", insecure=True)
    start(worker.take)
    time.sleep(0.1)


@ends(0)
def a_compute_function_that_never_ends() -> None:
    entered = threading.Event()

    def compute(_task: tarry.Task) -> None:
        entered.set()
        time.sleep(1000)

    local = tarry.Local(PLAN, D, compute)
    start(lambda: local.round(zeros()))
    entered.wait()


@ends(0, out="is closed")
def an_interrupt_after_the_end() -> None:
    local = tarry.Local(PLAN, D, fill)
    local.close()
    try:
        local.interrupt()
    except tarry.StateError as error:
        print(error)


if __name__ == "__main__":
    SITUATIONS[sys.argv[1]].run()
