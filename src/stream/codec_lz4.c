/*
 * codec_lz4.c
 *		lz4: any number of frames and skippable frames.
 *
 * No PostgreSQL in here: may run in a thread.
 */
#include "postgres.h"

#include <lz4frame.h>

#include "stream/codec.h"

static void *
pgos_codec_lz4_make(void)
{
	LZ4F_dctx *dctx;

	return LZ4F_isError(LZ4F_createDecompressionContext(&dctx, LZ4F_VERSION)) ? NULL : dctx;
}

static void
pgos_codec_lz4_free(void *state)
{
	(void) LZ4F_freeDecompressionContext(state);
}

static const char *
pgos_codec_lz4_run(void *state, PgosCodecStep *step)
{
	size_t taken = step->in_len - step->in_pos;
	size_t made = step->out_size - step->out_pos;
	size_t rc = LZ4F_decompress(state, step->out + step->out_pos, &made, step->in + step->in_pos,
								&taken, NULL);

	if (LZ4F_isError(rc))
	{
		/* the number of an error is no public part of the library's interface, its name is */
		step->no_memory = strcmp(LZ4F_getErrorName(rc), "ERROR_allocation_failed") == 0;
		return LZ4F_getErrorName(rc);
	}
	if (taken > 0 || made > 0)
		step->in_unit = rc != 0;
	step->in_pos += taken;
	step->out_pos += made;
	step->more = step->out_pos == step->out_size && rc != 0;
	return NULL;
}

const PgosCodec pgos_codec_lz4 = {
	.name = "lz4",
	.unit = "frame",
	.make = pgos_codec_lz4_make,
	.free = pgos_codec_lz4_free,
	.run = pgos_codec_lz4_run,
};
