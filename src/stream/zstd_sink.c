/*
 * zstd_sink.c
 *		A sink that compresses into the next one: independent zstd frames that begin at row boundaries.
 *
 * Compression overlaps with the writer: the raw stream is cut into chunks that go through a ring.
 *
 *		PGOS_CHUNK_EMPTY  --(writer fills it)-->  FILLED  --(thread compresses)-->  DONE  --(writer moves the
 *		output into the next sink)-->  EMPTY
 *
 * Chunks are filled, compressed and emptied in the same order, so each side needs only its own position; the
 * states are the only thing shared, under the mutex.  One thread and not libzstd's own workers: these must be
 * drained whenever a frame ends, which would stop the writer every few megabytes.  The thread starts when the
 * first chunk is full, so a small table never pays for one; if it cannot be started, the writer compresses.
 *
 * The thread knows nothing of PostgreSQL: it touches the ring, zstd and pthread, all signals are blocked in
 * it, and errors are left in the chunk for the writer to raise.  It is joined by the reset callback of the
 * memory context that was current at pgos_zstd_sink_new(), which also frees zstd's context.
 *
 * Runs in a worker; all but the thread may raise.
 */
#include "postgres.h"

#include <zstd.h>
#include <zstd_errors.h>

#include "store/store.h"
#include "stream/thread.h"
#include "stream/zstd_sink.h"
#include "utils/memutils.h"

#define PGOS_CHUNK_SIZE ((size_t) 1024 * 1024)
#define PGOS_CHUNK_COUNT 4
/* what zstd may hold back of earlier chunks and give out with this one: less than two blocks of 128 KiB */
#define PGOS_CHUNK_LAG ((size_t) 256 * 1024)

typedef enum PgosChunkState
{
	PGOS_CHUNK_EMPTY,
	PGOS_CHUNK_FILLED,
	PGOS_CHUNK_DONE
} PgosChunkState;

typedef struct PgosChunk
{
	PgosChunkState state;
	char		  *in;
	size_t		   in_len;
	bool		   end_frame; /* the frame ends with this chunk */
	char		  *out;
	size_t		   out_len;
	int64		  *mark;  /* takes the position of its output in the next sink, or NULL */
	size_t		   error; /* a zstd result that ZSTD_isError(), or 0 */
} PgosChunk;

typedef struct PgosZstdSink
{
	PgosSink	  base;
	PgosSink	 *next;
	size_t		  frame_size;
	size_t		  frame_len; /* raw bytes of the frame under way that are in earlier chunks */
	size_t		  out_size;
	ZSTD_CCtx	 *cctx;
	PgosChunk	  chunks[PGOS_CHUNK_COUNT];
	int			  filling;	   /* chunk that the writer fills */
	int			  emptying;	   /* oldest chunk that is not empty, or filling */
	int64		 *mark;		   /* for the chunk that is being filled */
	bool		  frame_begun; /* a frame is under way */
	bool		  wrote_frame;
	MemoryContext context;
	MemoryContextCallback callback;

	bool	   tried_thread;
	PgosThread thread;
	int first; /* chunk that the thread begins with: those before it were compressed without one */
} PgosZstdSink;

/* Compresses one chunk.  No PostgreSQL in here: also runs in the thread. */
static void
pgos_zstd_compress_chunk(ZSTD_CCtx *cctx, PgosChunk *chunk, size_t out_size)
{
	ZSTD_inBuffer  in = {chunk->in, chunk->in_len, 0};
	ZSTD_outBuffer out = {chunk->out, out_size, 0};
	size_t		   left;

	chunk->error = 0;
	do
	{
		left =
			ZSTD_compressStream2(cctx, &out, &in, chunk->end_frame ? ZSTD_e_end : ZSTD_e_continue);
		if (ZSTD_isError(left))
		{
			chunk->error = left;
			break;
		}
		if (out.pos == out.size && (in.pos < in.size || (chunk->end_frame && left > 0)))
		{
			/* out_size is a bound of what can come: never so */
			chunk->error = (size_t) -ZSTD_error_dstSize_tooSmall;
			break;
		}
	} while (in.pos < in.size || (chunk->end_frame && left > 0));
	chunk->out_len = out.pos;
}

static void *
pgos_zstd_thread_main(void *arg)
{
	PgosZstdSink *zs = arg;
	int			  next = zs->first;

	pthread_mutex_lock(&zs->thread.mutex);
	for (;;)
	{
		PgosChunk *chunk = &zs->chunks[next];

		while (!zs->thread.stop && chunk->state != PGOS_CHUNK_FILLED)
			pthread_cond_wait(&zs->thread.changed, &zs->thread.mutex);
		if (zs->thread.stop)
			break;
		pthread_mutex_unlock(&zs->thread.mutex);
		pgos_zstd_compress_chunk(zs->cctx, chunk, zs->out_size);
		pthread_mutex_lock(&zs->thread.mutex);
		chunk->state = PGOS_CHUNK_DONE;
		pthread_cond_broadcast(&zs->thread.changed);
		next = (next + 1) % PGOS_CHUNK_COUNT;
	}
	pthread_mutex_unlock(&zs->thread.mutex);
	return NULL;
}

static void
pgos_zstd_start_thread(PgosZstdSink *zs)
{
	zs->tried_thread = true;
	zs->first = zs->filling;
	(void) pgos_thread_start(&zs->thread, pgos_zstd_thread_main, zs);
}

/* Memory context callback: ends the thread, frees zstd. */
static void
pgos_zstd_release(void *arg)
{
	PgosZstdSink *zs = arg;

	pgos_thread_end(&zs->thread);
	if (zs->cctx != NULL)
		ZSTD_freeCCtx(zs->cctx);
	zs->cctx = NULL;
}

static PgosChunkState
pgos_zstd_chunk_state(PgosZstdSink *zs, PgosChunk *chunk)
{
	PgosChunkState state;

	if (!zs->thread.running)
		return chunk->state;
	pthread_mutex_lock(&zs->thread.mutex);
	state = chunk->state;
	pthread_mutex_unlock(&zs->thread.mutex);
	return state;
}

/*
 * Moves the output of compressed chunks into the next sink, until chunk `until` is empty (-1: only those that
 * are compressed now).
 */
static void
pgos_zstd_collect(PgosZstdSink *zs, int until)
{
	for (;;)
	{
		PgosChunk	  *chunk = &zs->chunks[zs->emptying];
		PgosChunkState state = pgos_zstd_chunk_state(zs, chunk);

		if (state == PGOS_CHUNK_EMPTY)
			return;
		if (state == PGOS_CHUNK_FILLED)
		{
			if (until < 0)
				return;
			/* a level of 19 takes about a second for a chunk */
			pthread_mutex_lock(&zs->thread.mutex);
			if (chunk->state == PGOS_CHUNK_FILLED)
				pgos_thread_wait(&zs->thread);
			pthread_mutex_unlock(&zs->thread.mutex);
			continue;
		}
		if (chunk->error != 0)
			ereport(ERROR,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("could not compress with zstd: %s", ZSTD_getErrorName(chunk->error))));
		if (chunk->mark != NULL)
			*chunk->mark = pgos_sink_written(zs->next);
		chunk->mark = NULL;
		if (chunk->out_len > 0)
			pgos_sink_write(zs->next, chunk->out, chunk->out_len);
		pthread_mutex_lock(&zs->thread.mutex);
		chunk->state = PGOS_CHUNK_EMPTY;
		pthread_mutex_unlock(&zs->thread.mutex);
		chunk->in_len = 0;
		if (zs->emptying == until)
		{
			zs->emptying = (zs->emptying + 1) % PGOS_CHUNK_COUNT;
			return;
		}
		zs->emptying = (zs->emptying + 1) % PGOS_CHUNK_COUNT;
	}
}

static void
pgos_zstd_open_chunk(PgosZstdSink *zs)
{
	PgosChunk *chunk = &zs->chunks[zs->filling];

	if (chunk->in == NULL)
	{
		chunk->in = MemoryContextAlloc(zs->context, PGOS_CHUNK_SIZE);
		chunk->out = MemoryContextAlloc(zs->context, zs->out_size);
	}
	zs->base.buf = chunk->in;
	zs->base.size = PGOS_CHUNK_SIZE;
	zs->base.len = 0;
	/* the frame ends at the first row that ends behind frame_size */
	if (zs->frame_len >= zs->frame_size)
		zs->base.cut_len = 0;
	else
		zs->base.cut_len = zs->frame_size - zs->frame_len;
}

/* Hands the chunk over.  small: no thread is worth starting for it. */
static void
pgos_zstd_submit(PgosZstdSink *zs, bool end_frame, bool small)
{
	PgosChunk *chunk = &zs->chunks[zs->filling];

	chunk->in_len = zs->base.len;
	chunk->end_frame = end_frame;
	chunk->mark = zs->mark;
	zs->mark = NULL;
	zs->base.raw_bytes += zs->base.len;
	zs->frame_len = end_frame ? 0 : zs->frame_len + zs->base.len;
	zs->base.len = 0;
	zs->frame_begun = !end_frame;
	zs->wrote_frame = true;

	if (!zs->tried_thread && !small)
		pgos_zstd_start_thread(zs);
	if (zs->thread.running)
	{
		pthread_mutex_lock(&zs->thread.mutex);
		chunk->state = PGOS_CHUNK_FILLED;
		pthread_cond_broadcast(&zs->thread.changed);
		pthread_mutex_unlock(&zs->thread.mutex);
	}
	else
	{
		pgos_zstd_compress_chunk(zs->cctx, chunk, zs->out_size);
		chunk->state = PGOS_CHUNK_DONE;
	}
	zs->filling = (zs->filling + 1) % PGOS_CHUNK_COUNT;
}

static void
pgos_zstd_next_chunk(PgosZstdSink *zs)
{
	pgos_zstd_collect(zs, -1);
	if (pgos_zstd_chunk_state(zs, &zs->chunks[zs->filling]) != PGOS_CHUNK_EMPTY)
		pgos_zstd_collect(zs, zs->filling);
	pgos_zstd_open_chunk(zs);
	pgos_store_wait(NULL, 0);
}

static void
pgos_zstd_drain(PgosSink *sink)
{
	PgosZstdSink *zs = (PgosZstdSink *) sink;

	pgos_zstd_submit(zs, false, false);
	pgos_zstd_next_chunk(zs);
}

static void
pgos_zstd_cut(PgosSink *sink)
{
	PgosZstdSink *zs = (PgosZstdSink *) sink;

	pgos_zstd_submit(zs, true, zs->base.len < PGOS_CHUNK_SIZE / 4);
	pgos_zstd_next_chunk(zs);
}

static void
pgos_zstd_end(PgosSink *sink)
{
	PgosZstdSink *zs = (PgosZstdSink *) sink;

	/* no rows at all is one empty frame, so that the object is a zstd file */
	if (zs->base.len > 0 || zs->frame_begun || !zs->wrote_frame || zs->mark != NULL)
		pgos_zstd_submit(zs, true, true);
	pgos_zstd_collect(zs, (zs->filling + PGOS_CHUNK_COUNT - 1) % PGOS_CHUNK_COUNT);
	pgos_sink_end(zs->next);
}

static const PgosSinkOps pgos_zstd_ops = {
	.drain = pgos_zstd_drain,
	.cut = pgos_zstd_cut,
	.end = pgos_zstd_end,
};

PgosSink *
pgos_zstd_sink_new(PgosSink *next, int level, size_t frame_size)
{
	PgosZstdSink *zs = palloc0(sizeof(PgosZstdSink));
	size_t		  rc;

	zs->base.ops = &pgos_zstd_ops;
	zs->next = next;
	zs->frame_size = frame_size;
	zs->out_size = ZSTD_compressBound(PGOS_CHUNK_SIZE + PGOS_CHUNK_LAG);
	zs->context = CurrentMemoryContext;
	pgos_thread_init(&zs->thread);
	zs->callback.func = pgos_zstd_release;
	zs->callback.arg = zs;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &zs->callback);

	zs->cctx = ZSTD_createCCtx();
	if (zs->cctx == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory"),
						errdetail("zstd context.")));
	rc = ZSTD_CCtx_setParameter(zs->cctx, ZSTD_c_compressionLevel, level);
	if (!ZSTD_isError(rc))
		rc = ZSTD_CCtx_setParameter(zs->cctx, ZSTD_c_checksumFlag, 1);
	if (ZSTD_isError(rc))
		elog(ERROR, "could not set up zstd: %s", ZSTD_getErrorName(rc));
	pgos_zstd_open_chunk(zs);
	return &zs->base;
}

void
pgos_zstd_sink_mark(PgosSink *sink, int64 *offset)
{
	PgosZstdSink *zs = (PgosZstdSink *) sink;

	/* an empty stream between two marks is an empty frame */
	if (zs->base.len > 0 || zs->frame_begun || zs->mark != NULL)
		pgos_zstd_cut(sink);
	zs->mark = offset;
}

void
pgos_zstd_sink_restart(PgosSink *sink, PgosSink *next)
{
	PgosZstdSink *zs = (PgosZstdSink *) sink;

	Assert(sink->ops == &pgos_zstd_ops && !zs->frame_begun);
	zs->next = next;
	zs->wrote_frame = false;
	zs->base.raw_bytes = 0;
	pgos_zstd_open_chunk(zs);
}
