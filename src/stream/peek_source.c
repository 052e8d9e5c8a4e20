/*
 * peek_source.c
 *		A source whose first bytes can be looked at before they are taken; it also counts what goes through.
 *
 * What was looked at is kept in a buffer of its own, which the reader gets first; then the bytes of the source
 * below are passed on where they are.  Memory is of the context that was current at pgos_peek_source_new().
 * Runs in a worker; may raise.
 */
#include "postgres.h"

#include "stream/peek_source.h"
#include "utils/memutils.h"

typedef struct PgosPeekSource
{
	PgosSource	base;
	PgosSource *from;
	char	   *buffer;
	size_t		size;
	int64		given; /* bytes that have ever been in data/avail */
} PgosPeekSource;

static bool
pgos_peek_source_fill(PgosSource *source)
{
	PgosPeekSource *peek = (PgosPeekSource *) source;

	if (peek->from->avail == 0 && !peek->from->fill(peek->from))
		return false;
	peek->base.data = peek->from->data;
	peek->base.avail = peek->from->avail;
	peek->given += (int64) peek->from->avail;
	peek->from->avail = 0;
	return true;
}

PgosSource *
pgos_peek_source_new(PgosSource *from)
{
	PgosPeekSource *peek = palloc0(sizeof(PgosPeekSource));

	peek->base.fill = pgos_peek_source_fill;
	peek->from = from;
	return &peek->base;
}

/* Moves the bytes that were given out, but not taken, to the beginning of the buffer, with room for `size`. */
static void
pgos_peek_source_keep(PgosPeekSource *peek, size_t size)
{
	if (peek->size < size)
	{
		char *buffer =
			MemoryContextAllocExtended(GetMemoryChunkContext(peek), size, MCXT_ALLOC_HUGE);

		memcpy(buffer, peek->base.data, peek->base.avail);
		if (peek->buffer != NULL)
			pfree(peek->buffer);
		peek->buffer = buffer;
		peek->size = size;
	}
	else
		memmove(peek->buffer, peek->base.data, peek->base.avail);
	peek->base.data = peek->buffer;
}

size_t
pgos_peek_source_look(PgosSource *source, size_t want)
{
	PgosPeekSource *peek = (PgosPeekSource *) source;

	while (peek->base.avail < want)
	{
		size_t n;

		if (peek->base.avail == 0)
		{
			if (!pgos_peek_source_fill(source))
				break;
			continue;
		}
		/* before the source below is asked for more, which ends what it gave before */
		if (peek->base.data != peek->buffer || peek->size < want)
			pgos_peek_source_keep(peek, want);
		if (peek->from->avail == 0 && !peek->from->fill(peek->from))
			break;
		n = Min(want - peek->base.avail, peek->from->avail);
		memcpy(peek->buffer + peek->base.avail, peek->from->data, n);
		peek->base.avail += n;
		peek->given += (int64) n;
		peek->from->data += n;
		peek->from->avail -= n;
	}
	return peek->base.avail;
}

int64
pgos_peek_source_taken(PgosSource *source)
{
	return ((PgosPeekSource *) source)->given - (int64) source->avail;
}
