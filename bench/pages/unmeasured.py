# SPDX-License-Identifier: Apache-2.0
"""Tables with numbers that are no measurements, or that no command of ours repeats, of pages that have nothing else."""

import registry

registry.Page("architecture").drawn_by_hand("architecture.svg")
collective = registry.Page("collective")
collective.not_measured("clauses by number; tests/model/check_vote.py finds each", "| left out, as the model names it |")
collective.not_measured("programs of others beside ours; bench/allreduce.py runs them all", "| sums by | best form |")
collective.not_measured("bench/everywhere.py runs them, beside programs of others", "| steps of | balanced, ms |",
                        "| over | d | sum alone, ms |", "| over | a waiting process, % of a core |",
                        "| over | d | sleep, ms |", "| over | d | killed in a sum |")
registry.Page("data-formats").not_measured("a format", "| models | labels | kept |")
registry.Page("fuzzing").not_measured("executions of the fuzzers, over days; tests/fuzz.py runs each",
                                      "| fuzzer | executions | per second |")
registry.Page("local-steps").not_measured("trainings of many minutes, whose commands the page has", "| | S = 1 |",
                                           "| chunks | 24 |")
registry.Page("mpi").not_measured("MPI's own collectives beside ours; bench/mpi.py runs them", "| ranks step by |", "| sums over | d |")
registry.Page("security").not_measured("bounds", "| bound | value |")
registry.Page("testing").not_measured("files", "| file of `tests/scenario` |")
registry.Page("train").not_measured(
    "examples, whose times are the clock's", "$ tarry train --straggler slow:2,5+exp:0.01+dead:1",
    "$ tarry train --straggler dead:5", "$ tarry train --data a9a --rounds 1000 --reproducible")
registry.Page("wire").not_measured("layouts of frames", "| offset | size |", "| setting | size | |", "| kind | name | sent by |", "| type | name | from |")
torch = registry.Page("torch")
torch.not_measured("python/bench/exactness.py runs it, with PyTorch", "| 200 steps |")
torch.not_measured("torch.distributed beside ours; python/bench/engines.py prints the rows", "| processes | d | direct, shared memory |")
torch.not_measured("programs of others beside ours; python/bench/steps.py runs them", "| delays | balanced, ms |",
                   "| | Tarry | DDP (Gloo) | LocalSGD |")
torch.not_measured("a program of others beside ours, in a control group; python/bench/held.py runs both", "| share of a core |")
