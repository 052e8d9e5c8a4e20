/*
 * copy_options.h
 *		COPY's options for a stream: from the JSON of a job or a manifest to the list that COPY takes.
 *
 * Also the settings that decide how values look as text: they are pinned while COPY runs, so that what is
 * written does not depend on the role's taste and is read as it was meant.
 * Runs in backends and workers; may raise.
 */
#ifndef PGOS_COPY_OPTIONS_H
#define PGOS_COPY_OPTIONS_H

#include "postgres.h"

#include "core/format.h"
#include "nodes/pg_list.h"
#include "utils/jsonb.h"

/* Names of COPY's options that a push or a pull may set, NULL-terminated. */
extern const char *const pgos_copy_to_options[];
extern const char *const pgos_copy_from_options[];

/*
 * The list of DefElem for COPY.  options: a JSON object (or NULL); members that are not COPY options of this
 * direction are passed over.  A csv stream has a header line unless "header" says otherwise.  The encoding is
 * UTF8 (SQL_ASCII in a database of that encoding) unless "encoding" says otherwise.  COPY's own check of the
 * options has been made when this returns.
 */
extern List *pgos_copy_options_build(bool is_from, PgosFormat format, Jsonb *options);

/* The list's format; whether it has a header line; the name of its encoding. */
extern PgosFormat  pgos_copy_options_format(List *options);
extern bool		   pgos_copy_options_header(List *options);
extern const char *pgos_copy_options_encoding(List *options);

/* Pins DateStyle, IntervalStyle, extra_float_digits, bytea_output, xmloption; undo with AtEOXact_GUC(true, level). */
extern int pgos_copy_settings_pin(void);
/* After it: the binary format's texts are in client_encoding, whatever the option says. */
extern void pgos_copy_encoding_pin(List *options);

#endif
