/*
 * job_table.c
 *		The durable rows of jobs, through SPI.
 *
 * Statements are prepared once in a process and kept; they name the tables by the extension's schema, so a
 * plan is dropped when the extension has come back in another one.
 * Runs in backends and workers; raises.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "extension.h"
#include "job/job_table.h"
#include "job/job_table_internal.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

void
pgos_job_begin_bookkeeping(void)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	XactReadOnly = false;
	XactIsoLevel = XACT_READ_COMMITTED;
	XactDeferrable = false;
	(void) set_config_option("synchronous_commit", "off", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_LOCAL, true, 0, false);
}

bool
pgos_job_tables_exist(void)
{
	Oid schema;
	Oid owner;

	return pgos_extension_lookup(&schema, &owner);
}

void
pgos_table_enter(PgosTableState *state)
{
	if (!pgos_extension_lookup(&state->schema, &state->owner))
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
						errmsg("extension \"pgobjstore\" does not exist in this database"),
						errhint("Run CREATE EXTENSION pgobjstore.")));
	state->guc_level = NewGUCNestLevel();
	(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	GetUserIdAndSecContext(&state->saved_user, &state->saved_context);
	SetUserIdAndSecContext(state->owner, state->saved_context | SECURITY_LOCAL_USERID_CHANGE);
	/* plans that stay are revalidated under a snapshot, and a worker has none of its own */
	PushActiveSnapshot(GetTransactionSnapshot());
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
}

void
pgos_table_leave(PgosTableState *state)
{
	SPI_finish();
	PopActiveSnapshot();
	SetUserIdAndSecContext(state->saved_user, state->saved_context);
	AtEOXact_GUC(true, state->guc_level);
}

/* The statement with every %s replaced by the schema, quoted. */
static char *
pgos_statement_text(const char *sql, Oid schema)
{
	const char	  *name = quote_identifier(get_namespace_name(schema));
	StringInfoData buf;

	initStringInfo(&buf);
	for (; *sql != '\0'; sql++)
	{
		if (sql[0] == '%' && sql[1] == 's')
		{
			appendStringInfoString(&buf, name);
			sql++;
		}
		else
			appendStringInfoChar(&buf, *sql);
	}
	return buf.data;
}

int
pgos_table_execute(PgosTableState *state, PgosStatement *statement, Datum *values,
				   const char *nulls, int expected)
{
	int rc;

	if (statement->plan == NULL || statement->schema != state->schema)
	{
		SPIPlanPtr plan = SPI_prepare(pgos_statement_text(statement->sql, state->schema),
									  statement->nargs, statement->types);

		if (plan == NULL || SPI_keepplan(plan) != 0)
			elog(ERROR, "could not prepare a statement on the job tables: %s",
				 SPI_result_code_string(SPI_result));
		if (statement->plan != NULL)
			SPI_freeplan(statement->plan);
		statement->plan = plan;
		statement->schema = state->schema;
	}
	rc = SPI_execute_plan(statement->plan, values, nulls, false, 0);
	if (rc != expected)
		elog(ERROR, "unexpected result of a statement on the job tables: %s",
			 SPI_result_code_string(rc));
	return (int) SPI_processed;
}

Datum
pgos_text_or_null(const char *text, char *null)
{
	*null = text == NULL ? 'n' : ' ';
	return text == NULL ? (Datum) 0 : CStringGetTextDatum(text);
}

int64
pgos_job_next_id(void)
{
	static PgosStatement statement = {"SELECT nextval('%s.objstore_job_id_seq')", 0, {0}};
	PgosTableState		 state;
	bool				 isnull;
	int64				 id;

	pgos_table_enter(&state);
	(void) pgos_table_execute(&state, &statement, NULL, NULL, SPI_OK_SELECT);
	id = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
	pgos_table_leave(&state);
	return id;
}

void
pgos_job_insert(const PgosJob *job)
{
	static PgosStatement statement = {
		"INSERT INTO %s.objstore_job (job_id, kind, relation, relid, server, serverid, path, "
		"owner, "
		"enqueued_at, spec) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
		10,
		{INT8OID, TEXTOID, TEXTOID, OIDOID, NAMEOID, OIDOID, TEXTOID, OIDOID, TIMESTAMPTZOID,
		 JSONBOID}};
	PgosTableState state;
	Datum		   values[10];
	char		   nulls[10];
	NameData	   server;

	memset(nulls, ' ', sizeof(nulls));
	namestrcpy(&server, job->server);
	values[0] = Int64GetDatum(job->job_id);
	values[1] = CStringGetTextDatum(pgos_job_kind_name(job->kind));
	values[2] = CStringGetTextDatum(job->relation);
	values[3] = ObjectIdGetDatum(job->relid);
	values[4] = NameGetDatum(&server);
	values[5] = ObjectIdGetDatum(job->serverid);
	values[6] = pgos_text_or_null(job->path, &nulls[6]);
	values[7] = ObjectIdGetDatum(job->owner);
	values[8] = TimestampTzGetDatum(job->enqueued_at);
	values[9] = JsonbPGetDatum(job->spec_json);
	pgos_table_enter(&state);
	(void) pgos_table_execute(&state, &statement, values, nulls, SPI_OK_INSERT);
	pgos_table_leave(&state);
}

/* Column `attno` of the first row as text in the context; NULL for null. */
static char *
pgos_row_text(int attno, MemoryContext context)
{
	bool  isnull;
	Datum value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, attno, &isnull);

	return isnull ? NULL : MemoryContextStrdup(context, TextDatumGetCString(value));
}

#define PGOS_JOB_COLUMNS                                                                          \
	"job_id, kind, relation, relid, server::text, serverid, path, owner, enqueued_at, attempts, " \
	"spec"

/* The first row of the result, which has PGOS_JOB_COLUMNS. */
static void
pgos_job_from_row(MemoryContext context, PgosJob *job)
{
	HeapTuple	  tuple = SPI_tuptable->vals[0];
	TupleDesc	  desc = SPI_tuptable->tupdesc;
	bool		  isnull;
	MemoryContext old;
	Jsonb		 *spec;

	memset(job, 0, sizeof(PgosJob));
	job->job_id = DatumGetInt64(SPI_getbinval(tuple, desc, 1, &isnull));
	job->kind = pgos_job_kind_parse(pgos_row_text(2, context));
	job->relation = pgos_row_text(3, context);
	job->relid = DatumGetObjectId(SPI_getbinval(tuple, desc, 4, &isnull));
	job->server = pgos_row_text(5, context);
	job->serverid = DatumGetObjectId(SPI_getbinval(tuple, desc, 6, &isnull));
	job->path = pgos_row_text(7, context);
	job->owner = DatumGetObjectId(SPI_getbinval(tuple, desc, 8, &isnull));
	job->enqueued_at = DatumGetTimestampTz(SPI_getbinval(tuple, desc, 9, &isnull));
	job->attempts = DatumGetInt32(SPI_getbinval(tuple, desc, 10, &isnull));
	spec = DatumGetJsonbP(SPI_getbinval(tuple, desc, 11, &isnull));
	old = MemoryContextSwitchTo(context);
	job->spec_json = (Jsonb *) palloc(VARSIZE(spec));
	memcpy(job->spec_json, spec, VARSIZE(spec));
	MemoryContextSwitchTo(old);
}

bool
pgos_job_claim(Oid owner, MemoryContext context, PgosJob *job)
{
	static PgosStatement statement = {
		"UPDATE %s.objstore_job SET state = 'running', started_at = clock_timestamp(), "
		"attempts = attempts + 1 WHERE job_id = (SELECT job_id FROM %s.objstore_job "
		"WHERE state = 'queued' AND owner = $1 ORDER BY job_id LIMIT 1 FOR UPDATE SKIP LOCKED) "
		"RETURNING " PGOS_JOB_COLUMNS,
		1,
		{OIDOID}};
	PgosTableState state;
	Datum		   values[1] = {ObjectIdGetDatum(owner)};
	bool		   found;

	pgos_table_enter(&state);
	found = pgos_table_execute(&state, &statement, values, NULL, SPI_OK_UPDATE_RETURNING) > 0;
	if (found)
		pgos_job_from_row(context, job);
	pgos_table_leave(&state);
	return found;
}

void
pgos_job_get(int64 job_id, MemoryContext context, PgosJob *job)
{
	static PgosStatement statement = {
		"SELECT " PGOS_JOB_COLUMNS " FROM %s.objstore_job WHERE job_id = $1 AND state = 'running'",
		1,
		{INT8OID}};
	PgosTableState state;
	Datum		   values[1] = {Int64GetDatum(job_id)};

	pgos_table_enter(&state);
	if (pgos_table_execute(&state, &statement, values, NULL, SPI_OK_SELECT) != 1)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
						errmsg("job " INT64_FORMAT " is not running", job_id)));
	pgos_job_from_row(context, job);
	pgos_table_leave(&state);
}

static void
pgos_job_insert_objects(PgosTableState *state, const PgosJob *job, List *objects)
{
	static PgosStatement statement = {
		"INSERT INTO %s.objstore_object (job_id, number, url, bytes, rows, raw_bytes, crc32c, "
		"etag, "
		"parts) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
		9,
		{INT8OID, INT4OID, TEXTOID, INT8OID, INT8OID, INT8OID, TEXTOID, TEXTOID, INT4OID}};
	int		  number = 0;
	ListCell *lc;

	foreach (lc, objects)
	{
		PgosJobObject *object = lfirst(lc);
		Datum		   values[9];
		char		   nulls[9];

		memset(nulls, ' ', sizeof(nulls));
		values[0] = Int64GetDatum(job->job_id);
		values[1] = Int32GetDatum(number++);
		values[2] = CStringGetTextDatum(object->url);
		values[3] = Int64GetDatum(object->bytes);
		values[4] = Int64GetDatum(object->rows);
		nulls[4] = object->rows < 0 ? 'n' : ' ';
		values[5] = Int64GetDatum(object->raw_bytes);
		nulls[5] = object->raw_bytes < 0 ? 'n' : ' ';
		values[6] =
			pgos_text_or_null(object->has_crc ? psprintf("%08x", object->crc) : NULL, &nulls[6]);
		values[7] = pgos_text_or_null(object->etag, &nulls[7]);
		values[8] = Int32GetDatum(object->parts);
		(void) pgos_table_execute(state, &statement, values, nulls, SPI_OK_INSERT);
	}
}

void
pgos_job_finish(const PgosJob *job, const PgosJobResult *result)
{
	static PgosStatement statement = {
		"UPDATE %s.objstore_job SET state = 'done', finished_at = clock_timestamp(), path = $2, "
		"rows = $3, raw_bytes = $4, stored_bytes = $5, objects = $6, parts = $7, note = $8, engine "
		"= $9, "
		"rejects = $10, relid = CASE WHEN $11 = 0 THEN relid ELSE $11 END, "
		"sqlstate = NULL, message = NULL, detail = NULL, hint = NULL, request_id = NULL "
		"WHERE job_id = $1 AND state = 'running' AND attempts = $12",
		12,
		{INT8OID, TEXTOID, INT8OID, INT8OID, INT8OID, INT4OID, INT4OID, TEXTOID, TEXTOID, INT8OID,
		 OIDOID, INT4OID}};
	PgosTableState state;
	Datum		   values[12];
	char		   nulls[12];

	memset(nulls, ' ', sizeof(nulls));
	values[0] = Int64GetDatum(job->job_id);
	values[1] = pgos_text_or_null(result->path ? result->path : job->path, &nulls[1]);
	values[2] = Int64GetDatum(result->rows);
	values[3] = Int64GetDatum(result->raw_bytes);
	values[4] = Int64GetDatum(result->stored_bytes);
	values[5] = Int32GetDatum(list_length(result->objects));
	values[6] = Int32GetDatum(result->parts);
	values[7] = pgos_text_or_null(result->note, &nulls[7]);
	values[8] = pgos_text_or_null(result->engine, &nulls[8]);
	values[9] = Int64GetDatum(result->rejects);
	nulls[9] = result->rejects < 0 || !OidIsValid(result->relid) ? 'n' : ' ';
	values[10] = ObjectIdGetDatum(result->relid);
	values[11] = Int32GetDatum(job->attempts);
	pgos_table_enter(&state);
	/* whatever has gone wrong, rows and success are committed by the attempt that has the job */
	if (pgos_table_execute(&state, &statement, values, nulls, SPI_OK_UPDATE) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("job " INT64_FORMAT " is not that of this worker any more", job->job_id),
				 errdetail("Its row was deleted, or put back into the queue.")));
	pgos_job_insert_objects(&state, job, result->objects);
	pgos_table_leave(&state);
}

void
pgos_job_fail(const PgosJob *job, bool cancelled, const ErrorData *error, const char *request_id)
{
	static PgosStatement statement = {
		"UPDATE %s.objstore_job SET state = $2, finished_at = clock_timestamp(), sqlstate = $3, "
		"message = $4, detail = $5, hint = $6, request_id = $7 "
		"WHERE job_id = $1 AND state = 'running' AND attempts = $8",
		8,
		{INT8OID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, INT4OID}};
	PgosTableState state;
	Datum		   values[8];
	char		   nulls[8];
	char		  *detail = error->detail;

	/* where in the data it happened is in COPY's context line */
	if (error->context != NULL)
		detail = detail == NULL ? error->context : psprintf("%s\n%s", detail, error->context);
	memset(nulls, ' ', sizeof(nulls));
	values[0] = Int64GetDatum(job->job_id);
	values[1] = CStringGetTextDatum(cancelled ? "cancelled" : "failed");
	values[2] = CStringGetTextDatum(unpack_sql_state(error->sqlerrcode));
	values[3] = pgos_text_or_null(error->message, &nulls[3]);
	values[4] = pgos_text_or_null(detail, &nulls[4]);
	values[5] = pgos_text_or_null(error->hint, &nulls[5]);
	values[6] = pgos_text_or_null(request_id, &nulls[6]);
	values[7] = Int32GetDatum(job->attempts);
	pgos_table_enter(&state);
	(void) pgos_table_execute(&state, &statement, values, nulls, SPI_OK_UPDATE);
	pgos_table_leave(&state);
}

bool
pgos_job_cancel_waiting(int64 job_id)
{
	static PgosStatement statement = {
		"UPDATE %s.objstore_job SET state = 'cancelled', finished_at = clock_timestamp(), "
		"sqlstate = '57014', message = 'canceled by objstore_cancel before it began' "
		"WHERE job_id = $1 AND state = 'queued'",
		1,
		{INT8OID}};
	PgosTableState state;
	Datum		   values[1] = {Int64GetDatum(job_id)};
	bool		   cancelled;

	pgos_table_enter(&state);
	cancelled = pgos_table_execute(&state, &statement, values, NULL, SPI_OK_UPDATE) > 0;
	pgos_table_leave(&state);
	return cancelled;
}

bool
pgos_job_look(int64 job_id, Oid *owner, char **state_name)
{
	static PgosStatement statement = {
		"SELECT owner, state FROM %s.objstore_job WHERE job_id = $1", 1, {INT8OID}};
	PgosTableState state;
	Datum		   values[1] = {Int64GetDatum(job_id)};
	MemoryContext  context = CurrentMemoryContext;
	Snapshot	   snapshot;
	bool		   isnull;
	bool		   found;

	pgos_table_enter(&state);
	if (statement.plan == NULL || statement.schema != state.schema)
		(void) pgos_table_execute(&state, &statement, values, NULL, SPI_OK_SELECT);
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	if (SPI_execute_snapshot(statement.plan, values, NULL, snapshot, InvalidSnapshot, true, false,
							 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read the job tables");
	UnregisterSnapshot(snapshot);
	found = SPI_processed > 0;
	if (found)
	{
		*owner = DatumGetObjectId(
			SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
		*state_name = pgos_row_text(2, context);
	}
	pgos_table_leave(&state);
	return found;
}

void
pgos_job_requeue_orphans(bool (*is_running)(int64 job_id))
{
	static PgosStatement abandoned = {
		"UPDATE %s.objstore_job SET state = 'failed', finished_at = clock_timestamp(), "
		"sqlstate = '42704', message = 'the role of the job was dropped' "
		"WHERE state = 'queued' AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = owner)",
		0,
		{0}};
	static PgosStatement list = {
		"SELECT job_id FROM %s.objstore_job WHERE state = 'running' FOR UPDATE SKIP LOCKED",
		0,
		{0}};
	static PgosStatement requeue = {
		"UPDATE %s.objstore_job SET state = 'queued' WHERE job_id = $1 AND state = 'running'",
		1,
		{INT8OID}};
	PgosTableState state;
	int			   count;
	SPITupleTable *table;

	pgos_table_enter(&state);
	count = pgos_table_execute(&state, &list, NULL, NULL, SPI_OK_SELECT);
	table = SPI_tuptable;
	for (int i = 0; i < count; i++)
	{
		bool  isnull;
		Datum id = SPI_getbinval(table->vals[i], table->tupdesc, 1, &isnull);

		if (!is_running(DatumGetInt64(id)))
			(void) pgos_table_execute(&state, &requeue, &id, NULL, SPI_OK_UPDATE);
	}
	/* nobody can run these any more */
	(void) pgos_table_execute(&state, &abandoned, NULL, NULL, SPI_OK_UPDATE);
	pgos_table_leave(&state);
}

void
pgos_job_each_waiting(void (*callback)(Oid owner, int64 jobs))
{
	static PgosStatement statement = {
		"SELECT owner, count(*) FROM %s.objstore_job WHERE state = 'queued' GROUP BY owner "
		"ORDER BY min(job_id)",
		0,
		{0}};
	PgosTableState state;
	int			   count;

	pgos_table_enter(&state);
	count = pgos_table_execute(&state, &statement, NULL, NULL, SPI_OK_SELECT);
	for (int i = 0; i < count; i++)
	{
		HeapTuple tuple = SPI_tuptable->vals[i];
		bool	  isnull;

		callback(DatumGetObjectId(SPI_getbinval(tuple, SPI_tuptable->tupdesc, 1, &isnull)),
				 DatumGetInt64(SPI_getbinval(tuple, SPI_tuptable->tupdesc, 2, &isnull)));
	}
	pgos_table_leave(&state);
}

Datum
pgos_job_view_row(int64 job_id, Oid function_oid)
{
	Oid			  schema = get_func_namespace(function_oid);
	Oid			  types[1] = {INT8OID};
	Datum		  values[1] = {Int64GetDatum(job_id)};
	SPIPlanPtr	  plan;
	Snapshot	  snapshot;
	Datum		  row;
	bool		  isnull;
	MemoryContext context = CurrentMemoryContext;

	SPI_connect();
	plan = SPI_prepare(psprintf("SELECT j FROM %s.objstore_jobs j WHERE j.job_id "
								"OPERATOR(pg_catalog.=) $1",
								quote_identifier(get_namespace_name(schema))),
					   1, types);
	if (plan == NULL)
		elog(ERROR, "could not prepare a query of objstore_jobs");
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	if (SPI_execute_snapshot(plan, values, NULL, snapshot, InvalidSnapshot, true, false, 1) !=
			SPI_OK_SELECT ||
		SPI_processed != 1)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
						errmsg("job " INT64_FORMAT " does not exist", job_id)));
	UnregisterSnapshot(snapshot);
	row = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);
	{
		MemoryContext old = MemoryContextSwitchTo(context);

		row = PointerGetDatum(PG_DETOAST_DATUM_COPY(row));
		MemoryContextSwitchTo(old);
	}
	SPI_finish();
	return row;
}
