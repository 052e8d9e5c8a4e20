/*
 * zstd_source.c
 *		A source that decompresses another: any number of zstd frames and skippable frames.
 *
 * The stream must end where a frame ends; anything else (a frame cut short, garbage behind a frame, a bad
 * checksum) is ERRCODE_DATA_CORRUPTED.  zstd's context is freed by the reset callback of the memory context
 * that was current at pgos_zstd_source_new().  Runs in a worker; may raise.
 */
#include "postgres.h"

#include <zstd.h>

#include "stream/zstd_source.h"
#include "utils/memutils.h"

typedef struct PgosZstdSource
{
	PgosSource			  base;
	PgosSource			 *from;
	const char			 *name;
	ZSTD_DCtx			 *dctx;
	char				 *out;
	size_t				  out_size;
	bool				  in_frame; /* a frame has begun and not ended */
	bool				  any_frame;
	bool				  more_out; /* the output buffer was filled: zstd may hold more */
	MemoryContextCallback callback;
} PgosZstdSource;

static void
pgos_zstd_source_release(void *arg)
{
	PgosZstdSource *zs = arg;

	if (zs->dctx != NULL)
		ZSTD_freeDCtx(zs->dctx);
	zs->dctx = NULL;
}

static bool
pgos_zstd_source_fill(PgosSource *source)
{
	PgosZstdSource *zs = (PgosZstdSource *) source;

	for (;;)
	{
		ZSTD_inBuffer  in;
		ZSTD_outBuffer out = {zs->out, zs->out_size, 0};
		size_t		   rc;

		if (zs->from->avail == 0 && !zs->more_out && !zs->from->fill(zs->from))
		{
			if (zs->in_frame || !zs->any_frame)
				ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
								zs->any_frame
									? errmsg("\"%s\" ends in the middle of a zstd frame", zs->name)
									: errmsg("\"%s\" is empty, not a zstd file", zs->name),
								errhint("The object was not written to its end. Write it again.")));
			return false;
		}
		in.src = zs->from->data;
		in.size = zs->from->avail;
		in.pos = 0;
		rc = ZSTD_decompressStream(zs->dctx, &out, &in);
		if (ZSTD_isError(rc))
			ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
							errmsg("could not decompress \"%s\" with zstd: %s", zs->name,
								   ZSTD_getErrorName(rc)),
							errhint("The object is damaged or is not compressed with zstd.")));
		zs->from->data += in.pos;
		zs->from->avail -= in.pos;
		if (in.pos > 0 || out.pos > 0)
		{
			zs->any_frame = true;
			zs->in_frame = rc != 0;
		}
		zs->more_out = out.pos == out.size && rc != 0;
		if (out.pos > 0)
		{
			zs->base.data = zs->out;
			zs->base.avail = out.pos;
			return true;
		}
	}
}

PgosSource *
pgos_zstd_source_new(PgosSource *from, const char *name)
{
	PgosZstdSource *zs = palloc0(sizeof(PgosZstdSource));

	zs->base.fill = pgos_zstd_source_fill;
	zs->from = from;
	zs->name = pstrdup(name);
	zs->out_size = ZSTD_DStreamOutSize();
	zs->out = palloc(zs->out_size);
	zs->callback.func = pgos_zstd_source_release;
	zs->callback.arg = zs;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &zs->callback);
	zs->dctx = ZSTD_createDCtx();
	if (zs->dctx == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory"),
						errdetail("zstd context.")));
	return &zs->base;
}
