/*
 * codec_zstd.c
 *		zstd: any number of frames and skippable frames, windows up to 128 MiB.
 *
 * No PostgreSQL in here: may run in a thread.
 */
#include "postgres.h"

#include <zstd.h>
#include <zstd_errors.h>

#include "stream/codec.h"

static void *
pgos_codec_zstd_make(void)
{
	return ZSTD_createDCtx();
}

static void
pgos_codec_zstd_free(void *state)
{
	ZSTD_freeDCtx(state);
}

static const char *
pgos_codec_zstd_run(void *state, PgosCodecStep *step)
{
	ZSTD_inBuffer  in = {step->in, step->in_len, step->in_pos};
	ZSTD_outBuffer out = {step->out, step->out_size, step->out_pos};
	size_t		   rc = ZSTD_decompressStream(state, &out, &in);

	if (ZSTD_isError(rc))
	{
		step->no_memory = ZSTD_getErrorCode(rc) == ZSTD_error_memory_allocation;
		step->too_large = ZSTD_getErrorCode(rc) == ZSTD_error_frameParameter_windowTooLarge;
		return ZSTD_getErrorName(rc);
	}
	if (in.pos > step->in_pos || out.pos > step->out_pos)
		step->in_unit = rc != 0;
	step->more = out.pos == out.size && rc != 0;
	step->in_pos = in.pos;
	step->out_pos = out.pos;
	return NULL;
}

const PgosCodec pgos_codec_zstd = {
	.name = "zstd",
	.unit = "frame",
	.make = pgos_codec_zstd_make,
	.free = pgos_codec_zstd_free,
	.run = pgos_codec_zstd_run,
};
