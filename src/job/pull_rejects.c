/*
 * pull_rejects.c
 *		Rows that a pull leaves out: kept for a while, written in groups, counted against the limit.
 *
 * They are written in the transaction of the rows, so they are there if and only if the job is done.  A job that
 * fails because there are too many says in its error which the first ones were.
 *
 * Runs in a worker; raises.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "job/job_table.h"
#include "job/pull_internal.h"
#include "mb/pg_wchar.h"
#include "utils/memutils.h"

/* Kept of a line, and held before they are written. */
#define PGOS_REJECT_RAW_BYTES (8 * 1024)
#define PGOS_REJECT_HELD_ROWS 1000
#define PGOS_REJECT_HELD_BYTES (1024 * 1024)
/* Shown when there are too many. */
#define PGOS_REJECT_SHOWN_ROWS 3

/* Bytes that are no text of the encoding, and control characters, as \xNN. */
static char *
pgos_reject_escape(const char *raw, size_t len)
{
	StringInfoData out;

	initStringInfo(&out);
	for (size_t i = 0; i < len; i++)
	{
		if (IS_HIGHBIT_SET(raw[i]) || raw[i] == '\0')
			appendStringInfo(&out, "\\x%02x", (unsigned char) raw[i]);
		else
			appendStringInfoChar(&out, raw[i]);
	}
	return out.data;
}

/* The text in the server's encoding; NULL if it is none. */
static char *
pgos_reject_convert(const char *raw, size_t len, int encoding)
{
	int	   server = GetDatabaseEncoding();
	size_t size = len * MAX_CONVERSION_GROWTH + 1;
	char  *result;
	Oid	   procedure;
	int	   done;

	if (memchr(raw, '\0', len) != NULL)
		return NULL;
	if (server == PG_SQL_ASCII)
		return pnstrdup(raw, len);
	if (encoding == PG_SQL_ASCII)
		encoding = server;
	if (pg_encoding_verifymbstr(encoding, raw, (int) len) != (int) len)
		return NULL;
	if (encoding == server)
		return pnstrdup(raw, len);
	procedure = FindDefaultConversionProc(encoding, server);
	if (!OidIsValid(procedure))
		return NULL;
	result = palloc0(size);
	done = pg_do_encoding_conversion_buf(procedure, encoding, server, (unsigned char *) raw,
										 (int) len, (unsigned char *) result, (int) size, true);
	return done == (int) len ? result : NULL;
}

/* What is kept of a line: without its end, at most PGOS_REJECT_RAW_BYTES of it, always text. */
static char *
pgos_reject_raw_line(const PgosReject *reject)
{
	size_t len = reject->raw_len;
	size_t cut;
	char  *text;

	while (len > 0 && (reject->raw[len - 1] == '\n' || reject->raw[len - 1] == '\r'))
		len--;
	cut = Min(len, PGOS_REJECT_RAW_BYTES);
	text = pgos_reject_convert(reject->raw, cut, reject->raw_encoding);
	/* in the middle of a character? */
	for (int i = 1; text == NULL && cut < len && i < MAX_MULTIBYTE_CHAR_LEN && cut > (size_t) i;
		 i++)
		text = pgos_reject_convert(reject->raw, cut - i, reject->raw_encoding);
	if (text == NULL)
		text = pgos_reject_escape(reject->raw, cut);
	return cut < len ? psprintf("%s...", text) : text;
}

static void
pgos_pull_rejects_write(PgosPull *pull)
{
	if (pull->reject_rows == NIL)
		return;
	pgos_job_insert_rejects(pull->job, pull->reject_rows);
	pull->reject_rows = NIL;
	pull->reject_bytes = 0;
	MemoryContextReset(pull->reject_context);
}

static void
pgos_pull_too_many(PgosPull *pull, const char *limit)
{
	ereport(
		ERROR,
		(errcode(ERRCODE_DATA_EXCEPTION),
		 errmsg("too many bad rows: " INT64_FORMAT ", and the limit is %s", pull->rejects, limit),
		 errdetail("%s", pull->first_rejects->data),
		 errhint("Correct the objects, or allow more: options => '{\"reject_limit\": ...}'.")));
}

void
pgos_pull_reject(const PgosReject *reject, void *arg)
{
	PgosPull	  *pull = arg;
	PgosRejectRow *row;
	MemoryContext  old;

	if (pull->reject_context == NULL)
	{
		pull->reject_context =
			AllocSetContextCreate(pull->run->context, "pgobjstore rejects", ALLOCSET_DEFAULT_SIZES);
		old = MemoryContextSwitchTo(pull->run->context);
		pull->first_rejects = makeStringInfo();
		MemoryContextSwitchTo(old);
	}
	old = MemoryContextSwitchTo(pull->reject_context);
	row = palloc0(sizeof(PgosRejectRow));
	row->number = pull->rejects++;
	row->url = pstrdup(reject->url);
	row->line = reject->line;
	row->column = reject->column != NULL ? pstrdup(reject->column) : NULL;
	row->sqlstate = reject->sqlstate;
	row->message = pstrdup(reject->message);
	row->detail = reject->detail != NULL ? pstrdup(reject->detail) : NULL;
	row->raw_line = pgos_reject_raw_line(reject);
	pull->reject_rows = lappend(pull->reject_rows, row);
	MemoryContextSwitchTo(old);
	pull->reject_bytes += strlen(row->raw_line) + strlen(row->message);

	if (pull->rejects <= PGOS_REJECT_SHOWN_ROWS)
		appendStringInfo(pull->first_rejects, "%sobject \"%s\", line " INT64_FORMAT "%s%s: %s",
						 pull->rejects > 1 ? "\n" : "", row->url, row->line,
						 row->column != NULL ? ", column " : "",
						 row->column != NULL ? row->column : "", row->message);
	if (pull->spec->reject_limit >= 0 && pull->rejects > pull->spec->reject_limit)
		pgos_pull_too_many(pull, psprintf(INT64_FORMAT, pull->spec->reject_limit));
	if (list_length(pull->reject_rows) >= PGOS_REJECT_HELD_ROWS ||
		pull->reject_bytes >= PGOS_REJECT_HELD_BYTES)
		pgos_pull_rejects_write(pull);
}

void
pgos_pull_rejects_finish(PgosPull *pull)
{
	if (pull->spec->reject_percent >= 0 &&
		(double) pull->rejects * 100 > pull->spec->reject_percent * (double) pull->rows_read)
		pgos_pull_too_many(pull, psprintf("%g%% of " INT64_FORMAT " rows",
										  pull->spec->reject_percent, pull->rows_read));
	pgos_pull_rejects_write(pull);
}
