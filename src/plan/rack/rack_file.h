/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_RACK_FILE_H
#define PLAN_RACK_FILE_H

#include <stdint.h>

#include <tarry/allocator.h>
#include <tarry/error.h>

/*
 * Reads the racks' names of all workers (tarry_plan_settings has the format) and sets rack[j] to
 * the first worker of worker j's rack, or to TARRY_NO_RACK. Errors: FILE, FORMAT (with the file's
 * name and line), NO_MEMORY.
 */
int rack_file_read(const char *name, uint32_t workers, const tarry_allocator *allocator,
                   uint32_t *rack, tarry_diagnostic *diagnostic);

#endif
