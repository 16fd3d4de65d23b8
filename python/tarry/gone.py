# SPDX-License-Identifier: Apache-2.0
"""Parameters that earlier versions had: for each, what to use instead. See docs/tried.md for why it went."""

_DESIGN = "no longer exists; write a file with examples/designs.py, and give file=PATH"
_RULE = "no longer exists; use 'share', whose rounds are shorter"

GONE = {
    "design:affine": _DESIGN,
    "design:difference": _DESIGN,
    "design:projective": _DESIGN,
    "early": "no longer exists; use sum='everywhere' to make sums faster where vectors take long",
    "importance": "no longer exists; use sample_chunks or smaller batches for cheaper rounds",
    "pick:capacity": _RULE,
    "pick:fewest": _RULE,
    "relays": "no longer exists; use way='direct' where the server's network is too slow",
    "sample_by": "no longer exists; leave it out, as chunks are always sampled uniformly",
}
