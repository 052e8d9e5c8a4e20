/*
 * codec_gzip.c
 *		gzip: any number of members, and zeros behind the last, as tapes and block-wise copies leave them.
 *
 * No PostgreSQL in here: may run in a thread.
 */
#include "postgres.h"

#include <stdlib.h>
#include <zlib.h>

#include "compat.h"
#include "stream/codec.h"

/* inflateInit2(): the largest window, and gzip's header and trailer only */
#define PGOS_GZIP_WINDOW (15 + 16)

typedef struct PgosGzip
{
	z_stream z;
	bool	 any_member; /* one has ended */
	bool	 in_member;
	bool	 in_padding;
} PgosGzip;

static const char pgos_gzip_garbage[] = "garbage after the end";

static void *
pgos_codec_gzip_make(void)
{
	PgosGzip *gz = calloc(1, sizeof(PgosGzip));

	if (gz != NULL && inflateInit2(&gz->z, PGOS_GZIP_WINDOW) != Z_OK)
	{
		free(gz);
		gz = NULL;
	}
	return gz;
}

static void
pgos_codec_gzip_free(void *state)
{
	PgosGzip *gz = state;

	(void) inflateEnd(&gz->z);
	free(gz);
}

/* Behind a member, or at the beginning: padding to the end, or another member. */
static const char *
pgos_gzip_between(PgosGzip *gz, PgosCodecStep *step)
{
	if (gz->any_member && step->in[step->in_pos] == '\0')
		gz->in_padding = true;
	if (gz->in_padding)
	{
		for (; step->in_pos < step->in_len; step->in_pos++)
		{
			if (step->in[step->in_pos] != '\0')
				return pgos_gzip_garbage;
		}
		return NULL;
	}
	if (inflateReset(&gz->z) != Z_OK)
		return "zlib cannot begin anew";
	gz->in_member = true;
	return NULL;
}

static const char *
pgos_codec_gzip_run(void *state, PgosCodecStep *step)
{
	PgosGzip   *gz = state;
	size_t		room = step->out_size - step->out_pos;
	size_t		taken;
	const char *error;
	int			rc;

	step->more = false;
	if (!gz->in_member)
	{
		error = pgos_gzip_between(gz, step);
		if (error != NULL || !gz->in_member)
			return error;
	}
	gz->z.next_in = (Bytef *) step->in + step->in_pos;
	gz->z.avail_in = (uInt) Min(step->in_len - step->in_pos, (size_t) PG_INT32_MAX);
	gz->z.next_out = (Bytef *) step->out + step->out_pos;
	gz->z.avail_out = (uInt) Min(room, (size_t) PG_INT32_MAX);
	room = gz->z.avail_out;
	taken = gz->z.avail_in;
	rc = inflate(&gz->z, Z_NO_FLUSH);
	/* Z_BUF_ERROR: nothing could be done, which is no error when there was nothing to do */
	if (rc == Z_MEM_ERROR)
	{
		step->no_memory = true;
		return "out of memory";
	}
	if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
	{
		if (gz->any_member && gz->z.total_out == 0)
			return pgos_gzip_garbage;
		return gz->z.msg != NULL ? gz->z.msg : "not in gzip format";
	}
	step->in_pos += taken - gz->z.avail_in;
	step->out_pos += room - gz->z.avail_out;
	step->more = gz->z.avail_out == 0 && rc != Z_STREAM_END;
	if (rc == Z_STREAM_END)
	{
		gz->in_member = false;
		gz->any_member = true;
	}
	step->in_unit = gz->in_member;
	return NULL;
}

const PgosCodec pgos_codec_gzip = {
	.name = "gzip",
	.unit = "member",
	.make = pgos_codec_gzip_make,
	.free = pgos_codec_gzip_free,
	.run = pgos_codec_gzip_run,
};
