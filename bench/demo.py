#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same training twice, over the same slow workers: waiting for everybody, and with Tarry.

    bench/demo.py build-release [--rounds N] [--picture FILE.svg]

What the workers' delays come to if every one of them is busy all the time, at its own speed, is worked out from the
same draws: nothing can be faster than that perfect balance.
"""

import argparse
import ctypes
import os
import shutil
import sys

import gnuplot
import runner

WORKERS = 12
# Machines that take 10 ms per chunk and, anew in each round, some time more; three of them four times as long.
STRAGGLER = "shifted-exp:0.01,0.02+slow:3,4"
SEED = 1
ROUNDS = 60
COMMON = ["--workers", WORKERS, "--chunks", WORKERS, "--straggler", STRAGGLER, "--seed", SEED]
EVERYBODY = [*COMMON, "--replication", 1, "--pieces", 1, "--order", "as-is"]
TARRY = [*COMMON, "--replication", 4, "--pieces", 8, "--order", "dynamic"]
COLOURS = {"waiting for everybody": "#D55E00", "Tarry": "#0072B2", "perfectly balanced": "#666666"}


def balanced_seconds(tool, rounds):
    """What each round takes if the work is spread by the workers' speeds of that round, without a rest."""
    tarry = ctypes.CDLL(os.path.join(os.path.dirname(tool.tarry), "../libtarry.so"))
    straggler = ctypes.c_void_p()
    if tarry.tarry_straggler_create(STRAGGLER.encode(), ctypes.c_uint32(WORKERS), ctypes.c_uint64(SEED), None,
                                    ctypes.byref(straggler), None) != 0:
        raise runner.Failed(f"{STRAGGLER}: refused")
    tarry.tarry_straggler_time_ns.restype = ctypes.c_uint64
    of_round = []
    for number in range(rounds):
        speeds = (1e9 / tarry.tarry_straggler_time_ns(straggler, ctypes.c_uint64(number), worker, 0, 0, 1, ctypes.c_uint64(0))
                  for worker in range(WORKERS))
        of_round.append(WORKERS / sum(speeds))
    tarry.tarry_straggler_free(straggler)
    return of_round


def add_up(seconds):
    total, sums = 0, [0]
    for one in seconds:
        total += one
        sums.append(total)
    return sums


def copies(report):
    """How often a chunk was computed, on average."""
    rounds = report["rounds"]
    return sum(r["copies_computed"] * r["parts"] / r["copies_needed"] for r in rounds) / len(rounds)


def curves_of(tool, waits, codes):
    """Seconds so far after each round: of both reports, and in perfect balance."""
    return {"waiting for everybody": add_up(r["seconds"] for r in waits["rounds"]),
            "Tarry": add_up(r["seconds"] for r in codes["rounds"]),
            "perfectly balanced": add_up(balanced_seconds(tool, len(codes["rounds"])))}


def draw(path, curves):
    """Time over rounds; each curve's name stands at its end."""
    rounds, longest = len(curves["Tarry"]) - 1, curves["waiting for everybody"][-1]
    lines = ["set xlabel 'rounds done'", "set ylabel 'seconds'", f"set xrange [0:{rounds * 1.4}]",
             f"set yrange [0:{longest * 1.06}]", "unset key", "set border 3", "set tics nomirror",
             f"set xtics 0,{max(1, rounds // 6)},{rounds}"]
    for name, seconds in curves.items():
        lines += gnuplot.block(name.split()[0], [(i, f"{at:.6g}") for i, at in enumerate(seconds)])
    for name, seconds in curves.items():
        low = longest * (0.035 if name == "Tarry" else -0.02 if name == "perfectly balanced" else 0)
        lines.append(f"set label '{name}: {seconds[-1]:.1f} s' at {rounds * 1.015},{seconds[-1] + low:.6g} "
                     f"textcolor rgb '{COLOURS[name]}'")
    lines.append("plot " + ", ".join(f"${name.split()[0]} using 1:2 with lines lw 2.5 lc rgb '{COLOURS[name]}'"
                                     f"{' dt 2' if name == 'perfectly balanced' else ''}" for name in curves))
    gnuplot.draw(path, "720,300", lines)


def train(tool, what, arguments):
    """Says what runs, runs it, says what came of it; gives back the report."""
    print(f"{what}\n  tarry train {' '.join(map(str, arguments))}", flush=True)
    report = tool.report(*arguments)
    final = report["final"]
    print(f"  {final['round_seconds']:.1f} s for {final['rounds']} rounds, loss {report['initial']['loss']:.4f} -> "
          f"{final['loss']:.4f}, {copies(report):.2f} copies computed per chunk", flush=True)
    return report


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("build", help="folder of a release build")
    arguments.add_argument("--rounds", type=int, default=ROUNDS)
    arguments.add_argument("--picture", default="demo.svg")
    given = arguments.parse_args()
    tool = runner.Runner(os.path.join(given.build, "src/cli/tarry"), None)
    rounds = ["--rounds", given.rounds]
    print(f"{given.rounds} rounds over {WORKERS} workers, three of them four times slower than the others.\n", flush=True)
    waits = train(tool, "Waiting for everybody: each worker has its share.", [*EVERYBODY, *rounds])
    codes = train(tool, "With Tarry: four workers have each piece of the data, and it is computed where it is done soonest.",
                  [*TARRY, *rounds])
    curves = curves_of(tool, waits, codes)
    everybody, tarry, best = (curve[-1] for curve in curves.values())
    print(f"\n  waiting for everybody  {everybody:6.1f} s\n  Tarry                  {tarry:6.1f} s, "
          f"{everybody / tarry:.1f} times as fast, for {copies(codes):.2f} copies of the work\n"
          f"  perfectly balanced     {best:6.1f} s, which nothing can be faster than")
    if shutil.which("gnuplot") is None:
        print("  no picture: gnuplot is not there")
    else:
        draw(given.picture, curves)
        print(f"  the picture is         {given.picture}")


if __name__ == "__main__":
    try:
        main()
    except runner.Failed as fault:
        sys.exit(f"demo: {fault}")
    except KeyboardInterrupt:
        sys.exit("\ndemo: interrupted")
