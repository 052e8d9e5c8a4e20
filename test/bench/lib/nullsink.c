/*
 * nullsink.c
 *		For the benchmark alone: the rows of a table through pgos_copy_to() into a sink that keeps nothing.
 *
 * The counterpart of COPY TO '/dev/null': what the encoder takes without compression, checksums and a store.  The
 * code that is measured is the extension's own, linked into this library a second time; nothing is exported
 * but the function, so the copy that the server has preloaded is not disturbed.  Runs in a session, as its user; raises.
 */
#include "postgres.h"

#include "copy/copy_options.h"
#include "copy/copy_stream.h"
#include "fmgr.h"
#include "guc.h"
#include "miscadmin.h"
#include "stream/zstd_sink.h"
#include "utils/builtins.h"

PG_MODULE_MAGIC;

#define NULL_SINK_SIZE (1024 * 1024)

static void
null_take(PgosSink *sink)
{
	sink->raw_bytes += (int64) sink->len;
	sink->len = 0;
}

static const PgosSinkOps null_ops = {null_take, null_take, null_take};

static void
null_tick(int64 rows, void *arg)
{
	CHECK_FOR_INTERRUPTS();
}

/*
 * null_push(relation regclass, format text, fast_path bool, level int): bytes that came out.  level: of zstd,
 * whose thread works beside; null: no compression.  fast_path without a direct encoding is an error: it would be
 * COPY that is measured.
 */
PG_FUNCTION_INFO_V1(null_push);
Datum
null_push(PG_FUNCTION_ARGS)
{
	PgosFormat		 format = PGOS_FORMAT_CSV;
	PgosSink		*last = palloc0(sizeof(PgosSink));
	PgosSink		*head = last;
	PgosCopyToResult result;

	if (strcmp(text_to_cstring(PG_GETARG_TEXT_PP(1)), "text") == 0)
		format = PGOS_FORMAT_TEXT;
	pgos_fast_path = PG_GETARG_BOOL(2) ? PGOS_FAST_PATH_AUTO : PGOS_FAST_PATH_OFF;
	last->ops = &null_ops;
	last->buf = palloc(NULL_SINK_SIZE);
	last->size = NULL_SINK_SIZE;
	last->cut_len = NULL_SINK_SIZE;
	if (!PG_ARGISNULL(3))
		head = pgos_zstd_sink_new(last, PG_GETARG_INT32(3), (size_t) 4 * 1024 * 1024);
	result = pgos_copy_to(PG_GETARG_OID(0), NIL, pgos_copy_options_build(false, format, NULL), NULL,
						  head, null_tick, NULL);
	pgos_sink_end(head);
	if ((result.engine == PGOS_ENGINE_DIRECT) != PG_GETARG_BOOL(2))
		ereport(ERROR, (errmsg("rows were not encoded the way that was asked for"),
						errdetail("%s", result.reason != NULL ? result.reason : "direct")));
	PG_RETURN_INT64(last->raw_bytes);
}
