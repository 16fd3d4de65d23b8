# SPDX-License-Identifier: Apache-2.0
"""docs/simulate.md: what the walk prints, and its figures."""

import forms
import level
import registry

page = registry.Page("simulate")
page.console("walk", "beside", "dead", "pieces-uneven", "pieces-slow")
page.not_measured("settings of the schemes", "| scheme | replication |")

TRIALS = ["--trials", 1000]
WHOLE = "own:name=whole,credit=whole"
RANDOM = "partial:name=random,order=random"
DEAD = "exp:1+dead:10"
ERROR = 0.1


@page.table("overheads")
def overheads(tarry):
    """Balanced holds what a piece costs, and uncoded shows it."""
    rows = []
    for overhead, name in ((0, "0"), (0.02, "20 ms"), (0.1, "100 ms")):
        results = tarry.results("--trials", 20, "--scheme", "tarry", "--replication", 3, "--pieces", "1,16,64", "--straggler",
                                "jitter:0.1+slow:10,2-10", "--overhead", overhead)
        for row in results:
            rows.append([name if row["pieces"] == 1 else "", row["pieces"], forms.seconds(row["time"]["median"]),
                         f"{row['ratio_to_balanced']:.2f}", forms.digits(row["ratio_to_uncoded"], 3)])
    return ["overhead of a piece", "P", "median", "/balanced", "/uncoded"], rows


@page.table("times")
def times(tarry):
    """Each scheme beside partial, on the same draws."""
    rows = []
    for spec, schemes in ((DEAD, f"partial,{RANDOM},{WHOLE},cyclic"), ("exp:1", "partial,cyclic")):
        results = {name: row for (name, _), row in tarry.simulate(*TRIALS, "--straggler", spec, "--scheme", schemes).items()}
        partial = results["partial"]["time"]["median"]
        for name, title in (("whole", "whole"), ("random", "random order"), ("cyclic", "original, `workers:193`"),
                            ("uncoded", "uncoded")):
            if name in results:
                rows.append([f"`{spec}`", forms.seconds(partial),
                             *beside(title, results[name], partial)])
    return ["", "partial", "compared with", "ratio"], rows


def beside(title, result, partial):
    failed, trials = result["failed"], result["trials"]
    if failed == trials:
        return f"{title}: {failed:,} of {trials:,} trials fail", ""
    time = result["time"]["median"]
    return f"{title}: {forms.seconds(time)}", forms.digits(partial / time, 2)


@page.table("errors")
def errors(tarry):
    """Errors of partial at the deadline where the mean error of whole is ERROR, interpolated between deadlines."""
    rows = []
    for spec, deadlines in (("exp:1", "0.1:8:80"), ("shifted-exp:1,1", "8:40:161")):
        for dead in ("", "+dead:10"):
            results = tarry.simulate(*TRIALS, "--straggler", spec + dead, "--scheme", f"partial,{WHOLE}", "--parts", "1,2,4",
                                     "--deadline", deadlines)
            for parts in (1, 2, 4):
                at, error = level.where(results["whole", parts]["error"], results["partial", parts]["error"], ERROR)
                rows.append([f"`{spec}{dead}`" if parts == 1 else "", parts, f"{at:.2f} s",
                             forms.short(error, 3) if error > 0 else "none in any trial",
                             forms.thousands(float(forms.digits(ERROR / error, 2))) if error > 0 else ""])
    return ["straggler", "parts", "T", "error of partial", "times smaller"], rows
