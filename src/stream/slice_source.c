/*
 * slice_source.c
 *		A source that is the next so many bytes of another.
 *
 * Owns nothing.  Runs in a worker; may raise.
 */
#include "postgres.h"

#include "stream/slice_source.h"

typedef struct PgosSlice
{
	PgosSource	base;
	PgosSource *from;
	int64		left; /* bytes that have not been offered yet */
	const char *name;
} PgosSlice;

static bool
pgos_slice_fill(PgosSource *source)
{
	PgosSlice *slice = (PgosSlice *) source;
	size_t	   n;

	if (slice->left == 0)
		return false;
	if (slice->from->avail == 0 && !slice->from->fill(slice->from))
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
						errmsg("\"%s\" ends before it should", slice->name)));
	n = (size_t) Min(slice->left, (int64) slice->from->avail);
	source->data = slice->from->data;
	source->avail = n;
	slice->from->data += n;
	slice->from->avail -= n;
	slice->left -= (int64) n;
	return true;
}

PgosSource *
pgos_slice_source_new(PgosSource *from, int64 len, const char *name)
{
	PgosSlice *slice = palloc0(sizeof(PgosSlice));

	slice->base.fill = pgos_slice_fill;
	slice->from = from;
	slice->left = len;
	slice->name = name;
	return &slice->base;
}

void
pgos_slice_source_end(PgosSource *source)
{
	do
		source->avail = 0;
	while (pgos_slice_fill(source));
}
