/*
 * push_stream.c
 *		The stream of one worker of a push: relation or range after range, each into an object of its own.
 *
 * While COPY of one object runs, the last parts of those before it are still on their way.  What is pending is
 * bounded: in memory by two parts, in number by the store's concurrency.  An object is completed as soon as its
 * data has arrived, at the latest by pgos_push_stream_complete().
 *
 * Everything lives in run->context.  Runs in a worker; raises.
 */
#include "postgres.h"

#include "job/push_internal.h"
#include "stream/upload.h"
#include "stream/zstd_sink.h"
#include "utils/memutils.h"

static void
pgos_push_tick(int64 rows, void *arg)
{
	PgosPush			   *push = arg;
	const PgosUploadResult *uploaded = pgos_upload_sink_result(push->upload);
	int64					all_rows = push->rows + rows;

	pgos_progress_rows(all_rows);
	pgos_progress_bytes(push->raw_bytes + pgos_sink_written(push->head),
						push->stored_bytes + uploaded->bytes, push->parts + uploaded->parts);
	pgos_progress_percent(all_rows, push->estimated_rows);
	if (push->team != NULL)
		pgos_team_check(push->team);
	pgos_store_wait(push->run->store, 0);
}

/* Completes the oldest pending object. */
static void
pgos_push_complete_first(PgosPush *push)
{
	PgosPushObject		   *pending = linitial(push->pending);
	PgosJobObject		   *object = pending->object;
	const PgosUploadResult *uploaded;

	pgos_upload_sink_complete(pending->upload);
	uploaded = pgos_upload_sink_result(pending->upload);
	object->bytes = uploaded->bytes;
	object->has_crc = true;
	object->crc = uploaded->crc;
	object->etag = uploaded->info.etag[0] != '\0' ? pstrdup(uploaded->info.etag) : NULL;
	object->parts = uploaded->parts;
	push->run->sinks = list_delete_ptr(push->run->sinks, pending->upload);
	push->run->written = lappend(push->run->written, object);
	if (pending->range != NULL)
	{
		PgosTeamRange *range = pending->range;

		range->rows = object->rows;
		range->raw_bytes = object->raw_bytes;
		range->bytes = object->bytes;
		range->crc = object->crc;
		range->parts = object->parts;
		strlcpy(range->etag, object->etag ? object->etag : "", sizeof(range->etag));
		range->done = true;
	}
	push->pending = list_delete_first(push->pending);
}

/* Completes what has arrived, and waits when too much is pending. */
static void
pgos_push_limit_pending(PgosPush *push)
{
	const PgosStoreLimits *limits = pgos_store_limits(push->run->store);

	while (push->pending != NIL)
	{
		PgosPushObject *first = linitial(push->pending);
		size_t			memory = 0;
		ListCell	   *lc;

		foreach (lc, push->pending)
			memory += pgos_upload_sink_memory(((PgosPushObject *) lfirst(lc))->upload);
		if (list_length(push->pending) < limits->concurrency &&
			memory <= 2 * (size_t) limits->part_size && !pgos_upload_sink_is_sent(first->upload))
			return;
		pgos_push_complete_first(push);
	}
}

static void
pgos_push_open_sinks(PgosPush *push, const char *key)
{
	PgosSpec *spec = push->spec;

	push->upload = pgos_upload_sink_new(push->run->store, key, push->condition, spec->part_size,
										spec->concurrency);
	push->run->sinks = lappend(push->run->sinks, push->upload);
	if (spec->compression != PGOS_COMPRESSION_ZSTD)
		push->head = push->upload;
	else
	{
		if (push->zstd == NULL)
			push->zstd = pgos_zstd_sink_new(push->upload, spec->level, (size_t) spec->frame_size);
		else
			pgos_zstd_sink_restart(push->zstd, push->upload);
		push->head = push->zstd;
	}
}

static void
pgos_push_begin_object(PgosPush *push, const char *key, PgosTeamRange *result)
{
	PgosPushObject *current;
	MemoryContext	old = MemoryContextSwitchTo(push->run->context);

	pgos_push_limit_pending(push);
	pgos_push_open_sinks(push, key);
	current = palloc0(sizeof(PgosPushObject));
	current->upload = push->upload;
	current->range = result;
	current->object = palloc0(sizeof(PgosJobObject));
	current->object->key = pstrdup(key);
	current->object->url = pgos_store_url(push->run->store, key);
	push->current = current;
	MemoryContextSwitchTo(old);
}

/* No more rows for the object: what is left goes to the network. */
static void
pgos_push_end_object(PgosPush *push)
{
	PgosPushObject		   *current = push->current;
	const PgosUploadResult *uploaded = pgos_upload_sink_result(push->upload);
	MemoryContext			old = MemoryContextSwitchTo(push->run->context);

	pgos_sink_end(push->head);
	current->object->raw_bytes = push->head->raw_bytes;
	push->raw_bytes += current->object->raw_bytes;
	push->stored_bytes += uploaded->bytes;
	push->parts += uploaded->parts;
	push->pending = lappend(push->pending, current);
	push->current = NULL;
	push->head = NULL;
	MemoryContextSwitchTo(old);
}

static int64
pgos_push_copy_rows(PgosPush *push, Oid relid, List *columns, const PgosBlockRange *range)
{
	PgosJobResult	*result = &push->run->result;
	PgosCopyToResult copied =
		pgos_copy_to(relid, columns, push->copy_options, range, push->head, pgos_push_tick, push);

	/* of many relations one that took the slower way is what the user should hear of */
	if (copied.engine != PGOS_ENGINE_DIRECT)
	{
		if (result->note == NULL && copied.reason != NULL)
			result->note =
				MemoryContextStrdup(push->run->context, psprintf("engine copy: %s", copied.reason));
		result->engine = "copy";
	}
	else if (result->engine == NULL)
		result->engine = "direct";
	push->current->object->rows += copied.rows;
	push->rows += copied.rows;
	return copied.rows;
}

PgosJobObject *
pgos_push_stream_copy(PgosPush *push, Oid relid, List *columns, const PgosBlockRange *range,
					  const char *key, PgosTeamRange *result)
{
	PgosJobObject *object;

	pgos_push_begin_object(push, key, result);
	object = push->current->object;
	(void) pgos_push_copy_rows(push, relid, columns, range);
	pgos_push_end_object(push);
	return object;
}

PgosJobObject *
pgos_push_stream_pack(PgosPush *push, Oid relid, List *columns, const char *key, int64 *offset,
					  int64 *rows)
{
	if (push->current == NULL)
		pgos_push_begin_object(push, key, NULL);
	if (push->head == push->zstd)
		pgos_zstd_sink_mark(push->head, offset);
	else
		*offset = pgos_sink_written(push->head);
	*rows = pgos_push_copy_rows(push, relid, columns, NULL);
	return push->current->object;
}

void
pgos_push_stream_end_pack(PgosPush *push, int64 max_raw_bytes)
{
	if (push->current != NULL && pgos_sink_written(push->head) >= max_raw_bytes)
		pgos_push_end_object(push);
}

void
pgos_push_stream_complete(PgosPush *push)
{
	MemoryContext old = MemoryContextSwitchTo(push->run->context);

	while (push->pending != NIL)
		pgos_push_complete_first(push);
	pgos_progress_rows(push->rows);
	pgos_progress_bytes(push->raw_bytes, push->stored_bytes, push->parts);
	MemoryContextSwitchTo(old);
}
