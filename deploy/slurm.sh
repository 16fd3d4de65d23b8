#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Trains with Tarry in one Slurm job: the server beside this script, on the job's first node, and a worker per task.
# What follows the script's name are options of `tarry serve`:
#
#     sbatch --ntasks=16 slurm.sh --data train.libsvm --rounds 500
#
# Everything is kept in a folder that all nodes see, by default tarry-JOBID where the job was submitted: credentials,
# which are made for this job alone, checkpoint, log and report. From the environment:
#
#     TARRY        the program (tarry, found by PATH)
#     TARRY_RUN    that folder
#     TARRY_WORK   options of each `tarry work`, such as --data FILE; empty: the server ships the data
#     TARRY_PORT   where the server listens (20000 to 29999, from the job's number)
#
# The job may be requeued at any time, and asks for it itself two minutes before its time limit: it goes on from the
# checkpoint. A worker or a node that is lost does not end it. docs/deploy.md says more.
#
#SBATCH --job-name=tarry
#SBATCH --ntasks=8
#SBATCH --no-kill
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
set -u
umask 077

tarry=${TARRY:-tarry}
run=${TARRY_RUN:-$SLURM_SUBMIT_DIR/tarry-$SLURM_JOB_ID}
port=${TARRY_PORT:-$((20000 + SLURM_JOB_ID % 10000))}
workers=$SLURM_NTASKS
keys=$run/keys

# Whoever has the authority's key can make members. This job needs no more of them.
make_credentials() {
    if [ -d "$keys" ]; then
        return
    fi
    mkdir -p "$run" && rm -rf "$keys.new" &&
        "$tarry" keys init --workers "$workers" "$keys.new" &&
        rm "$keys.new/ca-key.pem" && mv "$keys.new" "$keys"
}

start_server() {
    local resume=() data=()
    if [ -e "$run/checkpoint" ] || [ -e "$run/checkpoint.previous" ]; then
        resume=(--resume)
    fi
    [ -n "${TARRY_WORK:-}" ] || data=(--ship-data)
    "$tarry" serve --workers "$workers" "${data[@]}" "$@" --listen ":$port" --credentials "$keys/server" \
        --checkpoint "$run/checkpoint" "${resume[@]}" --log "$run/server.jsonl" --report "$run/report.json" &
    server=$!
}

# A task starts its worker again when that was killed, unless it was told to stop or refused for good (status 1).
# shellcheck disable=SC2016 # the task's shell expands it
worker_task='
tarry=$1 connect=$2 keys=$3; shift 3
trap "stop=yes" TERM
for try in 1 2 3 4 5; do
    "$tarry" work --connect "$connect" --credentials "$keys/worker-$SLURM_PROCID" \
        --rack "${SLURMD_NODENAME:-$(hostname)}" "$@"
    status=$?
    if [ "$status" -le 128 ] || [ -n "${stop:-}" ]; then
        exit "$status"
    fi
    echo "worker $SLURM_PROCID: ended by signal $((status - 128))" >&2
    sleep "$try"
done
exit "$status"'

start_workers() {
    # shellcheck disable=SC2086 # TARRY_WORK is several words
    srun --mpi=none --no-kill --wait=0 --kill-on-bad-exit=0 --ntasks="$workers" \
        bash -c "$worker_task" worker "$tarry" "$(hostname):$port" "$keys" --quiet ${TARRY_WORK:-} &
    step=$!
}

# A signal ends `wait` early, with the process still there.
wait_for_server() {
    while :; do
        wait "$server"
        status=$?
        kill -0 "$server" 2>/dev/null || return
    done
}

stopping='' requeue='' server=''
trap 'stopping=yes requeue=yes; kill -TERM "$server"' USR1
trap 'stopping=yes; kill -TERM "$server"' TERM

make_credentials || exit
start_server "$@"
start_workers
wait_for_server
for try in 1 2 3 4 5; do
    if [ "$status" -le 128 ] || [ -n "$stopping" ]; then
        break
    fi
    echo "server: ended by signal $((status - 128)), goes on from its checkpoint" >&2
    sleep "$try"
    start_server "$@"
    wait_for_server
done

if [ -n "$requeue" ]; then
    scontrol requeue "$SLURM_JOB_ID"
    exit
fi
# Workers end when the run has; who does not hear of it ends with the job.
for _ in {1..30}; do
    kill -0 "$step" 2>/dev/null || break
    sleep 1
done
exit "$status"
