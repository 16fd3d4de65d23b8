# SPDX-License-Identifier: Apache-2.0
"""
Where in a round a fault strikes: the proxies of a cluster's links see what goes by, and hold the bytes that would end
the phase until the fault has been placed.
"""

from frames import Type
from proxy import DOWN, UP

COMPUTING = "computing"
BEFORE_PART = "between signal and first byte"
WITHIN_PART = "in the middle of a coded part"
AFTER_PART = "after the last byte"
PHASES = [COMPUTING, BEFORE_PART, WITHIN_PART, AFTER_PART]

COMPUTING_SECONDS = 0.015  # after a round's first word
WITHIN_BYTES = 100_000
HELD_SECONDS = 0.02  # the others' parts, once the fault is placed
MOST_HELD_SECONDS = 1.0  # if it never is


def strike(proxies, victim, first, phase, stripes, action):
    """
    Calls action(round) in the proxy's thread when the victim is in that phase of a round, the first from `first` on in
    which it gets there. Parts have `stripes` stripes. What the action does to the victim's link holds from that very
    byte on.
    """
    link = proxies[victim]

    def begins(frame):
        return frame.is_message(Type.ROUND) and frame.round >= first

    def sends(frame):
        return frame.is_message(Type.PART) and frame.round >= first

    def sends_last(frame):
        return sends(frame) and frame.index == stripes - 1

    if phase == COMPUTING:
        link.watch(DOWN, begins, lambda frame: link.later(COMPUTING_SECONDS, lambda: action(frame.round)))
    elif phase == BEFORE_PART:
        link.watch(UP, sends, lambda frame: action(frame.round), after=-1)
    elif phase == WITHIN_PART:
        link.watch(UP, sends, lambda frame: action(frame.round), after=WITHIN_BYTES)
    else:
        releases = [hold(proxy, sends) for worker, proxy in enumerate(proxies) if worker != victim]
        link.watch(UP, sends_last, lambda frame: (action(frame.round), [release() for release in releases]))


def hold(proxy, matches):
    """Nothing goes up from such a frame on; gives back what ends that, soon."""
    watch = proxy.watch(UP, matches, lambda _: proxy.stall(MOST_HELD_SECONDS, UP), after=-1)

    def release():
        if watch in proxy.watches:
            proxy.watches.remove(watch)
        proxy.heal()

    return lambda: proxy.later(HELD_SECONDS, release)
