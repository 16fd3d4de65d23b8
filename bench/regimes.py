#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The regime map of docs/regimes.md: who takes least, by how much, and where it isn't Tarry.

Usage: bench/regimes.py TARRY [--write] [--only regimes/NAME]

Simulates every regime with every scheme at its best, prints a table per axis, and draws docs/figures/regimes.svg (by gnuplot);
what differs from the page is said, or with --write put there. bench/tables.py does the same among all pages.
"""

import statistics
import subprocess
import sys

WORKERS = 100
TRIALS = 9
PIECES = (1, 4, 16, 32)  # that schemes may choose from
MILD = "jitter:0.1+slow:{},2-10"
LOSES = 1.03  # times the best: from here on Tarry is said to lose
EVEN = 1.005  # the simplest of those that are so near to the best is said to win


class Regime:
    """One row: what workers, links and plans are like. Tarry has `replication` and `pieces` there.

    With `racks` its plan knows that racks are of so many workers.
    """

    def __init__(self, name, *options, workers=WORKERS, straggler=None, replication=3, pieces=16, keep="all", racks=0,
                 trials=TRIALS, links=False):
        self.name = name
        self.replication = replication
        self.pieces = pieces
        self.keep = keep
        self.racks = f",racks={racks}" if racks else ""
        self.links = links
        straggler = straggler or MILD.format(-(-workers // 20))
        self.options = ["--workers", workers, "--chunks", workers, "--trials", trials, "--straggler", straggler, *options]

    def variants(self):
        """(column, how it is set, scheme): each column has the least time of its variants."""
        r, pieces = self.replication, self.pieces
        yield "uncoded", "", "uncoded"
        if self.links:
            yield "ring", "", "ring"
            yield "direct", "", "direct"
        for count in PIECES:
            yield "queue", f"P = {count}", f"queue:pieces={count}"
        for copies in sorted({2, max(2, r)}):
            yield "cyclic", f"r = {copies}", f"cyclic:replication={copies}"
            yield "fractional", f"r = {copies}", f"fractional:replication={copies}"
        for count in 1, 4:
            yield "multi-message", f"P = {count}", f"multi-message:replication={r},pieces={count}"
            yield "partial", f"P = {count}", f"partial:replication={r},pieces={count}"
        yield "Tarry", "", f"tarry:replication={r},pieces={pieces},keep={self.keep}{self.racks}"
        for copies, count in self.settings():
            yield "at best", f"r = {copies}, P = {count}", f"tarry:replication={copies},pieces={count}{self.racks}"
        yield "ignore 5 %", "", "ignore-stragglers"
        yield "DropCompute", "", "dropcompute:pieces=16"
        if self.links:
            yield from self.over_links()

    def over_links(self):
        """What else there is where vectors take their time: sums among workers."""
        r = self.replication
        yield "everywhere", "", f"tarry:replication={r},pieces={self.pieces},sum=everywhere"
        for copies, count in self.settings():
            chosen = f"tarry:replication={copies},pieces={count}"
            yield "at best", f"r = {copies}, P = {count}, everywhere", f"{chosen},sum=everywhere"
        for parts in 2, 3:
            chosen = f"tarry:replication={max(r, parts)},pieces=4,parts={parts}"
            yield "at best", f"l = {parts}, P = 4", chosen
            yield "at best", f"l = {parts}, P = 4, everywhere", f"{chosen},sum=everywhere"
        yield "DropCompute", "", "dropcompute:pieces=16,sum=everywhere"

    def settings(self):
        for count in PIECES:
            yield self.replication, count
        if self.replication == 3 and self.options[1] >= 8:
            yield 8, 16


def links(speed, dimension):
    return ["--dimension", dimension, "--bandwidth", speed, "--server-bandwidth", speed, "--silence", 1000]


def regimes():
    """The map: axis -> its rows."""
    jitter = "jitter:0.1"
    return {
        "stragglers": [
            Regime("none", straggler="none"),
            Regime("10 % jitter", straggler=jitter),
            Regime("5 % are 2 to 10 times slower"),
            Regime("one is 100 times slower", straggler=f"{jitter}+slow:1,100"),
            Regime("shifted exponential", straggler="shifted-exp:1,1"),
            Regime("exponential", straggler="exp:1"),
            Regime("Pareto 1.5", straggler="pareto:1,1.5"),
            Regime("Pareto 1.1", straggler="pareto:1,1.1"),
            Regime("each chunk exponential", straggler="exp:1/chunk"),
            Regime("chunks uneven, lognormal 1", "--chunk-cost", "lognormal:1", straggler=jitter),
            Regime("two are dead", straggler=f"{jitter}+dead:2"),
        ],
        "racks": [
            *(Regime(f"of {size}, 20 % are {factor} times slower{', known' if known else ''}",
                     straggler=f"{jitter}+rack:{size},{factor},0.2", racks=known)
              for size, factor in ((10, 5), (20, 5), (10, 100)) for known in (0, size)),
        ],
        "replication": [Regime(f"r = {r}", replication=r) for r in (1, 2, 4, 8)],
        "pieces": [Regime(f"P = {pieces}", pieces=pieces) for pieces in (1, 4, 64)],
        "latency": [
            *(Regime(f"{latency:g} of a chunk", "--latency", latency) for latency in (0.001, 0.01, 0.1, 0.5, 1)),
            *(Regime(f"{latency:g}, keep credited", "--latency", latency, keep="credited") for latency in (0.01, 0.1, 0.5)),
            *(Regime(f"{latency:g}, no stragglers", "--latency", latency, straggler="none") for latency in (0.01, 0.1, 0.5)),
        ],
        "overhead": [
            *(Regime(f"{100 * seconds:g} % of a chunk per piece", "--overhead", seconds) for seconds in (0.001, 0.01, 0.03, 0.1, 0.3)),
            Regime("3 %, no stragglers", "--overhead", 0.03, straggler="none"),
        ],
        "links": [
            *(Regime(f"{text}, d = 1e{d}{more}", *links(speed, 10 ** d), straggler=straggler, links=True)
              for more, straggler in ((", no stragglers", "none"), ("", None))
              for speed, text in ((1.25e10, "100 Gb/s"), (1.25e9, "10 Gb/s"))
              for d in (5, 6, 7)),
            Regime("10 Gb/s, d = 1e7, m = 33, chunks of 1 ms", *links(1.25e9, 10 ** 7), "--chunk-time", 0.001, workers=33,
                   straggler="none", links=True),
        ],
        "workers": [
            *(Regime(f"m = {workers}", workers=workers) for workers in (7, 20, 50)),
            Regime("m = 1,000", workers=1000, trials=3),
        ],
    }


# The simplest first.
EXACT = ["uncoded", "ring", "direct", "queue", "cyclic", "fractional", "multi-message", "partial", "Tarry", "everywhere"]
OWN = ["Tarry", "everywhere"]
APPROXIMATE = ["ignore 5 %", "DropCompute"]
COLUMNS = [*EXACT, "at best", *APPROXIMATE]


class Cell:
    """What one column comes to in one regime."""

    def __init__(self, seconds, error, setting):
        self.seconds = seconds
        self.error = error
        self.setting = setting


class Row:
    """The columns of one regime; a scheme that most trials cannot end takes forever."""

    def __init__(self, runner, regime):
        self.regime = regime
        variants = list(regime.variants())
        results = runner.results(*regime.options, "--scheme", ",".join(scheme for _, _, scheme in variants))
        self.cells = {}
        for (column, setting, _), result in zip(variants, results, strict=True):
            seconds = statistics.median(float("inf") if time is None else time for time in result["seconds"])
            if column not in self.cells or seconds < self.cells[column].seconds:
                self.cells[column] = Cell(seconds, result["expected_error"], setting)
        for own in OWN:
            if own in self.cells and self.cells[own].seconds < self.cells["at best"].seconds:
                self.cells["at best"] = self.cells[own]
        self.best = min(self.cells[column].seconds for column in EXACT if column in self.cells)
        self.winner = next(column for column in EXACT
                           if column in self.cells and self.cells[column].seconds <= EVEN * self.best)

    def ratio(self, column):
        """Times the best exact sum; None: not for this regime."""
        return self.cells[column].seconds / self.best if column in self.cells else None

    def loses(self, column):
        return column in OWN and column in self.cells and self.ratio(column) >= LOSES

    def margin(self):
        """How many times the least time the next best takes."""
        return min(self.ratio(column) for column in EXACT if column in self.cells and column != self.winner)


def number(ratio):
    if ratio is None:
        return ""
    if ratio == float("inf"):
        return "never"
    return f"{ratio:.2f}" if ratio < 9.995 else f"{ratio:.0f}"


def seconds_text(seconds):
    return f"{seconds:.3g} s" if seconds >= 0.1 else f"{1000 * seconds:.3g} ms"


def words(row, column):
    text = number(row.ratio(column))
    if column in APPROXIMATE and text != "never":
        return f"{text} ({100 * row.cells[column].error:.2g} %)"
    if row.loses(column):
        return f"**{text}**"
    if column == "at best" and row.cells[column].setting:
        return f"{text} ({row.cells[column].setting})"
    return text


def rows_of(runner, axis):
    return [Row(runner, regime) for regime in regimes()[axis]]


def table(runner, axis):
    """(header, rows) of an axis."""
    rows = rows_of(runner, axis)
    columns = [column for column in COLUMNS if any(column in row.cells for row in rows)]
    header = ["regime", "best", "least time", "the next", *("Tarry at best" if column == "at best" else column for column in columns)]
    return header, [[row.regime.name, row.winner, seconds_text(row.best), number(row.margin()),
                     *(words(row, column) for column in columns)] for row in rows]


SUM_ROUNDS = 3
SUMS = ["uncoded", "tarry:replication=3,pieces=16", "tarry:replication=3,pieces=16,compress=int8", "ring", "direct",
        "tarry:replication=3,pieces=16,sum=everywhere"]


class SumCase:
    """Seconds of each of SUMS where links count: the first round's and the third's, medians of the trials."""

    def __init__(self, what, slow, results):
        self.what = what
        self.slow = slow
        self.first, self.third = ([statistics.median(row["seconds"] for row in result["rounds"][at::SUM_ROUNDS])
                                   for result in results] for at in (0, SUM_ROUNDS - 1))


def sum_cases(runner):
    """10 Gb/s everywhere."""
    for workers in 33, 200:
        for d in 6, 7:
            for slow in False, True:
                results = runner.results("--workers", workers, "--chunks", workers, "--trials", TRIALS, "--straggler",
                                         MILD.format(-(-workers // 20)) if slow else "none", *links(1.25e9, 10 ** d), "--rounds",
                                         SUM_ROUNDS, "--scheme", ",".join(SUMS))
                yield SumCase(f"m = {workers}, d = 1e{d}, {'5 % slow' if slow else 'no stragglers'}", slow, results)


def sums(runner):
    """(header, rows): at the server, with an uncoded star; and everywhere, over an uncoded ring."""
    header = ["regime", "uncoded", "Tarry", "Tarry in int8", "ring", "direct", "everywhere", "over the ring", "the third round"]
    rows = []
    for case in sum_cases(runner):
        ring, everywhere = case.first[3], case.first[5]
        rows.append([case.what, *map(seconds_text, case.first), number(everywhere / ring), number(case.third[5] / case.third[3])])
    return header, rows


# ---- the figure ----

WIDTH, HEIGHT, LEFT, TOP, GAP = 92, 20, 390, 98, 14
STEPS = [(1.03, "#9fd8a4"), (1.1, "#d9eec0"), (1.3, "#fbf3bd"), (2, "#f8d58b"), (4, "#eeb06a"), (10, "#d98a5b"),
         (float("inf"), "#a9806f")]
ABSENT = "#e8e8e8"
NOT_EXACT = "#eef2f8"
HEADS = {"queue": "queue,\\nm copies", "everywhere": "Tarry,\\neverywhere", "multi-message": "multi-\\nmessage", "at best": "Tarry,\\nbest r, P",
         "ignore 5 %": "ignore\\n5 %", "DropCompute": "Drop-\\nCompute"}
RED = "#d00000"


def colour(ratio):
    return ABSENT if ratio is None or ratio == float("inf") else next(shade for limit, shade in STEPS if ratio < limit)


def x_of(column):
    """Gaps set Tarry apart, and what is not exact."""
    gaps = (column >= EXACT.index("Tarry")) + (column >= len(EXACT) + 1)
    return LEFT + column * WIDTH + gaps * GAP


class Drawing:
    """A gnuplot script of boxes and words, in pixels from the upper left."""

    def __init__(self):
        self.lines = []

    def box(self, x, y, width, height, fill, frame=None):
        border = f"border lc rgb '{frame}' lw 2.5" if frame else "border lc rgb 'white'"
        shade = f"fc rgb '{fill}' fs solid" if fill else "fs empty"
        self.lines.append(f"set object rectangle from {x},{y} to {x + width},{y + height} {shade} {border}")

    def text(self, x, y, words, align="center", size=12, colour="black", bold=False):
        font = f"Helvetica{':Bold' if bold else ''},{size}"
        self.lines.append(f"set label \"{words}\" at {x},{y} {align} font '{font}' tc rgb '{colour}' noenhanced")

    def finish(self, path, width, height, terminal):
        head = [f"set terminal {terminal} size {width},{height} background 'white'", f"set output '{path}'", "unset border",
                "unset tics", "unset key", "set lmargin 0", "set rmargin 0", "set tmargin 0", "set bmargin 0",
                f"set xrange [0:{width}]", f"set yrange [{height}:0]"]
        subprocess.run(["gnuplot"], input="\n".join([*head, *self.lines, "plot NaN"]) + "\n", text=True, check=True)


def draw_head(drawing):
    drawing.text(12, 18, "Time of a round over that of the best exact sum", "left", 15, bold=True)
    for i, (limit, shade) in enumerate(STEPS):
        least = 1 if i == 0 else STEPS[i - 1][0]
        drawing.box(12 + i * 118, 36, HEIGHT, HEIGHT, shade)
        drawing.text(38 + i * 118, 46, f"{least:g} to {limit:g}" if limit < 100 else f"{least:g} and more", "left", 11)
    drawing.box(30 + 7 * 118, 36, HEIGHT, HEIGHT, "white", RED)
    drawing.text(57 + 7 * 118, 46, f"Tarry loses by {100 * (LOSES - 1):.0f} % or more", "left", 11, RED, True)
    for i, column in enumerate(COLUMNS):
        title = HEADS.get(column, column)
        drawing.text(x_of(i) + WIDTH / 2, TOP - (25 if "\\n" in title else 17), title, size=11, bold=True)
    first = x_of(len(EXACT) + 1)
    drawing.text(first + WIDTH, TOP - 48, "not exact (error)", size=11)


def draw_row(drawing, y, row):
    drawing.text(LEFT - 8, y + HEIGHT / 2, row.regime.name, "right", 11)
    for i, column in enumerate(COLUMNS):
        ratio = row.ratio(column)
        lost = row.loses(column)
        shade = "white" if lost else NOT_EXACT if column in APPROXIMATE else colour(ratio)
        drawing.box(x_of(i), y, WIDTH, HEIGHT, shade)
        text = words(row, column) if column in APPROXIMATE else number(ratio)
        drawing.text(x_of(i) + WIDTH / 2, y + HEIGHT / 2, text, size=11, colour=RED if lost else "black",
                     bold=lost or row.winner == column)
        if lost:
            drawing.box(x_of(i) + 1, y + 1, WIDTH - 2, HEIGHT - 2, None, RED)


def draw(runner, path, terminal="svg"):
    drawing = Drawing()
    draw_head(drawing)
    y = TOP
    for axis in regimes():
        drawing.text(12, y + HEIGHT / 2, axis, "left", 12, bold=True)
        for row in rows_of(runner, axis):
            draw_row(drawing, y, row)
            y += HEIGHT
        y += 8
    drawing.finish(path, x_of(len(COLUMNS) - 1) + WIDTH + 12, y + 6, terminal)


if __name__ == "__main__":
    import tables

    if "--only" not in sys.argv:
        sys.argv += ["--only", "regimes"]
    sys.exit(tables.main())
