/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings of a run as a whole: which of them go together, what a default becomes where others
 * were chosen, and what memory they take. Every runtime and every command of the tool asks here.
 */
#ifndef TARRY_SETTINGS_H
#define TARRY_SETTINGS_H

#include <tarry/secure.h>
#include <tarry/server.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Settings that may contradict each other. */
typedef enum tarry_setting {
    TARRY_SETTING_NONE,
    TARRY_SETTING_WORKERS,
    TARRY_SETTING_CHUNKS,
    TARRY_SETTING_PIECES,
    TARRY_SETTING_REPLICATION,
    TARRY_SETTING_PARTS,
    TARRY_SETTING_DESIGN,
    TARRY_SETTING_RACKS,
    TARRY_SETTING_ORDER,
    TARRY_SETTING_CREDIT,
    TARRY_SETTING_KEEP,
    TARRY_SETTING_STOP,
    TARRY_SETTING_FILL,
    TARRY_SETTING_REPRODUCIBLE,
    TARRY_SETTING_COSTS,
    TARRY_SETTING_ADAPT,
    TARRY_SETTING_SUM,
    TARRY_SETTING_COMPRESS,
    TARRY_SETTING_COMPRESS_DOWN,
    TARRY_SETTING_DP,
    TARRY_SETTING_SAMPLE,
    TARRY_SETTING_SECURE,
    TARRY_SETTING_COUNT,
} tarry_setting;

/* The name of the setting's flag, without dashes: "workers", "chunk-cost", ..; "" for none. */
TARRY_API const char *tarry_setting_name(tarry_setting setting);

/*
 * The settings of a server by name, from the table that the wire and checkpoints use as well. A
 * setting has the name of its field in tarry_server_settings, with the unit ("deadline_ns"), and a
 * choice has the name of its constant ("deadline").
 */

/* The name of the setting at `index` of the table, which has "dimension" first; NULL: the table
 * ends before. *pair is what the rules on two settings call it, TARRY_SETTING_NONE if they do not
 * name it; NULL is allowed. "compress_matrices" stands for the field of this name and for its
 * count. The text is static. */
TARRY_API const char *tarry_server_setting_name(size_t index, tarry_setting *pair);

/*
 * Sets one setting from text: a decimal number, true, false, or a choice's name. "inf" is infinity.
 * The text is not kept. The default of a setting is always accepted, although it may mean that
 * something is missing, as a deadline of 0 does. Whether settings go together is not looked at.
 * compress_matrices cannot be set here, as it borrows an array. Errors: ARGUMENT (an unknown name;
 * a value out of its range, which the diagnostic names with the range or the choices; settings that
 * were not initialized), with the settings untouched. Any text may come in.
 */
TARRY_API int tarry_server_settings_set(tarry_server_settings *settings, const char *name,
                                        const char *text, tarry_diagnostic *diagnostic);

/*
 * Writes the settings that count as one JSON object on one line, in the order of the table: numbers
 * as numbers, with all digits, choices by name, matrices as [[rows, columns], ...], and null for a
 * number that is not finite. A setting counts unless another one makes it idle, as stop "exact"
 * does with deadline_ns. If sums are secure, `rules` are among them as secure_fraction,
 * secure_bound, secure_colluders, secure_least and secure_roster (hexadecimal digits; null: all
 * zero); NULL leaves these out. Choices must be in their range. Up to `size` bytes of `text` are
 * written, and the last of these is 0. Gives back the length of the whole object without that 0: if
 * it is `size` or more, the object was cut off, as with snprintf. text may be NULL if size is 0.
 * Gives back 0, and an empty text, if the settings were not initialized.
 */
TARRY_API size_t tarry_server_settings_write(const tarry_server_settings *settings,
                                             const tarry_secure_rules *rules, char *text,
                                             size_t size);

typedef struct tarry_settings {
    /* pieces 0: as many as make TARRY_USUAL_UNITS units of work per worker. */
    tarry_plan_settings plan;
    tarry_server_settings server;
    bool keep_auto;  /* server.keep is left to tarry_settings_keep */
    bool costs_told; /* the server does not learn costs of chunks: the caller tells them, or all are
                        equal */
    bool adapts;     /* the plan follows what was learned (tarry_server_adapt) */
    bool noised;     /* the caller adds noise to each sum, so that it tells little of any example */
} tarry_settings;

#define TARRY_USUAL_UNITS 8

/* The defaults that suit most runs: as tarry_plan_settings_init and tarry_server_settings_init, but
 * with the dynamic order TARRY_PICK_SHARE, the usual pieces, and keep left open. */
TARRY_API void tarry_settings_init(tarry_settings *settings);

/* Two settings that don't go together. */
typedef struct tarry_conflict {
    tarry_setting first, second;
    bool exceeds;       /* first is a number that is more than second's; else each rules the other
                           out */
    const char *reason; /* a sentence without a full stop; static */
} tarry_conflict;

/*
 * Whether a server and its workers can run with the settings, as they are. Ranges of single
 * settings are checked where they are used (tarry_plan_create, tarry_server_create). Errors:
 * ARGUMENT, with *conflict set.
 */
TARRY_API int tarry_settings_check(const tarry_settings *settings, tarry_conflict *conflict);

/* The bit of a setting in a set of them. */
#define TARRY_SETTING_BIT(setting) (UINT32_C(1) << (setting))

/*
 * Makes defaults yield to given settings: the settings of the set `given` stay, and others change
 * as far as these require. Pieces of 0 become a number. Errors: ARGUMENT: two that were
 * given don't go together, or have no effect together; *conflict names them, and the settings are
 * untouched.
 */
TARRY_API int tarry_settings_settle(tarry_settings *settings, uint32_t given,
                                    tarry_conflict *conflict);

/*
 * The memory that a worker takes, in bytes: vectors of `dimension` numbers for finished gradients
 * (with keep `credited` those without a fate yet and that in progress; with a stale fill, those of
 * two rounds), one coded part, the same in the form in which it is
 * sent, if that is another, and with TARRY_SUM_EVERYWHERE the sum.
 * What steps on that is the owner's, who knows it. Parameters come on top: a copy in
 * all for a local runtime, and two for each worker of its own process; and with
 * TARRY_SUM_EVERYWHERE about 1 MiB for each worker, through which it sums with those on its
 * machine.
 */
TARRY_API uint64_t tarry_worker_bytes(uint64_t load, uint32_t parts,
                                      const tarry_server_settings *server, uint64_t dimension);

typedef struct tarry_memory {
    uint64_t least, most, total; /* of the workers of a plan; over all */
    uint64_t server; /* what the server takes for a view of as many parameters (compress_down, and
                        TARRY_SUM_SERVER); else 0 */
} tarry_memory;

TARRY_API tarry_memory tarry_memory_of(const tarry_plan *plan, const tarry_server_settings *server,
                                       uint64_t dimension);

/*
 * Decides what keep_auto left open, for settled settings and gradients of `dimension` numbers:
 * `credited` if it goes with the other settings, else `all`. Workers that keep what is credited
 * run TARRY_USUAL_UNITS gradients ahead, or as many as `bytes` hold over all workers, but at least
 * TARRY_USUAL_AHEAD; `ahead_given`: as many as the settings say. keep_auto is false afterwards.
 */
TARRY_API void tarry_settings_keep(tarry_settings *settings, uint64_t dimension, double bytes,
                                   bool ahead_given);

#ifdef __cplusplus
}
#endif

#endif
