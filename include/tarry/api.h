/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARRY_API_H
#define TARRY_API_H

/* Marks a name that the shared library shows; all others are hidden. */
#define TARRY_API __attribute__((visibility("default")))

#endif
