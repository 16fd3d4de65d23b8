#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The two experiments on partial stragglers, and the schemes on recorded traces, as docs/experiments.md and
# docs/traces.md show them. Leaves tables, JSON reports and pictures in a folder.
set -eu

usage() {
    cat <<END
Usage: $0 [-q] [-t TARRY] [-d TRACES] error|time|traces OUT
  error   the error of a sum that ends at a deadline: whole workers' credit against credit by chunk, 1, 2 and 4 parts
  time    the time of an exact sum over the parts, for several assignments, random against optimal order
  traces  uncoded and coded sums on recorded traces, replication 1 to 4
  OUT     folder for the results; it is made if need be
  -q      a few trials of small clusters, to see that all runs
  -t      the binary (default: tarry on the PATH)
  -d      folder of the traces (default: ../shared/data/traces); exit status 77 if they are not there
END
}

tarry=tarry traces=../shared/data/traces quick=
while getopts qt:d:h option; do
    case $option in
    q) quick=yes ;;
    t) tarry=$OPTARG ;;
    d) traces=$OPTARG ;;
    h) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -eq 2 ] || { usage >&2 && exit 2; }
out=$2
command -v "$tarry" >/dev/null || { echo "$0: no $tarry; name it with -t" >&2 && exit 1; }
if [ "$1" = traces ] && ! [ -r "$traces/slow_worker.csv" ]; then
    echo "$0: no traces in $traces; name their folder with -d" >&2
    exit 77
fi
mkdir -p "$out"

# Pictures need gnuplot; without it the figures are still there.
simulate() { # NAME OPTION...
    name=$1
    shift
    "$tarry" simulate --report "$out/$name.json" "$@" >"$out/$name.txt" 2>"$out/$name.log" || {
        cat "$out/$name.log" >&2
        return 1
    }
    ! command -v gnuplot >/dev/null || "$(dirname "$0")/plot.py" "$out/$name.json" "$out/$name.svg" 2>>"$out/$name.log"
    echo "== $name"
    cat "$out/$name.txt"
}

error_over_deadline() {
    set -- --workers 200 --chunks 200 --replication 8 --parts 1,2,4 --trials 1000
    dead=dead:10
    if [ -n "$quick" ]; then
        set -- --workers 20 --chunks 20 --replication 4 --parts 1,2 --trials 3
        dead=dead:1
    fi
    set -- "$@" --scheme 'own:name=whole workers,credit=whole,partial'
    simulate error-exp "$@" --straggler "exp:1+$dead" --deadline 0.1:16:160
    simulate error-shifted-exp "$@" --straggler "shifted-exp:1,1+$dead" --deadline 0.1:24:240
}

# Each design that a script writes beside the random one of its size.
compare() { # NAME WORKERS CHUNKS DEAD DESIGN
    "$(dirname "$0")/designs.py" "$5" --workers "$2" --chunks "$3" --replication $replication >"$out/$1.design"
    list=
    for design in random "file:$out/$1.design"; do
        name=$5
        [ "$design" != random ] || name=random
        for order in random optimal; do
            list="$list${list:+,}partial:name=$name $order,design=$design,order=$order"
        done
    done
    simulate "time-$1" --workers "$2" --chunks "$3" --straggler "exp:1+dead:$4" --replication $replication \
        --parts $parts --trials $trials --scheme "$list"
}

time_over_parts() {
    if [ -n "$quick" ]; then
        replication=3 parts=1,2 trials=3
        compare difference 21 21 1 difference
        compare wide 21 42 1 difference
        compare projective 21 21 1 projective
        compare affine 18 12 1 affine
    else
        replication=8 parts=1,2,3,4 trials=1000
        compare difference 200 200 10 difference
        compare wide 200 400 10 difference
        compare projective 228 228 11 projective
        compare affine 224 196 11 affine
    fi
}

# Each trial is one step of the trace; DropCompute ends when the coded sum of replication 2 does, in the median.
on_trace() { # NAME STEPS WORKERS CHUNKS SUFFIX DEADLINE
    [ -z "$quick" ] || set -- "$1" 2 "$3" "$4" "$5" "$6"
    simulate "trace-$1" --workers "$3" --chunks "$4" --trials "$2" --straggler "trace:$traces/$1.csv$5" \
        --replication 1,2,3,4 --scheme "uncoded,ring,dropcompute:deadline=$6,queue:pieces=4,cyclic,fractional,partial,tarry,tarry:name=tarry in pieces,pieces=4"
}

on_traces() {
    on_trace slow_worker 44 4 128 '' 89.7
    on_trace sequence_imbalance 45 32 256 /chunk 12.1
}

case $1 in
error) error_over_deadline ;;
time) time_over_parts ;;
traces) on_traces ;;
*) usage >&2 && exit 2 ;;
esac
