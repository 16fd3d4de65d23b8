/* SPDX-License-Identifier: Apache-2.0 */
/* Options, and values of options, that earlier versions had. Using one fails with a sentence that
 * says what to use instead; docs/tried.md says why it went. */
#ifndef CLI_GONE_H
#define CLI_GONE_H

/* The sentence for an option that is gone (without dashes), or for "OPTION:VALUE"; NULL if `name`
 * is neither. */
const char *gone_option(const char *name);
/* The sentence for a value that an option no longer has; NULL if it never had it. A command and the
 * role of a cluster's member are values of "command" and "member". */
const char *gone_value(const char *option, const char *value);

#endif
