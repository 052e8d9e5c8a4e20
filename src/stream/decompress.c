/*
 * decompress.c
 *		The source that undoes a compression, beside its reader.
 *
 *		worker						  codec (in the worker, later in a thread)
 *		------						  ----------------------------------------
 *		feeds bytes of the source below
 *									  decompresses into the chunks of a ring, in order, until the bytes are used up
 *		gives the oldest chunk to the reader; it is free again when the reader wants more
 *
 * The codec begins in the worker.  A stream that goes on gets a thread, so that a small one never pays for it; if the
 * thread cannot be started, the worker goes on.  `fed` and the chunks' states are what both sides share, under the
 * mutex: while the codec is fed the step is its own, and the bytes below stay where they are; a chunk that is full is
 * the worker's.
 *
 * The stream must end where a unit ends; anything else (a frame cut short, garbage behind a frame, a bad
 * checksum) is ERRCODE_DATA_CORRUPTED.  The thread is joined and the codec freed by the reset callback of the memory
 * context that was current at pgos_decompress_source_new(); the bytes below must live as long.
 *
 * Runs in a worker; all but the codec may raise.
 */
#include "postgres.h"

#include "stream/codec.h"
#include "stream/decompress.h"
#include "stream/thread.h"
#include "utils/memutils.h"

#define PGOS_CHUNK_SIZE ((size_t) 256 * 1024)
#define PGOS_CHUNK_COUNT 4
/* After so many chunks the stream is worth a thread. */
#define PGOS_CHUNKS_ALONE 4

typedef struct PgosRawChunk
{
	bool		full; /* the worker's, else the codec's */
	char	   *out;
	size_t		len;
	int			feed; /* which feed the codec was at, and how much it had left of it */
	size_t		in_left;
	const char *error; /* what went wrong behind these bytes, or NULL */
} PgosRawChunk;

typedef struct PgosDecompress
{
	PgosSource		 base;
	PgosSource		*from;
	const char		*name;
	const PgosCodec *codec;
	void			*state;
	PgosCodecStep	 step;
	int				 feeds;
	bool			 fed;	/* the codec has something to do */
	bool			 ended; /* so has the source below */
	PgosRawChunk	 chunks[PGOS_CHUNK_COUNT];
	int				 filling; /* the codec's next chunk */
	int				 reading; /* the reader has this one, or will get it next */
	bool			 lent;	  /* it has it */
	int				 given;	  /* chunks, up to PGOS_CHUNKS_ALONE */
	bool			 tried_thread;
	PgosThread		 thread;

	MemoryContext		  context;
	MemoryContextCallback callback;
} PgosDecompress;

/* ---------------------------------------------------------------- codec */

/* Fills the chunk as far as the bytes reach.  No PostgreSQL in here: also runs in the thread. */
static void
pgos_decompress_chunk(PgosDecompress *dc, PgosRawChunk *chunk)
{
	PgosCodecStep *step = &dc->step;

	step->out = chunk->out;
	step->out_size = PGOS_CHUNK_SIZE;
	step->out_pos = 0;
	do
		chunk->error = dc->codec->run(dc->state, step);
	while (chunk->error == NULL && step->out_pos < step->out_size && step->in_pos < step->in_len);
	chunk->len = step->out_pos;
	chunk->feed = dc->feeds;
	chunk->in_left = step->in_len - step->in_pos;
}

/* What the codec has done becomes the worker's.  With a thread: under the mutex. */
static void
pgos_decompress_chunk_done(PgosDecompress *dc, PgosRawChunk *chunk)
{
	chunk->full = chunk->len > 0 || chunk->error != NULL;
	if (chunk->full)
		dc->filling = (dc->filling + 1) % PGOS_CHUNK_COUNT;
	dc->fed = chunk->error == NULL && (dc->step.more || dc->step.in_pos < dc->step.in_len);
	dc->ended |= chunk->error != NULL; /* nothing comes after it */
}

static void *
pgos_decompress_thread_main(void *arg)
{
	PgosDecompress *dc = arg;
	PgosThread	   *thread = &dc->thread;

	pthread_mutex_lock(&thread->mutex);
	for (;;)
	{
		PgosRawChunk *chunk = &dc->chunks[dc->filling];

		while (!thread->stop && (chunk->full || !dc->fed))
			pthread_cond_wait(&thread->changed, &thread->mutex);
		if (thread->stop)
			break;
		pthread_mutex_unlock(&thread->mutex);
		pgos_decompress_chunk(dc, chunk);
		pthread_mutex_lock(&thread->mutex);
		pgos_decompress_chunk_done(dc, chunk);
		pthread_cond_broadcast(&thread->changed);
	}
	pthread_mutex_unlock(&thread->mutex);
	return NULL;
}

/* ---------------------------------------------------------------- worker */

static void
pgos_decompress_start_thread(PgosDecompress *dc)
{
	dc->tried_thread = true;
	for (int i = 0; i < PGOS_CHUNK_COUNT; i++)
	{
		if (dc->chunks[i].out == NULL)
			dc->chunks[i].out = MemoryContextAlloc(dc->context, PGOS_CHUNK_SIZE);
	}
	(void) pgos_thread_start(&dc->thread, pgos_decompress_thread_main, dc);
}

/* More bytes for the codec, which has none; false at the end of the source below. */
static bool
pgos_decompress_feed(PgosDecompress *dc)
{
	PgosSource *from = dc->from;

	/* what the codec has had is taken only now, if nobody asked since */
	if (dc->feeds > 0)
	{
		from->data += from->avail;
		from->avail = 0;
	}
	if (from->avail == 0 && !from->fill(from))
		return false;
	dc->step.in = from->data;
	dc->step.in_len = from->avail;
	dc->step.in_pos = 0;
	dc->feeds++;
	return true;
}

static void
pgos_decompress_fail(PgosDecompress *dc, const char *error)
{
	const char *codec = dc->codec->name;

	if (dc->step.no_memory)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory"),
				 errdetail("%s could not allocate its window for \"%s\".", codec, dc->name)));
	if (dc->step.too_large)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("could not decompress \"%s\" with %s: its window is too large", dc->name,
						codec),
				 errdetail("Windows of up to 128 MiB are read."),
				 errhint("Compress it anew with a smaller window (zstd --long=27 or less).")));
	ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
					errmsg("could not decompress \"%s\" with %s: %s", dc->name, codec, error),
					errhint("The object is damaged or is not compressed with %s.", codec)));
}

/* The end of the source below: whether it may be there.  Always false. */
static bool
pgos_decompress_end(PgosDecompress *dc)
{
	if (dc->feeds == 0)
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
						errmsg("\"%s\" is empty, not a %s file", dc->name, dc->codec->name),
						errhint("The object was not written to its end. Write it again.")));
	if (dc->step.in_unit)
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
						errmsg("\"%s\" ends in the middle of a %s %s", dc->name, dc->codec->name,
							   dc->codec->unit),
						errhint("The object was not written to its end. Write it again.")));
	return false;
}

/* The reader's chunk may be filled again. */
static void
pgos_decompress_release_chunk(PgosDecompress *dc)
{
	PgosRawChunk *chunk = &dc->chunks[dc->reading];

	/* not one that raised an error instead: whoever asks again gets that again */
	if (!dc->lent)
		return;
	dc->lent = false;
	pthread_mutex_lock(&dc->thread.mutex);
	chunk->full = false;
	dc->reading = (dc->reading + 1) % PGOS_CHUNK_COUNT;
	pthread_cond_broadcast(&dc->thread.changed);
	pthread_mutex_unlock(&dc->thread.mutex);
}

/* What the codec has come to. */
typedef enum PgosCodecState
{
	PGOS_CODEC_FULL, /* the reader's chunk is, and the codec has something to do, or never again */
	PGOS_CODEC_FULL_UNFED, /* the chunk is full, and the codec waits for bytes */
	PGOS_CODEC_UNFED,	   /* there is no chunk without more bytes */
	PGOS_CODEC_OVER		   /* nothing will come */
} PgosCodecState;

/* Waits until the reader's chunk is full or the codec waits for bytes. */
static PgosCodecState
pgos_decompress_work(PgosDecompress *dc, PgosRawChunk *chunk)
{
	PgosThread	  *thread = &dc->thread;
	PgosCodecState state;

	pthread_mutex_lock(&thread->mutex);
	while (thread->running && dc->fed && !chunk->full)
		pgos_thread_wait(thread);
	if (chunk->full)
		state = dc->fed || dc->ended ? PGOS_CODEC_FULL : PGOS_CODEC_FULL_UNFED;
	else
		state = dc->ended ? PGOS_CODEC_OVER : PGOS_CODEC_UNFED;
	pthread_mutex_unlock(&thread->mutex);
	return state;
}

/* The same without a thread; bytes before they are needed are of no use then. */
static PgosCodecState
pgos_decompress_work_alone(PgosDecompress *dc, PgosRawChunk *chunk)
{
	if (chunk->out == NULL)
		chunk->out = MemoryContextAlloc(dc->context, PGOS_CHUNK_SIZE);
	while (dc->fed && !chunk->full)
	{
		pgos_decompress_chunk(dc, chunk);
		pgos_decompress_chunk_done(dc, chunk);
	}
	if (chunk->full)
		return PGOS_CODEC_FULL;
	return dc->ended ? PGOS_CODEC_OVER : PGOS_CODEC_UNFED;
}

static void
pgos_decompress_feed_codec(PgosDecompress *dc)
{
	bool any = pgos_decompress_feed(dc);

	pthread_mutex_lock(&dc->thread.mutex);
	dc->fed = any;
	dc->ended = !any;
	pthread_cond_broadcast(&dc->thread.changed);
	pthread_mutex_unlock(&dc->thread.mutex);
}

/* The full chunk to the reader. */
static void
pgos_decompress_give(PgosDecompress *dc, PgosRawChunk *chunk)
{
	if (chunk->error != NULL)
		pgos_decompress_fail(dc, chunk->error);
	if (chunk->feed == dc->feeds)
	{
		/* for who asks how far we are */
		dc->from->data += dc->from->avail - chunk->in_left;
		dc->from->avail = chunk->in_left;
	}
	dc->lent = true;
	dc->given += dc->given < PGOS_CHUNKS_ALONE;
	dc->base.data = chunk->out;
	dc->base.avail = chunk->len;
}

static bool
pgos_decompress_fill(PgosSource *source)
{
	PgosDecompress *dc = (PgosDecompress *) source;
	PgosRawChunk   *chunk;

	pgos_decompress_release_chunk(dc);
	if (!dc->tried_thread && dc->given == PGOS_CHUNKS_ALONE)
		pgos_decompress_start_thread(dc);
	chunk = &dc->chunks[dc->reading];
	for (;;)
	{
		switch (dc->thread.running ? pgos_decompress_work(dc, chunk)
								   : pgos_decompress_work_alone(dc, chunk))
		{
			case PGOS_CODEC_FULL_UNFED:
				pgos_decompress_feed_codec(dc);
				/* FALLTHROUGH */
			case PGOS_CODEC_FULL:
				pgos_decompress_give(dc, chunk);
				return true;
			case PGOS_CODEC_UNFED:
				pgos_decompress_feed_codec(dc);
				break;
			case PGOS_CODEC_OVER:
				return pgos_decompress_end(dc);
		}
	}
}

static void
pgos_decompress_release(void *arg)
{
	PgosDecompress *dc = arg;

	pgos_thread_end(&dc->thread);
	if (dc->state != NULL)
		dc->codec->free(dc->state);
	dc->state = NULL;
}

static PgosSource *
pgos_decompress_new(const PgosCodec *codec, PgosSource *from, const char *name)
{
	PgosDecompress *dc = palloc0(sizeof(PgosDecompress));

	dc->base.fill = pgos_decompress_fill;
	dc->from = from;
	dc->name = pstrdup(name);
	dc->codec = codec;
	dc->context = CurrentMemoryContext;
	pgos_thread_init(&dc->thread);
	dc->callback.func = pgos_decompress_release;
	dc->callback.arg = dc;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &dc->callback);
	dc->state = codec->make();
	if (dc->state == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory"),
						errdetail("State of %s.", codec->name)));
	return &dc->base;
}

PgosSource *
pgos_decompress_source_new(PgosCompression compression, PgosSource *from, const char *name)
{
	switch (compression)
	{
		case PGOS_COMPRESSION_NONE:
			break;
		case PGOS_COMPRESSION_ZSTD:
			return pgos_decompress_new(&pgos_codec_zstd, from, name);
		case PGOS_COMPRESSION_GZIP:
			return pgos_decompress_new(&pgos_codec_gzip, from, name);
		case PGOS_COMPRESSION_LZ4:
			return pgos_decompress_new(&pgos_codec_lz4, from, name);
	}
	return from;
}
