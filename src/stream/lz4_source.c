/*
 * lz4_source.c
 *		A source that decompresses another: any number of lz4 frames and skippable frames.
 *
 * The stream must end where a frame ends; anything else (a frame cut short, garbage behind a frame, a bad
 * checksum) is ERRCODE_DATA_CORRUPTED.  lz4's context is freed by the reset callback of the memory context
 * that was current at pgos_lz4_source_new().  Runs in a worker; may raise.
 */
#include "postgres.h"

#include <lz4frame.h>

#include "stream/lz4_source.h"
#include "utils/memutils.h"

#define PGOS_LZ4_OUT_SIZE (256 * 1024)

typedef struct PgosLz4Source
{
	PgosSource			  base;
	PgosSource			 *from;
	const char			 *name;
	LZ4F_dctx			 *dctx;
	char				 *out;
	bool				  in_frame; /* a frame has begun and not ended */
	bool				  any_frame;
	bool				  more_out; /* the output buffer was filled: lz4 may hold more */
	MemoryContextCallback callback;
} PgosLz4Source;

static void
pgos_lz4_source_release(void *arg)
{
	PgosLz4Source *ls = arg;

	if (ls->dctx != NULL)
		(void) LZ4F_freeDecompressionContext(ls->dctx);
	ls->dctx = NULL;
}

static bool
pgos_lz4_source_fill(PgosSource *source)
{
	PgosLz4Source *ls = (PgosLz4Source *) source;

	for (;;)
	{
		size_t taken;
		size_t made = PGOS_LZ4_OUT_SIZE;
		size_t rc;

		if (ls->from->avail == 0 && !ls->more_out && !ls->from->fill(ls->from))
		{
			if (ls->in_frame || !ls->any_frame)
				ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
								ls->any_frame
									? errmsg("\"%s\" ends in the middle of a lz4 frame", ls->name)
									: errmsg("\"%s\" is empty, not a lz4 file", ls->name),
								errhint("The object was not written to its end. Write it again.")));
			return false;
		}
		taken = ls->from->avail;
		rc = LZ4F_decompress(ls->dctx, ls->out, &made, ls->from->data, &taken, NULL);
		if (LZ4F_isError(rc))
			ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
							errmsg("could not decompress \"%s\" with lz4: %s", ls->name,
								   LZ4F_getErrorName(rc)),
							errhint("The object is damaged or is not compressed with lz4.")));
		ls->from->data += taken;
		ls->from->avail -= taken;
		if (taken > 0 || made > 0)
		{
			ls->any_frame = true;
			ls->in_frame = rc != 0;
		}
		ls->more_out = made == PGOS_LZ4_OUT_SIZE && rc != 0;
		if (made > 0)
		{
			ls->base.data = ls->out;
			ls->base.avail = made;
			return true;
		}
	}
}

PgosSource *
pgos_lz4_source_new(PgosSource *from, const char *name)
{
	PgosLz4Source *ls = palloc0(sizeof(PgosLz4Source));

	ls->base.fill = pgos_lz4_source_fill;
	ls->from = from;
	ls->name = pstrdup(name);
	ls->out = palloc(PGOS_LZ4_OUT_SIZE);
	ls->callback.func = pgos_lz4_source_release;
	ls->callback.arg = ls;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &ls->callback);
	if (LZ4F_isError(LZ4F_createDecompressionContext(&ls->dctx, LZ4F_VERSION)))
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory"),
						errdetail("lz4 context.")));
	return &ls->base;
}
