/*
 * job_table_pull.c
 *		What pulls keep in the tables of the extension: rows left out, objects loaded.
 *
 * Runs in workers; raises.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "job/job_table_internal.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

void
pgos_job_insert_rejects(const PgosJob *job, List *rejects)
{
	static PgosStatement statement = {
		"INSERT INTO %s.objstore_reject (job_id, number, url, line, column_name, sqlstate, "
		"message, "
		"detail, raw_line) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
		9,
		{INT8OID, INT8OID, TEXTOID, INT8OID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID}};
	PgosTableState state;
	ListCell	  *lc;

	pgos_table_enter(&state);
	foreach (lc, rejects)
	{
		PgosRejectRow *row = lfirst(lc);
		Datum		   values[9];
		char		   nulls[9];

		memset(nulls, ' ', sizeof(nulls));
		values[0] = Int64GetDatum(job->job_id);
		values[1] = Int64GetDatum(row->number);
		values[2] = CStringGetTextDatum(row->url);
		values[3] = Int64GetDatum(row->line);
		values[4] = pgos_text_or_null(row->column, &nulls[4]);
		values[5] = CStringGetTextDatum(unpack_sql_state(row->sqlstate));
		values[6] = CStringGetTextDatum(row->message);
		values[7] = pgos_text_or_null(row->detail, &nulls[7]);
		values[8] = CStringGetTextDatum(row->raw_line);
		(void) pgos_table_execute(&state, &statement, values, nulls, SPI_OK_INSERT);
	}
	pgos_table_leave(&state);
}

List *
pgos_job_not_loaded(Oid relid, List *objects)
{
	static PgosStatement statement = {
		"SELECT n.position FROM ROWS FROM (unnest($2), unnest($3)) WITH ORDINALITY AS n(url, etag, "
		"position) "
		"WHERE NOT EXISTS (SELECT FROM %s.objstore_object o JOIN %s.objstore_job j ON j.job_id = "
		"o.job_id "
		"WHERE o.url = n.url AND o.etag = n.etag AND j.relid = $1 AND j.kind = 'pull' "
		"AND j.state = 'done') ORDER BY n.position",
		3,
		{OIDOID, TEXTARRAYOID, TEXTARRAYOID}};
	PgosTableState state;
	MemoryContext  context = CurrentMemoryContext;
	MemoryContext  old;
	int			   size = list_length(objects);
	Datum		  *urls = palloc(Max(size, 1) * sizeof(Datum));
	Datum		  *etags = palloc(Max(size, 1) * sizeof(Datum));
	Datum		   values[3];
	List		  *result = NIL;
	int			   count;
	int			   i = 0;
	ListCell	  *lc;

	foreach (lc, objects)
	{
		PgosJobObject *object = lfirst(lc);

		urls[i] = CStringGetTextDatum(object->url);
		etags[i++] = CStringGetTextDatum(object->etag);
	}
	values[0] = ObjectIdGetDatum(relid);
	values[1] = PointerGetDatum(construct_array(urls, size, TEXTOID, -1, false, TYPALIGN_INT));
	values[2] = PointerGetDatum(construct_array(etags, size, TEXTOID, -1, false, TYPALIGN_INT));
	pgos_table_enter(&state);
	count = pgos_table_execute(&state, &statement, values, NULL, SPI_OK_SELECT);
	old = MemoryContextSwitchTo(context);
	for (i = 0; i < count; i++)
	{
		bool  isnull;
		int64 position =
			DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &isnull));

		result = lappend(result, list_nth(objects, (int) position - 1));
	}
	MemoryContextSwitchTo(old);
	pgos_table_leave(&state);
	return result;
}
