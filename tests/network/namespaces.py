# SPDX-License-Identifier: Apache-2.0
"""
Network namespaces for one test run: a few machines with a switch between them, made of one more namespace with a bridge,
so that nothing of this machine's own network is touched. They are removed however the test ends; those that a killed
run left behind are removed by the next one.
"""

import ctypes
import os
import re
import signal
import subprocess
import sys

SKIPPED = 77  # the exit status by which meson knows
NETWORK = "10.77.0"
CLONE_NEWNET = 0x40000000


class Unavailable(Exception):
    """They can't be made here; the text says why."""


def ip(*arguments):
    try:
        done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=20)
    except FileNotFoundError:
        raise Unavailable("there is no ip command (package iproute2)") from None
    if done.returncode != 0:
        raise Unavailable(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


class Namespaces:
    """`names[i]` has the address `address(i)`; all reach each other, and themselves by 127.0.0.1."""

    def __init__(self, count):
        self._prefix = f"tarry-{os.getpid()}-"
        self.names = [f"{self._prefix}{i}" for i in range(count)]
        self._hub = f"{self._prefix}hub"

    def __enter__(self):
        remove_those_left_behind()
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        remove(self._prefix)

    def address(self, index):
        return f"{NETWORK}.{index + 1}"

    def command(self, index, arguments):
        """What runs arguments in that namespace, as the same process."""
        return ["ip", "netns", "exec", self.names[index], *arguments]

    def inside(self, index):
        return Inside(self.names[index])

    def down(self, index):
        """Pulls the cable."""
        ip("-n", self._hub, "link", "set", port(index), "down")

    def up(self, index):
        ip("-n", self._hub, "link", "set", port(index), "up")

    def netem(self, index, *settings):
        """Shapes what that namespace sends. False: this kernel has no netem."""
        try:
            ip("netns", "exec", self.names[index], "tc", "qdisc", "replace", "dev", "eth0", "root", "netem", *settings)
        except Unavailable:
            return False
        return True

    def narrow(self, index, bytes_per_second):
        """The namespace's link carries so much, each way; what passes at once is 2 ms of that, a buffer holds 4 MB more."""
        burst = max(int(bytes_per_second / 500), 1 << 16)
        bucket = ["root", "tbf", "rate", f"{8 * bytes_per_second:.0f}bit", "burst", str(burst), "limit", str(4 << 20)]
        for name, device in (self.names[index], "eth0"), (self._hub, port(index)):
            ip("netns", "exec", name, "tc", "qdisc", "replace", "dev", device, *bucket)

    def congestion(self, index, name):
        """How TCP keeps its windows in that namespace, whatever this machine does otherwise."""
        ip("-n", self.names[index], "route", "change", f"{NETWORK}.0/24", "dev", "eth0", "congctl", name)

    def _make(self):
        ip("netns", "add", self._hub)
        ip("-n", self._hub, "link", "add", "switch", "type", "bridge")
        ip("-n", self._hub, "link", "set", "switch", "up")
        for index, name in enumerate(self.names):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", self._hub, "link", "add", port(index), "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("-n", self._hub, "link", "set", port(index), "master", "switch", "up")
            ip("-n", name, "address", "add", f"{self.address(index)}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")


class Inside:
    """The calling thread is in that namespace: so are the sockets that it makes, for good."""

    def __init__(self, name):
        self._name = name

    def __enter__(self):
        self._home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(f"/run/netns/{self._name}", os.O_RDONLY)
        try:
            enter(there)
        finally:
            os.close(there)

    def __exit__(self, *_):
        enter(self._home)
        os.close(self._home)


def enter(descriptor):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def port(index):
    return f"port{index}"


def remove(prefix):
    for name in os.listdir("/run/netns") if os.path.isdir("/run/netns") else []:
        if name.startswith(prefix):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=20)


def remove_those_left_behind():
    for name in os.listdir("/run/netns") if os.path.isdir("/run/netns") else []:
        made = re.fullmatch(r"tarry-(\d+)-\w+", name)
        if made and not os.path.exists(f"/proc/{made[1]}"):
            remove(name)


def skip_unless_available():
    """Ends this process as skipped, with a word, where namespaces can't be made."""
    try:
        with Namespaces(1):
            pass
    except Unavailable as why:
        print(f"skipped: no network namespaces here: {why}")
        sys.exit(SKIPPED)
