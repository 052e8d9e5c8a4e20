/*
 * upload.c
 *		The last sink of a push: parts of one object, uploaded in parallel while they are being filled.
 *
 * Buffers and requests live in the memory context that was current at pgos_upload_sink_new(); the store's own
 * reset callback cancels requests, so the store must have been opened in that context or a parent of it.
 * Runs in a worker; may raise.
 */
#include "postgres.h"

#include "core/part_plan.h"
#include "stream/upload.h"
#include "utils/memutils.h"

/* What the first buffer begins with. */
#define PGOS_FIRST_BUFFER ((size_t) 64 * 1024)

typedef struct PgosPart
{
	char		*buf; /* or NULL: not allocated yet */
	size_t		 size;
	PgosRequest *request; /* in flight, or NULL */
} PgosPart;

typedef struct PgosUploadSink
{
	PgosSink		 base;
	PgosStore		*store;
	char			*key;
	PgosPutCondition condition;
	PgosPartPlan	 plan;
	int				 concurrency;
	PgosUpload		*upload;  /* NULL before the second part begins */
	PgosPart		*parts;	  /* concurrency + 1 */
	int				 filling; /* index of the part that the writer fills */
	int				 part_no; /* its number, from 1 */
	PgosRequest		*put;	  /* of an object that is a single PUT */
	bool			 ended;
	bool			 completing; /* the store may have made the object, whatever we know of it */
	bool			 finished;	 /* completed or aborted */
	MemoryContext	 context;
	PgosUploadResult result;
} PgosUploadSink;

static void pgos_upload_drain(PgosSink *sink);
static void pgos_upload_end(PgosSink *sink);

static const PgosSinkOps pgos_upload_ops = {
	.drain = pgos_upload_drain,
	.cut = pgos_upload_drain,
	.end = pgos_upload_end,
};

/* Gives the writer the buffer of part `index`, of the size that the plan has for it. */
static void
pgos_upload_open_part(PgosUploadSink *up, int index)
{
	PgosPart *part = &up->parts[index];
	int64	  size = pgos_part_plan_size(&up->plan, up->part_no, up->base.raw_bytes);

	if (size <= 0)
		ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
						errmsg("object \"%s\" would be larger than the store can hold",
							   pgos_store_url(up->store, up->key)),
						errdetail("The limit is " INT64_FORMAT " bytes in %d parts.",
								  up->plan.max_object_size, up->plan.max_parts),
						errhint("Push to a path that ends in \"/\", or set a larger part_size.")));
	if (up->part_no == 1)
		size = Min(size, (int64) PGOS_FIRST_BUFFER);
	if (part->size != (size_t) size)
	{
		if (part->buf != NULL)
			pfree(part->buf);
		part->buf = NULL;
		part->buf = MemoryContextAllocExtended(up->context, size, MCXT_ALLOC_HUGE);
		part->size = size;
	}
	up->filling = index;
	up->base.buf = part->buf;
	up->base.size = part->size;
	up->base.len = 0;
}

/* Ends the requests that are done; returns how many are still in flight. */
static int
pgos_upload_reap(PgosUploadSink *up)
{
	int in_flight = 0;

	for (int i = 0; i <= up->concurrency; i++)
	{
		PgosPart *part = &up->parts[i];

		if (part->request == NULL)
			continue;
		if (pgos_request_done(part->request))
		{
			PgosRequest *request = part->request;

			part->request = NULL;
			pgos_request_finish(request);
		}
		else
			in_flight++;
	}
	/* nothing will be written any more: only what is in flight is needed */
	for (int i = 0; up->ended && i <= up->concurrency; i++)
	{
		PgosPart *part = &up->parts[i];

		if (part->request != NULL || (up->put != NULL && i == up->filling))
			continue;
		if (part->buf != NULL)
			pfree(part->buf);
		part->buf = NULL;
		part->size = 0;
	}
	return in_flight;
}

/* Counts the bytes in the buffer into length and checksum. */
static void
pgos_upload_account(PgosUploadSink *up)
{
	COMP_CRC32C(up->result.crc, up->base.buf, up->base.len);
	up->base.raw_bytes += up->base.len;
	up->result.bytes += up->base.len;
	up->result.parts++;
}

static void
pgos_upload_send_part(PgosUploadSink *up)
{
	PgosPart *part = &up->parts[up->filling];

	if (up->upload == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(up->context);

		up->upload = pgos_upload_begin(up->store, up->key);
		MemoryContextSwitchTo(old);
	}
	pgos_upload_account(up);
	part->request = pgos_upload_part_start(up->upload, up->part_no, part->buf, up->base.len);
	up->part_no++;
}

/* The first buffer is full but smaller than its part: make it larger. */
static bool
pgos_upload_grow(PgosUploadSink *up)
{
	PgosPart *part = &up->parts[up->filling];
	size_t	  full = (size_t) pgos_part_plan_size(&up->plan, up->part_no, up->base.raw_bytes);

	if (up->part_no > 1 || part->size >= full)
		return false;
	part->size = Min(part->size * 8, full);
	part->buf = repalloc_huge(part->buf, part->size);
	up->base.buf = part->buf;
	up->base.size = part->size;
	return true;
}

/* The part is full: send it, find the next free buffer. */
static void
pgos_upload_drain(PgosSink *sink)
{
	PgosUploadSink *up = (PgosUploadSink *) sink;
	int64			next_size;
	int				allowed;

	if (pgos_upload_grow(up))
		return;
	pgos_store_wait(up->store, 0);
	/* as many on the wire as were asked for, and no more */
	next_size = (int64) up->base.len;
	allowed = pgos_part_plan_in_flight(&up->plan, up->concurrency, next_size);
	while (pgos_upload_reap(up) >= allowed)
		pgos_store_wait(up->store, -1);
	pgos_upload_send_part(up);
	for (int i = 0; i <= up->concurrency; i++)
	{
		if (up->parts[i].request == NULL)
		{
			pgos_upload_open_part(up, i);
			return;
		}
	}
	/* not reached: of concurrency + 1 buffers at most concurrency are in flight */
	elog(ERROR, "no free part buffer");
}

static void
pgos_upload_end(PgosSink *sink)
{
	PgosUploadSink *up = (PgosUploadSink *) sink;

	if (up->upload == NULL)
	{
		pgos_upload_account(up);
		up->completing = true;
		up->put = pgos_put_start(up->store, up->key, up->base.buf, up->base.len, up->condition,
								 &up->result.info);
	}
	else if (up->base.len > 0)
		pgos_upload_send_part(up);
	up->base.len = 0;
	FIN_CRC32C(up->result.crc);
	up->ended = true;
	(void) pgos_upload_reap(up);
}

static void
pgos_upload_free_buffers(PgosUploadSink *up)
{
	for (int i = 0; i <= up->concurrency; i++)
	{
		Assert(up->parts[i].request == NULL);
		if (up->parts[i].buf != NULL)
			pfree(up->parts[i].buf);
		up->parts[i].buf = NULL;
		up->parts[i].size = 0;
	}
	up->base.buf = NULL;
	up->base.size = 0;
}

bool
pgos_upload_sink_is_sent(PgosSink *sink)
{
	PgosUploadSink *up = (PgosUploadSink *) sink;

	Assert(up->ended);
	if (up->put != NULL)
		return pgos_request_done(up->put);
	return pgos_upload_reap(up) == 0;
}

size_t
pgos_upload_sink_memory(PgosSink *sink)
{
	PgosUploadSink *up = (PgosUploadSink *) sink;
	size_t			memory = 0;

	for (int i = 0; i <= up->concurrency; i++)
		memory += up->parts[i].size;
	return memory;
}

void
pgos_upload_sink_wait(PgosSink *sink)
{
	PgosUploadSink *up = (PgosUploadSink *) sink;

	while (!pgos_upload_sink_is_sent(sink))
		pgos_store_wait(up->store, -1);
	if (up->put != NULL)
	{
		PgosRequest *request = up->put;

		up->put = NULL;
		pgos_request_finish(request);
	}
	pgos_upload_free_buffers(up);
}

void
pgos_upload_sink_complete(PgosSink *sink)
{
	PgosUploadSink *up = (PgosUploadSink *) sink;

	PG_TRY();
	{
		pgos_upload_sink_wait(sink);
		up->completing = true;
		if (up->upload != NULL)
			pgos_upload_complete(up->upload, up->result.bytes, up->condition, &up->result.info);
	}
	PG_CATCH();
	{
		/* the store said no, or we gave up after all retries; after an interrupt it may still say yes */
		if (geterrcode() != ERRCODE_QUERY_CANCELED && geterrcode() != ERRCODE_ADMIN_SHUTDOWN)
			up->completing = false;
		PG_RE_THROW();
	}
	PG_END_TRY();
	up->finished = true;
}

PgosSink *
pgos_upload_sink_new(PgosStore *store, const char *key, PgosPutCondition condition, int64 part_size,
					 int concurrency)
{
	const PgosStoreLimits *limits = pgos_store_limits(store);
	PgosUploadSink		  *up = palloc0(sizeof(PgosUploadSink));

	up->base.ops = &pgos_upload_ops;
	up->base.cut_len = SIZE_MAX; /* parts end where they are full, not where a row ends */
	up->store = store;
	up->key = pstrdup(key);
	up->condition = condition;
	up->plan.part_size = part_size > 0 ? part_size : limits->part_size;
	up->plan.part_size = Max(up->plan.part_size, limits->min_part_size);
	up->plan.max_part_size = limits->max_part_size;
	up->plan.max_parts = limits->max_parts;
	up->plan.max_object_size = limits->max_object_size;
	up->concurrency = concurrency > 0 ? concurrency : limits->concurrency;
	up->parts = palloc0((up->concurrency + 1) * sizeof(PgosPart));
	up->part_no = 1;
	up->context = CurrentMemoryContext;
	INIT_CRC32C(up->result.crc);
	pgos_upload_open_part(up, 0);
	return &up->base;
}

const PgosUploadResult *
pgos_upload_sink_result(PgosSink *sink)
{
	Assert(sink->ops == &pgos_upload_ops);
	return &((PgosUploadSink *) sink)->result;
}

void
pgos_upload_sink_abort(PgosSink *sink)
{
	PgosUploadSink *up = (PgosUploadSink *) sink;

	if (up->finished)
		return;
	up->finished = true;
	if (up->put != NULL)
		pgos_request_cancel(up->put);
	up->put = NULL;
	for (int i = 0; i <= up->concurrency; i++)
	{
		PgosRequest *request = up->parts[i].request;

		up->parts[i].request = NULL;
		if (request != NULL)
			pgos_request_cancel(request);
	}
	if (up->upload != NULL)
		pgos_upload_abort(up->upload);

	/*
	 * The request that makes the object was sent, and its answer did not come.  A key that was free before can
	 * only be ours; one that was to be overwritten may still be the old object.
	 */
	if (up->completing && up->condition == PGOS_PUT_IF_ABSENT)
	{
		PgosObjectInfo info;

		if (pgos_store_head(up->store, up->key, &info) && info.size == up->result.bytes)
			pgos_store_delete(up->store, up->key);
	}
}
