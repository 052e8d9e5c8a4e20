/*
 * copy_batch.c
 *		Bad rows: the rows of an object in batches of whole records, each loaded in a subtransaction.
 *
 * When a batch fails, nothing of it is there.  Mostly the error says at which line it happened; then what comes
 * before that line is loaded, the line is reported, and the rest goes on, so that no row is loaded more than
 * twice.  An error that says no line (a foreign key, checked when the statement ends) is found by halving.
 *
 * The same way on_conflict => 'update' copes with a key that comes twice: one INSERT may not touch a row twice,
 * so the batch is cut in front of the second, and the last row wins.
 *
 * A quote that is never closed would swallow all that follows.  Where that shows (the stream ends, or the
 * record is longer than allowed), only the line with the quote is a bad row, and the next line begins anew.
 *
 * Memory: the batch, at most twice the longest record.  Runs in a worker; raises.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_class.h"
#include "copy/copy_load_internal.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"

#define PGOS_BATCH_BYTES (8 * 1024 * 1024)
#define PGOS_BATCH_RECORDS 100000
/* of a line that is too long, what is kept to show */
#define PGOS_BATCH_SHOWN (8 * 1024)

typedef struct PgosRecord
{
	size_t begin; /* in the buffer */
	size_t len;
	uint64 first_line; /* counted from 1 */
	uint64 last_line;
} PgosRecord;

typedef struct PgosBatch
{
	PgosLoad	   *load;
	PgosPlan	   *plan;
	PgosSplitter   *splitter;
	int				encoding; /* of the source */
	PgosSource	   *source;
	PgosLoadCounts *counts;
	MemoryContext	attempt_context;
	size_t			max_line;
	char		   *buf;
	size_t			size;
	size_t			len;
	size_t			done; /* bytes of buf that are in records */
	PgosRecord	   *records;
	int				count;
	int64			rows_before; /* records in earlier batches */
	uint64			lines;		 /* lines before the next record */
	bool			ended;		 /* the source has */
	bool			over;		 /* so have the records */
} PgosBatch;

static bool
pgos_batch_never(PgosSource *source)
{
	return false;
}

static void
pgos_batch_report(PgosBatch *batch, PgosReject *reject)
{
	reject->url = batch->plan->object->url;
	reject->raw_encoding = batch->encoding;
	batch->counts->rejected++;
	batch->load->events.reject(reject, batch->load->events.arg);
}

/* ---------------------------------------------------------------- records */

static void
pgos_batch_add(PgosBatch *batch, size_t len, int newlines)
{
	PgosRecord *record = &batch->records[batch->count++];

	record->begin = batch->done;
	record->len = len;
	record->first_line = batch->lines + 1;
	record->last_line = record->first_line + newlines;
	batch->lines = record->last_line;
	batch->done += len;
	pgos_splitter_next(batch->splitter);
}

/* More bytes into the buffer, which grows if it is full. */
static void
pgos_batch_read(PgosBatch *batch)
{
	size_t n;

	if (batch->len == batch->size)
	{
		batch->size *= 2;
		batch->buf = repalloc_huge(batch->buf, batch->size);
	}
	CHECK_FOR_INTERRUPTS();
	n = pgos_source_read(batch->source, batch->buf + batch->len, batch->size - batch->len);
	batch->len += n;
	batch->ended = n == 0;
	batch->load->events.tick(batch->counts->loaded, batch->load->events.arg);
}

/* The first line of the record under way, if it has more than one, up to and with its line end; else 0. */
static size_t
pgos_batch_first_line(const PgosBatch *batch)
{
	size_t len = batch->splitter->first_line;

	if (len > 0 && batch->splitter->eol == PGOS_EOL_CRNL && batch->done + len < batch->len &&
		batch->buf[batch->done + len] == '\n')
		len++;
	return len;
}

/* Drops the line that the buffer begins with; what has been looked at of it is not needed any more. */
static void
pgos_batch_drop_line(PgosBatch *batch)
{
	size_t len;
	size_t data_len;

	while (pgos_splitter_scan(batch->splitter, batch->buf, batch->len, batch->ended, &len,
							  &data_len) == PGOS_SPLIT_MORE &&
		   batch->splitter->first_line == 0)
	{
		batch->len -= batch->splitter->scanned;
		memmove(batch->buf, batch->buf + batch->splitter->scanned, batch->len);
		batch->splitter->scanned = 0;
		batch->splitter->cut = true;
		pgos_batch_read(batch);
	}
	if (batch->splitter->first_line > 0)
		len = pgos_batch_first_line(batch);
	batch->len -= len;
	memmove(batch->buf, batch->buf + len, batch->len);
	pgos_splitter_next(batch->splitter);
}

/* The buffer holds nothing but one line, which is longer than allowed: a bad row. */
static void
pgos_batch_too_long(PgosBatch *batch)
{
	PgosReject reject = {0};
	char	  *shown;

	if (!batch->load->spec->skip)
		ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
						errmsg("line " UINT64_FORMAT " of object \"%s\" is longer than %zu bytes",
							   batch->lines + 1, batch->plan->object->url, batch->max_line)));
	reject.raw_len = Min(batch->len, PGOS_BATCH_SHOWN);
	shown = palloc(reject.raw_len);
	memcpy(shown, batch->buf, reject.raw_len);
	pgos_batch_drop_line(batch);
	batch->lines++;
	batch->rows_before++;
	batch->counts->read++;
	reject.line = (int64) batch->lines;
	reject.sqlstate = ERRCODE_PROGRAM_LIMIT_EXCEEDED;
	reject.message = psprintf("line is longer than %zu bytes", batch->max_line);
	reject.detail = "The option \"max_line\" sets the limit.";
	reject.raw = shown;
	pgos_batch_report(batch, &reject);
	pfree(shown);
}

/* What did not fit into the batch is moved to the front, for the next one. */
static void
pgos_batch_next(PgosBatch *batch)
{
	batch->rows_before += batch->count;
	batch->count = 0;
	batch->len -= batch->done;
	memmove(batch->buf, batch->buf + batch->done, batch->len);
	batch->done = 0;
}

/*
 * The record under way has a quote that is never closed, or is longer than allowed: of it the first line is bad,
 * and what follows begins anew.  The line is a batch of its own, as COPY would see a quote go on into the records
 * behind it; nothing is done as long as there are records before it.  len: of the record, 0 if it is not known.
 */
static void
pgos_batch_bad_record(PgosBatch *batch, size_t len)
{
	size_t first_line = pgos_batch_first_line(batch);

	if (first_line > 0)
		len = first_line;
	if (batch->count > 0)
		return;
	if (len > 0 && len <= batch->max_line)
		pgos_batch_add(batch, len, 0);
	else
		pgos_batch_too_long(batch);
}

/* Gathers records until it is enough; false when there are none any more. */
static bool
pgos_batch_fill(PgosBatch *batch)
{
	while (!batch->over && batch->count < PGOS_BATCH_RECORDS && batch->done < PGOS_BATCH_BYTES)
	{
		size_t	  left = batch->len - batch->done;
		size_t	  len = 0;
		size_t	  data_len;
		PgosSplit split = pgos_splitter_scan(batch->splitter, batch->buf + batch->done, left,
											 batch->ended, &len, &data_len);

		if (split == PGOS_SPLIT_OPEN_QUOTE ||
			(split == PGOS_SPLIT_RECORD && len > batch->max_line) ||
			(split == PGOS_SPLIT_MORE && left > batch->max_line))
		{
			pgos_batch_bad_record(batch, split == PGOS_SPLIT_MORE ? 0 : len);
			if (batch->count > 0)
				return true;
			continue;
		}
		switch (split)
		{
			case PGOS_SPLIT_RECORD:
				pgos_batch_add(batch, len, batch->splitter->newlines);
				break;
			case PGOS_SPLIT_MORE:
				if (batch->len == batch->size && batch->count > 0)
					return true;
				pgos_batch_read(batch);
				break;
			case PGOS_SPLIT_MARKER:
				batch->over = true;
				if (len < left || batch->source->avail > 0 || batch->source->fill(batch->source))
					pgos_copy_fail_marker(batch->plan->object->url);
				if (data_len > 0)
					pgos_batch_add(batch, data_len, 0);
				break;
			case PGOS_SPLIT_OPEN_QUOTE:
			case PGOS_SPLIT_END:
				batch->over = true;
				break;
		}
	}
	return batch->count > 0;
}

/* ---------------------------------------------------------------- loading */

/* Loads records lo .. hi - 1 in a subtransaction.  NULL, or the error that undid it. */
static ErrorData *
pgos_batch_attempt(PgosBatch *batch, int lo, int hi)
{
	PgosRecord	 *first = &batch->records[lo];
	PgosRecord	 *last = &batch->records[hi - 1];
	PgosSource	  source = {pgos_batch_never, batch->buf + first->begin,
							last->begin + last->len - first->begin};
	PgosRowsInput input = {&source, first->first_line - 1, batch->rows_before + lo};
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData *volatile error = NULL;
	volatile int64 loaded = 0;

	batch->load->rows_before = batch->counts->loaded;
	batch->load->place.known = false;
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(batch->attempt_context);
	PG_TRY();
	{
		int64 read;

		loaded = pgos_load_rows(batch->load, batch->plan, &input, &read);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		loaded = 0;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	MemoryContextReset(batch->attempt_context);
	batch->counts->loaded += loaded;
	return error;
}

/* Whether it is the row that is bad, and not the server, the relation or the job. */
static bool
pgos_batch_is_bad_row(const PgosBatch *batch, const ErrorData *error)
{
	static const int classes[] = {
		ERRCODE_CONNECTION_EXCEPTION,
		ERRCODE_FEATURE_NOT_SUPPORTED,
		ERRCODE_INVALID_TRANSACTION_STATE,
		ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION,
		ERRCODE_TRANSACTION_ROLLBACK,
		ERRCODE_SYNTAX_ERROR_OR_ACCESS_RULE_VIOLATION,
		ERRCODE_INSUFFICIENT_RESOURCES,
		ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
		ERRCODE_OPERATOR_INTERVENTION,
		ERRCODE_SYSTEM_ERROR,
		ERRCODE_CONFIG_FILE_ERROR,
		ERRCODE_FDW_ERROR,
		ERRCODE_INTERNAL_ERROR,
	};

	/* a policy refuses a row with the same code as a missing privilege */
	if (error->sqlerrcode == ERRCODE_INSUFFICIENT_PRIVILEGE)
		return batch->load->rls && batch->load->place.known;
	for (int i = 0; i < lengthof(classes); i++)
	{
		if (ERRCODE_TO_CATEGORY(error->sqlerrcode) == ERRCODE_TO_CATEGORY(classes[i]))
			return false;
	}
	return true;
}

static void
pgos_batch_reject(PgosBatch *batch, int index, const ErrorData *error, const PgosErrorPlace *place)
{
	const PgosRecord *record = &batch->records[index];
	PgosReject		  reject = {0};

	/* COPY counts the end of a line with an open quote */
	reject.line = (int64) (place->known ? Min(place->line, record->last_line) : record->last_line);
	reject.column = place->column[0] != '\0' ? place->column : error->column_name;
	reject.sqlstate = error->sqlerrcode;
	reject.message = error->message;
	reject.detail = error->detail;
	reject.raw = batch->buf + record->begin;
	reject.raw_len = record->len;
	pgos_batch_report(batch, &reject);
}

/* The record that has the line, or -1. */
static int
pgos_batch_find(const PgosBatch *batch, int lo, int hi, uint64 line)
{
	while (lo < hi)
	{
		int mid = lo + (hi - lo) / 2;

		if (batch->records[mid].last_line < line)
			lo = mid + 1;
		else if (batch->records[mid].first_line > line)
			hi = mid;
		else
			return mid;
	}
	return -1;
}

/* Loads records lo .. hi - 1 and reports the bad ones.  trust: believe what errors say about lines. */
static void
pgos_batch_load_range(PgosBatch *batch, int lo, int hi, bool trust)
{
	/* rows for foreign tables are sent in groups: which one of them was bad is not known */
	bool sure = batch->load->rel->rd_rel->relkind == RELKIND_RELATION;

	while (lo < hi)
	{
		ErrorData	  *error = pgos_batch_attempt(batch, lo, hi);
		PgosErrorPlace place = batch->load->place;
		int			   bad = -1;

		if (error == NULL)
			return;
		if (trust && place.known)
			bad = pgos_batch_find(batch, lo, hi, place.line);
		if (error->sqlerrcode == ERRCODE_CARDINALITY_VIOLATION && bad > lo &&
			batch->load->spec->on_conflict == PGOS_CONFLICT_UPDATE)
		{
			pgos_batch_load_range(batch, lo, bad, true);
			lo = bad;
		}
		else if (!batch->load->spec->skip || !pgos_batch_is_bad_row(batch, error))
			ReThrowError(error);
		else if (hi - lo == 1)
		{
			pgos_batch_reject(batch, lo, error, &place);
			lo = hi;
		}
		else if (bad >= 0)
		{
			int64 rejected = batch->counts->rejected;

			pgos_batch_load_range(batch, lo, bad, false);
			if (sure && batch->counts->rejected == rejected)
				pgos_batch_reject(batch, bad, error, &place);
			else
			{
				rejected = batch->counts->rejected;
				pgos_batch_load_range(batch, bad, bad + 1, false);
				trust = batch->counts->rejected > rejected;
			}
			lo = bad + 1;
		}
		else
		{
			int mid = lo + (hi - lo) / 2;

			pgos_batch_load_range(batch, lo, mid, trust);
			lo = mid;
		}
		FreeErrorData(error);
	}
}

void
pgos_batch_load(PgosLoad *load, PgosPlan *plan, PgosSplitter *splitter, int encoding,
				PgosSource *source, uint64 first_line, PgosLoadCounts *counts)
{
	PgosBatch batch = {0};

	batch.load = load;
	batch.plan = plan;
	batch.splitter = splitter;
	batch.encoding = encoding;
	batch.source = source;
	batch.counts = counts;
	batch.lines = first_line;
	batch.max_line = load->spec->skip ? (size_t) load->spec->max_line : MaxAllocSize - 1;
	batch.size = PGOS_BATCH_BYTES + PGOS_BATCH_BYTES / 8;
	batch.buf = palloc_extended(batch.size, MCXT_ALLOC_HUGE);
	batch.records = palloc(PGOS_BATCH_RECORDS * sizeof(PgosRecord));
	batch.attempt_context =
		AllocSetContextCreate(CurrentMemoryContext, "pgobjstore batch", ALLOCSET_DEFAULT_SIZES);
	while (pgos_batch_fill(&batch))
	{
		plan->eol = splitter->eol;
		pgos_batch_load_range(&batch, 0, batch.count, true);
		counts->read += batch.count;
		pgos_batch_next(&batch);
	}
	MemoryContextDelete(batch.attempt_context);
	pfree(batch.records);
	pfree(batch.buf);
}
