/*
 * codec.h
 *		What a decompressor has to know: one for each compression, all driven by decompress.c.
 *
 * A codec knows nothing of PostgreSQL: no palloc, no ereport, for it may run in a thread (thread.h).  A stream is
 * any number of units (frames, members), each complete in itself; a codec says when it is between two.
 */
#ifndef PGOS_CODEC_H
#define PGOS_CODEC_H

#include "postgres.h"

/* One step: takes from in, puts to out; both positions advance. */
typedef struct PgosCodecStep
{
	const char *in;
	size_t		in_len;
	size_t		in_pos;
	char	   *out;
	size_t		out_size;
	size_t		out_pos;
	bool		in_unit;   /* set: a unit has begun and not ended */
	bool		more;	   /* set: there may be more to come without further input */
	bool		no_memory; /* set with an error: it is that memory is short */
	bool		too_large; /* set with an error: it is that more memory is wanted than we give */
} PgosCodecStep;

typedef struct PgosCodec
{
	const char *name; /* "zstd" */
	const char *unit; /* "frame" */
	/* NULL: out of memory. */
	void *(*make)(void);
	void (*free)(void *state);
	/* Returns NULL, or what is wrong: a string that lives as long as the state. */
	const char *(*run)(void *state, PgosCodecStep *step);
} PgosCodec;

extern const PgosCodec pgos_codec_zstd;
extern const PgosCodec pgos_codec_gzip;
extern const PgosCodec pgos_codec_lz4;

#endif
