#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the C source of the extension module tarry._native (cffi, API mode, limited API).

Usage: generate.py OUTPUT INCLUDE... -- COMPILER...
"""

import pathlib
import sys

import cffi

import callbacks
import declarations

# An engine of sums in Python, or an owner of vectors: what the library's begin with, and the object.
OBJECTS = """
typedef struct tarry_py_engine {
    tarry_engine base;
    void *user;
} tarry_py_engine;

typedef struct tarry_py_vectors {
    tarry_vectors base;
    void *user;
} tarry_py_vectors;
"""


# The destructor of libuv joins the threads of its pool, which a child of fork does not have, and crashes. Work in the
# child makes them anew.
POOL = """
#include <uv.h>

static void work_nothing(uv_work_t *work) { (void)work; }
static void work_nothing_more(uv_work_t *work, int status) { (void)work; (void)status; }

static void tarry_py_renew_pool(void)
{
    uv_loop_t loop;
    uv_work_t work;
    if (uv_loop_init(&loop) != 0)
        return;
    uv_queue_work(&loop, &work, work_nothing, work_nothing_more);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
}
"""
POOL_DECLARATION = "void tarry_py_renew_pool(void);\n"

# Memory of a library's object that was made without an allocator, and may outlive the object.
MEMORY = """
#include <stdlib.h>

static void tarry_py_release(void *block) { free(block); }
"""
MEMORY_DECLARATION = "void tarry_py_release(void *block);\n"


def main():
    output, rest = sys.argv[1], sys.argv[2:]
    middle = rest.index("--")
    includes, compiler = rest[:middle], rest[middle + 1 :]
    ffi = cffi.FFI()
    own = OBJECTS + callbacks.declarations() + POOL_DECLARATION + MEMORY_DECLARATION
    ffi.cdef(declarations.declarations(compiler, includes) + own)
    ffi.set_source("tarry._native", "#include <tarry/tarry.h>\n" + OBJECTS + callbacks.source() + POOL + MEMORY)
    ffi.emit_c_code(output)
    pathlib.Path(output).touch()


main()
