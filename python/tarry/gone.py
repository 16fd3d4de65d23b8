# SPDX-License-Identifier: Apache-2.0
"""Parameters that earlier versions had: for each a sentence that says what to use instead; docs/tried.md says why it went."""

GONE = {
    "early": "no longer exists; use sum='everywhere' to make sums faster where vectors take long",
    "importance": "no longer exists; use sample_chunks or smaller batches for cheaper rounds",
    "relays": "no longer exists; use way='direct' where the server's network is too slow",
    "sample_by": "no longer exists; leave it out, as chunks are always sampled uniformly",
}
