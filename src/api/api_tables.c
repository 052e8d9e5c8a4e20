/*
 * api_tables.c
 *		objstore_push_tables and objstore_pull_tables: many relations in one job.
 *
 * Runs in the caller's backend and transaction; raises.
 */
#include "postgres.h"

#include "api/api_check.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "core/key.h"
#include "core/utc.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "job/job_table.h"
#include "job/run.h"
#include "job/shmem.h"
#include "job/spec.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "utils/varlena.h"

enum
{
	PUSH_RELATIONS,
	PUSH_SERVER,
	PUSH_PATH,
	PUSH_SCHEMA,
	PUSH_PATTERN,
	PUSH_FORMAT,
	PUSH_COMPRESSION,
	PUSH_LAYOUT,
	PUSH_IF_EXISTS,
	PUSH_OPTIONS
};

enum
{
	PULL_PATH,
	PULL_SERVER,
	PULL_TABLES,
	PULL_MODE,
	PULL_PARALLEL,
	PULL_OPTIONS
};

/* The relations of an array of regclass, each once, in order. */
static List *
pgos_tables_of_array(ArrayType *array)
{
	List  *relids = NIL;
	Datum *elements;
	bool  *nulls;
	int	   count;

	deconstruct_array(array, REGCLASSOID, sizeof(Oid), true, TYPALIGN_INT, &elements, &nulls,
					  &count);
	for (int i = 0; i < count; i++)
	{
		if (nulls[i])
			ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
							errmsg("argument \"relations\" must not contain nulls")));
		relids = list_append_unique_oid(relids, DatumGetObjectId(elements[i]));
	}
	return relids;
}

/*
 * Tables and partitioned tables (not partitions, not what belongs to an extension) of the schema whose names are
 * LIKE the pattern, either may be NULL.
 */
static List *
pgos_tables_by_name(const char *schema, const char *pattern)
{
	static const char *sql =
		"SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n "
		"ON n.oid OPERATOR(pg_catalog.=) c.relnamespace "
		"WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition "
		"AND c.relpersistence OPERATOR(pg_catalog.<>) 't' "
		"AND ($1 IS NULL OR n.nspname OPERATOR(pg_catalog.=) $1::pg_catalog.name) "
		"AND n.nspname OPERATOR(pg_catalog.!~~) 'pg\\_%' "
		"AND n.nspname OPERATOR(pg_catalog.<>) 'information_schema' "
		"AND ($2 IS NULL OR c.relname OPERATOR(pg_catalog.~~) $2) "
		"AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d "
		"WHERE d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass "
		"AND d.objid OPERATOR(pg_catalog.=) c.oid AND d.deptype OPERATOR(pg_catalog.=) 'e') "
		"ORDER BY n.nspname, c.relname";
	Oid			  types[2] = {TEXTOID, TEXTOID};
	Datum		  values[2] = {0, 0};
	char		  nulls[2] = {'n', 'n'};
	List		 *relids = NIL;
	MemoryContext context = CurrentMemoryContext;

	if (schema != NULL)
	{
		(void) get_namespace_oid(schema, false);
		values[0] = CStringGetTextDatum(schema);
		nulls[0] = ' ';
	}
	if (pattern != NULL)
	{
		values[1] = CStringGetTextDatum(pattern);
		nulls[1] = ' ';
	}
	SPI_connect();
	if (SPI_execute_with_args(sql, 2, types, values, nulls, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not list the tables");
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		bool isnull;
		Oid	 relid = DatumGetObjectId(
			 SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &isnull));
		MemoryContext old = MemoryContextSwitchTo(context);

		relids = lappend_oid(relids, relid);
		MemoryContextSwitchTo(old);
	}
	SPI_finish();
	return relids;
}

/* What can be pushed, may be read, is not temporary; returns its qualified name. */
static char *
pgos_tables_check(Oid relid)
{
	char *table = get_rel_name(relid);
	char  relkind = get_rel_relkind(relid);

	if (table == NULL)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
						errmsg("relation with OID %u does not exist", relid)));
	if (relkind != RELKIND_RELATION && relkind != RELKIND_PARTITIONED_TABLE &&
		relkind != RELKIND_VIEW && relkind != RELKIND_MATVIEW && relkind != RELKIND_FOREIGN_TABLE)
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE), errmsg("cannot push \"%s\"", table),
						errdetail("It is no table, partitioned table, view, materialized view or "
								  "foreign table.")));
	pgos_check_not_temporary(relid);
	pgos_check_select(relid, NIL);
	return pgos_qualified_name(get_namespace_name(get_rel_namespace(relid)), table);
}

PG_FUNCTION_INFO_V1(objstore_push_tables);

Datum
objstore_push_tables(PG_FUNCTION_ARGS)
{
	PgosSpecWords  words = {0};
	PgosJob		   job = {0};
	ForeignServer *server;
	ListCell	  *lc;

	pgos_check_can_enqueue("objstore_push_tables()");
	job.kind = PGOS_JOB_PUSH_TABLES;
	words.format = pgos_arg_word(fcinfo, PUSH_FORMAT, "format");
	words.compression = pgos_arg_word(fcinfo, PUSH_COMPRESSION, "compression");
	words.layout = pgos_arg_word(fcinfo, PUSH_LAYOUT, "layout");
	words.if_exists = pgos_arg_word(fcinfo, PUSH_IF_EXISTS, "if_exists");
	words.options = PG_ARGISNULL(PUSH_OPTIONS) ? NULL : PG_GETARG_JSONB_P(PUSH_OPTIONS);
	(void) pgos_spec_parse(PGOS_JOB_PUSH_TABLES, &words);

	if (PG_ARGISNULL(PUSH_RELATIONS) == (PG_ARGISNULL(PUSH_SCHEMA) && PG_ARGISNULL(PUSH_PATTERN)))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("either relations or schema and pattern must be given"),
						errhint("For example: objstore_push_tables(schema => 'public'), or "
								"objstore_push_tables('{orders,customers}').")));
	if (!PG_ARGISNULL(PUSH_RELATIONS))
		words.relids = pgos_tables_of_array(PG_GETARG_ARRAYTYPE_P(PUSH_RELATIONS));
	else
		words.relids = pgos_tables_by_name(
			PG_ARGISNULL(PUSH_SCHEMA) ? NULL : NameStr(*PG_GETARG_NAME(PUSH_SCHEMA)),
			pgos_arg_text(fcinfo, PUSH_PATTERN));
	if (words.relids == NIL)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("no tables to push"),
						errdetail("Nothing matches schema and pattern, or the array is empty.")));
	foreach (lc, words.relids)
		words.relations = lappend(words.relations, pgos_tables_check(lfirst_oid(lc)));
	server = pgos_check_server(fcinfo, PUSH_SERVER);
	pgos_check_role();

	job.job_id = pgos_job_next_id();
	job.relation = list_length(words.relations) == 1
					   ? linitial(words.relations)
					   : psprintf("%d tables", list_length(words.relations));
	job.server = server->servername;
	job.serverid = server->serverid;
	job.owner = GetUserId();
	job.enqueued_at = GetCurrentTimestamp();
	if (PG_ARGISNULL(PUSH_PATH))
	{
		StringInfoData key;
		char		   stamp[PGOS_UTC_SIZE];

		initStringInfo(&key);
		pgos_key_component(&key, pgos_text_to_utf8(get_database_name(MyDatabaseId)));
		pgos_utc_format(timestamptz_to_time_t(job.enqueued_at), stamp);
		appendStringInfo(&key, "/tables/%s-" INT64_FORMAT "/", stamp, job.job_id);
		job.path = pgos_text_from_utf8(key.data, key.len);
		words.own_folder = "true";
	}
	else
	{
		job.path = pgos_arg_text(fcinfo, PUSH_PATH);
		pgos_check_path(job.path);
		if (job.path[strlen(job.path) - 1] != '/')
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
							errmsg("invalid value for argument \"path\": \"%s\"", job.path),
							errdetail("Many tables need a folder."),
							errhint("Use a path that ends in \"/\".")));
	}
	job.spec_json = pgos_spec_to_json(&words);
	PG_RETURN_INT64(pgos_enqueue(&job));
}

/* Names in text[], parsed and quoted as the manifest's are written: schema.table, in schema public if bare. */
static List *
pgos_tables_wanted(ArrayType *array)
{
	List  *names = NIL;
	Datum *elements;
	bool  *nulls;
	int	   count;

	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &count);
	for (int i = 0; i < count; i++)
	{
		List *parts;

		if (nulls[i])
			ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
							errmsg("argument \"tables\" must not contain nulls")));
		parts = textToQualifiedNameList(DatumGetTextPP(elements[i]));
		if (list_length(parts) > 2)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_NAME),
					 errmsg("\"%s\" is no name of a table", TextDatumGetCString(elements[i]))));
		names = lappend(
			names, pgos_qualified_name(list_length(parts) == 2 ? strVal(linitial(parts)) : "public",
									   strVal(llast(parts))));
	}
	if (names == NIL)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("argument \"tables\" is an empty array"),
						errhint("Leave it out for all tables of the dataset.")));
	return names;
}

PG_FUNCTION_INFO_V1(objstore_pull_tables);

Datum
objstore_pull_tables(PG_FUNCTION_ARGS)
{
	PgosSpecWords  words = {0};
	PgosJob		   job = {0};
	ForeignServer *server;

	pgos_check_can_enqueue("objstore_pull_tables()");
	job.kind = PGOS_JOB_PULL_TABLES;
	words.mode = pgos_arg_word(fcinfo, PULL_MODE, "mode");
	words.parallel = pgos_arg_parallel(fcinfo, PULL_PARALLEL);
	words.options = PG_ARGISNULL(PULL_OPTIONS) ? NULL : PG_GETARG_JSONB_P(PULL_OPTIONS);
	if (!PG_ARGISNULL(PULL_TABLES))
		words.relations = pgos_tables_wanted(PG_GETARG_ARRAYTYPE_P(PULL_TABLES));
	(void) pgos_spec_parse(PGOS_JOB_PULL_TABLES, &words);
	server = pgos_check_server(fcinfo, PULL_SERVER);
	pgos_check_role();
	if (!PG_ARGISNULL(PULL_PATH))
	{
		job.path = pgos_arg_text(fcinfo, PULL_PATH);
		pgos_check_path(job.path);
		if (job.path[strlen(job.path) - 1] != '/')
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
							errmsg("invalid value for argument \"path\": \"%s\"", job.path),
							errhint("A dataset of tables is a folder: its path ends in \"/\".")));
	}
	job.job_id = pgos_job_next_id();
	job.relation = words.relations == NIL ? "all tables"
				   : list_length(words.relations) == 1
					   ? linitial(words.relations)
					   : psprintf("%d tables", list_length(words.relations));
	job.server = server->servername;
	job.serverid = server->serverid;
	job.owner = GetUserId();
	job.enqueued_at = GetCurrentTimestamp();
	job.spec_json = pgos_spec_to_json(&words);
	PG_RETURN_INT64(pgos_enqueue(&job));
}
