/*
 * spec_internal.h
 *		What the files of spec.h share.  Everything raises.
 */
#ifndef PGOS_SPEC_INTERNAL_H
#define PGOS_SPEC_INTERNAL_H

#include "job/spec.h"

/* Index of the word in the NULL-terminated list; raises if it is not there. */
extern int pgos_spec_word(const char *argument, const char *word, const char *const *list);

/* An option that is a whole number, written as number or string, with a unit (of guc.h) if it has one. */
extern int64
pgos_spec_number(const char *name, const JsonbValue *value, int unit, int64 min, int64 max);

/* ---------------------------------------------------------------- spec_pull.c */

/* Names of the options of objstore_pull() that are not COPY's, NULL-terminated. */
extern const char *const pgos_pull_options[];

/* Arguments; then one option, known by its name; then what does not go together. */
extern void pgos_spec_pull_words(PgosSpec *spec, const PgosSpecWords *words);
extern void pgos_spec_pull_option(PgosSpec *spec, const char *name, const JsonbValue *value);
extern void pgos_spec_pull_check(const PgosSpec *spec);

#endif
