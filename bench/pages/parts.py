# SPDX-License-Identifier: Apache-2.0
"""docs/parts.md: numbers of parts, with links that take time."""

import registry

page = registry.Page("parts")

FROM = 5  # rounds before are left out: the server does not know its workers yet
JOB = ["--workers", 24, "--chunks", 24, "--replication", 6, "--dimension", "1e7", "--rounds", 30,
       "--silence", 1000]
STATIC = ["--trials", 50]
DYNAMIC = ["--trials", 10, "--pieces", 4]
CHUNKS = ["--chunk-time", 0.2]
SHIFTED = "shifted-exp:0.2,0.2"
LINKS = {"1 GB/s": 1e9, "300 MB/s": 3e8, "100 MB/s": 1e8, "30 MB/s": 3e7, "10 MB/s": 1e7}


def own(link):
    """The options of a link of that speed at each worker."""
    return ["--bandwidth", f"{LINKS[link]:g}"]


def cases():
    """(slowness, SPEC and options, name of the link, its options) of each row."""
    for spec, links in ((SHIFTED, ("1 GB/s", "100 MB/s", "30 MB/s", "10 MB/s")),
                        (f"{SHIFTED}/chunk", ("100 MB/s", "30 MB/s", "10 MB/s")), ("exp:0.5", ("100 MB/s", "30 MB/s", "10 MB/s")),
                        ("pareto:0.2,1.5", ("30 MB/s", "10 MB/s")), ("slow:3,5", ("30 MB/s", "10 MB/s")),
                        ("markov:0.1,0.3,5", ("30 MB/s", "10 MB/s"))):
        sleeping = spec.startswith(("slow", "markov"))
        for link in links:
            yield (spec, ["--straggler", spec, *(CHUNKS if sleeping else [])], link, own(link))
    for link in ("1 GB/s", "300 MB/s"):
        yield SHIFTED, ["--straggler", SHIFTED], f"{link}, shared at the server", ["--server-bandwidth", f"{LINKS[link]:g}"]
    yield SHIFTED, ["--straggler", SHIFTED], "30 MB/s, latency 0.3 s", [*own("30 MB/s"), "--latency", 0.3]


def mean(result, key):
    rounds = result["rounds"][FROM:]
    return sum(row[key] for row in rounds) / len(rounds)


def measure(tarry, scheme, options):
    """Seconds per round with 1 to 4 parts, and what the best of them gains over one part."""
    seconds = [mean(result, "seconds") for result in tarry.results(*JOB, *options, "--scheme", f"{scheme}:parts=1,2,3,4")]
    return seconds, seconds[0] / min(seconds)


def cells(tarry, scheme, options):
    seconds, gain = measure(tarry, scheme, options)
    _, without = measure(tarry, scheme, [*options, "--parameter-bytes", 0])
    return [*(f"{time:.3f}" for time in seconds), f"{gain:.2f}", f"{without:.2f}"]


FIGURES = ["l = 1", "l = 2", "l = 3", "l = 4", "l = 1 / best", "without the way down"]


@page.table("static")
def static(tarry):
    return ["slowness", "link of each worker", *FIGURES], [
        [name, link, *cells(tarry, "partial", [*STATIC, *spec, *options])] for name, spec, link, options in cases()]


@page.table("dynamic")
def dynamic(tarry):
    return ["slowness", "link of each worker", *FIGURES], [
        [SHIFTED, link, *cells(tarry, "tarry", [*DYNAMIC, "--straggler", SHIFTED, *own(link)])]
        for link in ("1 GB/s", "100 MB/s", "30 MB/s", "10 MB/s")]
