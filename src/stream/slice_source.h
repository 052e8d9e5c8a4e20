/*
 * slice_source.h
 *		A source that is the next so many bytes of another.
 */
#ifndef PGOS_SLICE_SOURCE_H
#define PGOS_SLICE_SOURCE_H

#include "stream/source.h"

/*
 * The next len bytes of from; name: what errors call the stream.  The end of from before that is an error.  What
 * the reader leaves over is skipped by pgos_slice_source_end().
 */
extern PgosSource *pgos_slice_source_new(PgosSource *from, int64 len, const char *name);
extern void		   pgos_slice_source_end(PgosSource *source);

#endif
