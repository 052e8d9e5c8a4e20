/*
 * peek_source.h
 *		A source whose first bytes can be looked at before they are taken; it also counts what goes through.
 */
#ifndef PGOS_PEEK_SOURCE_H
#define PGOS_PEEK_SOURCE_H

#include "stream/source.h"

extern PgosSource *pgos_peek_source_new(PgosSource *from);

/*
 * Makes at least `want` of the bytes that come next stand in data/avail, or all if there are fewer; returns
 * avail.  Holds that much memory.
 */
extern size_t pgos_peek_source_look(PgosSource *source, size_t want);

/* Bytes that the reader has taken so far. */
extern int64 pgos_peek_source_taken(PgosSource *source);

#endif
