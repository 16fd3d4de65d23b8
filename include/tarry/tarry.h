/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tarry: gradient sums over workers that are slow, uneven or dead.
 *
 * A plan (plan.h) says which worker holds which chunk, in which order, and with which weights the
 * server decodes. The server (server.h) and the worker (worker.h) are pure state machines that
 * exchange events and effects (event.h). local.h runs them over threads: most users need only
 * plan.h and local.h. tcp.h runs them over a network, control.h
 * has messages between their processes, sim.h runs them in virtual time. settings.h says what
 * goes together.
 */
#ifndef TARRY_TARRY_H
#define TARRY_TARRY_H

#include <tarry/allocator.h>
#include <tarry/codec.h>
#include <tarry/compress.h>
#include <tarry/compute.h>
#include <tarry/control.h>
#include <tarry/direct.h>
#include <tarry/dp.h>
#include <tarry/engine.h>
#include <tarry/error.h>
#include <tarry/event.h>
#include <tarry/host.h>
#include <tarry/local.h>
#include <tarry/plan.h>
#include <tarry/privacy.h>
#include <tarry/replica.h>
#include <tarry/runtime.h>
#include <tarry/secure.h>
#include <tarry/server.h>
#include <tarry/settings.h>
#include <tarry/sim.h>
#include <tarry/straggler.h>
#include <tarry/sum_form.h>
#include <tarry/sum_log.h>
#include <tarry/tcp.h>
#include <tarry/vectors.h>
#include <tarry/version.h>
#include <tarry/worker.h>

#endif
