# SPDX-License-Identifier: Apache-2.0
"""A plan's bytes (src/plan/plan_code.h), so that a test can make plans that nobody would."""

import hashlib
import struct

HEAD_BYTES, DIGEST_BYTES = 52, 32
FOLLOWS = 15  # where the head says what follows: spans, racks
SPANS = 1


def words(numbers):
    return struct.pack(f"<{len(numbers)}I", *numbers)


class PlanBytes:
    """One without spans and racks. spans: per chunk a list of (origin, first, count, of); None: each chunk is one."""

    def __init__(self, data):
        self._head, body = data[:HEAD_BYTES], data[HEAD_BYTES:-2 * DIGEST_BYTES]
        assert not self._head[FOLLOWS]
        workers, self.chunks, self._parts = struct.unpack_from("<3I", body)
        offsets = struct.unpack_from(f"<{workers + 1}I", body, 12)
        at = 12 + 4 * len(offsets)
        slots = struct.unpack_from(f"<{offsets[-1]}I", body, at)
        self.slots = [list(slots[begin:end]) for begin, end in zip(offsets, offsets[1:])]
        self._weights = body[at + 4 * len(slots):]
        self.spans, self.origins = None, self.chunks
        assert self.bytes() == data

    def _body(self):
        def offsets(lists):
            return words([sum(map(len, lists[:count])) for count in range(len(lists) + 1)])

        body = words([len(self.slots), self.chunks, self._parts]) + offsets(self.slots)
        body += words(sum(self.slots, [])) + self._weights
        if self.spans is not None:
            body += words([self.origins]) + offsets(self.spans)
            body += b"".join(words(span) for spans in self.spans for span in spans)
        return body

    def digest(self):
        return hashlib.sha256(self._body()).digest()

    def bytes(self):
        head = bytearray(self._head)
        head[FOLLOWS] = 0 if self.spans is None else SPANS
        sealed = bytes(head) + self._body() + self.digest()
        return sealed + hashlib.sha256(sealed).digest()
