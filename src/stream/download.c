/*
 * download.c
 *		The first source of a pull: one object, fetched by ranged GETs in parallel, given out in order.
 *
 * A ring of buffers: range i of the object uses buffer i % count.  The reader has one of them; all others are in
 * flight, so the network is busy while the reader works.  A buffer that has no range to come is freed.  Buffers live in
 * the memory context of pgos_download_source_new(), requests are cancelled by the store's reset callback.
 *
 * Runs in a worker; may raise.
 */
#include "postgres.h"

#include "core/range_plan.h"
#include "stream/download.h"
#include "utils/memutils.h"

typedef struct PgosRange
{
	char		*buf;
	size_t		 len;
	PgosRequest *request; /* in flight, or NULL */
} PgosRange;

typedef struct PgosDownload
{
	PgosSource	   base;
	PgosStore	  *store;
	char		  *key;
	PgosObjectInfo info;
	PgosRangePlan  plan;
	int64		   count_ranges;
	bool		   check_crc;
	pg_crc32c	   expected_crc;
	pg_crc32c	   crc;
	PgosRange	  *ranges;
	int			   count;	   /* buffers */
	int64		   next_start; /* first range that has not been asked for */
	int64		   next_read;  /* range that the reader gets next */
	int64		   position;   /* bytes given out, including what is in data */
	bool		   ended;
} PgosDownload;

/* Asks for ranges as long as there are free buffers, but for one, which the reader has or had last. */
static void
pgos_download_start(PgosDownload *dl)
{
	while (dl->next_start < dl->count_ranges && dl->next_start - dl->next_read < dl->count - 1)
	{
		PgosRange *range = &dl->ranges[dl->next_start % dl->count];
		int64	   offset;
		int64	   len;

		pgos_range_plan_get(&dl->plan, dl->next_start, &offset, &len);
		range->len = len;
		if (range->buf == NULL)
			range->buf = MemoryContextAllocExtended(
				GetMemoryChunkContext(dl), Min(dl->plan.chunk, dl->plan.size), MCXT_ALLOC_HUGE);
		range->request =
			pgos_get_start(dl->store, dl->key, offset, range->len,
						   dl->info.etag[0] != '\0' ? dl->info.etag : NULL, range->buf);
		dl->next_start++;
	}
}

/*
 * Near the end of the object: the buffer that the reader has emptied will be no range's any more, and whoever fetches
 * the next object already wants the memory.
 */
static void
pgos_download_release(PgosDownload *dl)
{
	PgosRange *range;

	if (dl->next_read == 0 || dl->next_start < dl->count_ranges)
		return;
	range = &dl->ranges[(dl->next_read - 1) % dl->count];
	if (range->buf != NULL)
		pfree(range->buf);
	range->buf = NULL;
}

static bool
pgos_download_fill(PgosSource *source)
{
	PgosDownload *dl = (PgosDownload *) source;
	PgosRange	 *range;
	PgosRequest	 *request;

	if (dl->next_read >= dl->count_ranges)
	{
		if (!dl->ended)
		{
			dl->ended = true;
			FIN_CRC32C(dl->crc);
			if (dl->check_crc && !EQ_CRC32C(dl->crc, dl->expected_crc))
				ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
								errmsg("object \"%s\" is not what was written",
									   pgos_store_url(dl->store, dl->key)),
								errdetail("Its CRC32C is %08X, the manifest has %08X.", dl->crc,
										  dl->expected_crc),
								errhint("The object was damaged or replaced after the push. Pull "
										"another dataset, or push again.")));
		}
		return false;
	}
	pgos_download_release(dl);
	range = &dl->ranges[dl->next_read % dl->count];
	while (!pgos_request_done(range->request))
		pgos_store_wait(dl->store, -1);
	request = range->request;
	range->request = NULL;
	pgos_request_finish(request);

	COMP_CRC32C(dl->crc, range->buf, range->len);
	dl->position += range->len;
	dl->base.data = range->buf;
	dl->base.avail = range->len;
	dl->next_read++;
	/* into the buffer that the reader had before */
	pgos_download_start(dl);
	return true;
}

PgosSource *
pgos_download_source_new(PgosStore *store, const char *key, const PgosObjectInfo *info,
						 const pg_crc32c *crc, int64 range_size, int concurrency)
{
	const PgosStoreLimits *limits = pgos_store_limits(store);
	PgosDownload		  *dl = palloc0(sizeof(PgosDownload));

	dl->base.fill = pgos_download_fill;
	dl->store = store;
	dl->key = pstrdup(key);
	dl->info = *info;
	dl->plan.size = info->size;
	dl->plan.chunk = range_size > 0 ? range_size : limits->part_size;
	dl->count_ranges = pgos_range_plan_count(&dl->plan);
	INIT_CRC32C(dl->crc);
	if (crc != NULL)
	{
		dl->check_crc = true;
		dl->expected_crc = *crc;
	}
	dl->count = concurrency > 0 ? concurrency : limits->concurrency;
	/* one buffer is with the reader, the others are in flight */
	dl->count = Max(dl->count, 1) + 1;
	dl->ranges = palloc0(dl->count * sizeof(PgosRange));
	pgos_download_start(dl);
	return &dl->base;
}

int64
pgos_download_source_position(PgosSource *source)
{
	return ((PgosDownload *) source)->position - (int64) source->avail;
}

int64
pgos_download_source_remaining(PgosSource *source)
{
	PgosDownload *dl = (PgosDownload *) source;

	return dl->plan.size - dl->position;
}

void
pgos_download_source_close(PgosSource *source)
{
	PgosDownload *dl = (PgosDownload *) source;

	for (int i = 0; i < dl->count; i++)
	{
		PgosRequest *request = dl->ranges[i].request;

		dl->ranges[i].request = NULL;
		if (request != NULL)
			pgos_request_cancel(request);
		if (dl->ranges[i].buf != NULL)
			pfree(dl->ranges[i].buf);
		dl->ranges[i].buf = NULL;
	}
	dl->next_read = dl->count_ranges;
	dl->base.avail = 0;
	dl->ended = true;
}
