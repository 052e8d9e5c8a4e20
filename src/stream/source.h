/*
 * source.h
 *		A chain of sources: where the rows of a pull come from.
 *
 * A source offers bytes data[0 .. avail); its reader takes from the front by advancing both.  When avail is 0,
 * fill() gets more; it returns false at the end of the stream, and only there: a stream that is shorter than
 * it should be is an error, never an end.  fill() may raise and may wait for the network.
 *
 * Handles are given back by reset callbacks of the memory context a source was made in.  Runs in a worker.
 */
#ifndef PGOS_SOURCE_H
#define PGOS_SOURCE_H

#include "postgres.h"

typedef struct PgosSource PgosSource;

struct PgosSource
{
	bool (*fill)(PgosSource *source);
	const char *data;
	size_t		avail;
};

/* Copies up to len bytes to dst; 0 only at the end. */
static inline size_t
pgos_source_read(PgosSource *source, char *dst, size_t len)
{
	size_t n;

	if (source->avail == 0 && !source->fill(source))
		return 0;
	n = Min(len, source->avail);
	memcpy(dst, source->data, n);
	source->data += n;
	source->avail -= n;
	return n;
}

#endif
