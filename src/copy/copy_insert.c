/*
 * copy_insert.c
 *		Rows by INSERT, out of a reader: what COPY FROM cannot do.
 *
 *		INSERT INTO relation (columns) OVERRIDING SYSTEM VALUE
 *		SELECT (s.r).column, ... FROM (SELECT objstore_source_rows(NULL::relation) AS r OFFSET 0) s
 *		ON CONFLICT ...
 *
 * The function gives one row at each call, so the rows stream through the plan: nothing is gathered.  It works
 * only while such an INSERT runs, and only for it.  Defaults, privileges, policies, triggers, routing and
 * conflicts are the executor's business, as for any INSERT of the current user.
 *
 * Runs in a worker; raises.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_index.h"
#include "compat.h"
#include "copy/copy_load_internal.h"
#include "executor/executor.h"
#include "extension.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "parser/parser.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

/* The INSERT that is running. */
typedef struct PgosInsertSource
{
	PgosReader *reader;
	Oid			rowtype;
	bool		taken;
} PgosInsertSource;

static PgosInsertSource *pgos_insert_source = NULL;

PG_FUNCTION_INFO_V1(objstore_source_rows);

Datum
objstore_source_rows(PG_FUNCTION_ARGS)
{
	FuncCallContext	 *context;
	PgosInsertSource *source;
	Datum			  row;

	if (SRF_IS_FIRSTCALL())
	{
		source = pgos_insert_source;
		if (source == NULL || source->taken ||
			get_fn_expr_argtype(fcinfo->flinfo, 0) != source->rowtype)
			ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
							errmsg("objstore_source_rows() is for the pulls of pgobjstore alone"),
							errhint("Use objstore_pull().")));
		source->taken = true;
		context = SRF_FIRSTCALL_INIT();
		context->user_fctx = source;
	}
	context = SRF_PERCALL_SETUP();
	source = context->user_fctx;
	if (pgos_reader_next(source->reader, &row))
		SRF_RETURN_NEXT(context, row);
	SRF_RETURN_DONE(context);
}

/* Columns of the relation that the plan fills. */
static Bitmapset *
pgos_insert_columns(const PgosPlan *plan)
{
	Bitmapset *columns = NULL;

	for (int i = 0; i < plan->column_count; i++)
	{
		if (plan->columns[i].attno != 0)
			columns = bms_add_member(columns, plan->columns[i].attno);
	}
	for (int i = 0; i < plan->constant_count; i++)
		columns = bms_add_member(columns, plan->constants[i].attno);
	if (plan->row_attno != 0)
		columns = bms_add_member(columns, plan->row_attno);
	return columns;
}

static Bitmapset *
pgos_insert_primary_key(Relation rel)
{
	Bitmapset	 *key = NULL;
	Oid			  index = pgos_compat_primary_key(rel);
	HeapTuple	  tuple;
	Form_pg_index form;

	if (!OidIsValid(index))
		return NULL;
	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", index);
	form = (Form_pg_index) GETSTRUCT(tuple);
	for (int i = 0; i < form->indnkeyatts; i++)
		key = bms_add_member(key, form->indkey.values[i]);
	ReleaseSysCache(tuple);
	return key;
}

/* The columns that decide whether a row is there already. */
static Bitmapset *
pgos_insert_key(PgosLoad *load)
{
	Bitmapset *key = NULL;
	ListCell  *lc;

	foreach (lc, load->spec->conflict_columns)
	{
		AttrNumber attno = get_attnum(RelationGetRelid(load->rel), lfirst(lc));

		if (attno <= 0)
			ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
							errmsg("column \"%s\" of relation \"%s\" does not exist",
								   (char *) lfirst(lc), RelationGetRelationName(load->rel)),
							errdetail("It is named by the option \"conflict_columns\".")));
		key = bms_add_member(key, attno);
	}
	if (key == NULL)
		key = pgos_insert_primary_key(load->rel);
	if (key == NULL)
		ereport(
			ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("on_conflict => 'update' needs a key, and relation \"%s\" has no primary key",
					RelationGetRelationName(load->rel)),
			 errhint("Name the columns of a unique index: options => '{\"conflict_columns\": "
					 "[\"id\"]}'.")));
	return key;
}

static void
pgos_insert_append_names(StringInfo sql, TupleDesc desc, const Bitmapset *columns,
						 const char *before)
{
	const char *separator = "";
	int			attno = -1;

	while ((attno = bms_next_member(columns, attno)) >= 0)
	{
		appendStringInfo(sql, "%s%s%s", separator, before,
						 quote_identifier(NameStr(TupleDescAttr(desc, attno - 1)->attname)));
		separator = ", ";
	}
}

/* "DO UPDATE SET ..." of the columns that are neither key nor out of reach; else there is nothing to do. */
static void
pgos_insert_append_update(StringInfo sql, TupleDesc desc, const Bitmapset *columns,
						  const Bitmapset *key)
{
	const char *separator = " DO UPDATE SET ";
	bool		any = false;
	int			attno = -1;

	while ((attno = bms_next_member(columns, attno)) >= 0)
	{
		Form_pg_attribute att = TupleDescAttr(desc, attno - 1);
		const char		 *name = quote_identifier(NameStr(att->attname));

		if (bms_is_member(attno, key) || att->attidentity == ATTRIBUTE_IDENTITY_ALWAYS)
			continue;
		appendStringInfo(sql, "%s%s = excluded.%s", separator, name, name);
		separator = ", ";
		any = true;
	}
	if (!any)
		appendStringInfoString(sql, " DO NOTHING");
}

static void
pgos_insert_append_conflict(StringInfo sql, PgosLoad *load, const Bitmapset *columns)
{
	TupleDesc  desc = RelationGetDescr(load->rel);
	Bitmapset *key;

	if (load->spec->on_conflict == PGOS_CONFLICT_ERROR)
		return;
	appendStringInfoString(sql, " ON CONFLICT");
	if (load->spec->on_conflict == PGOS_CONFLICT_NOTHING && load->spec->conflict_columns == NIL)
	{
		appendStringInfoString(sql, " DO NOTHING");
		return;
	}
	key = pgos_insert_key(load);
	appendStringInfoString(sql, " (");
	pgos_insert_append_names(sql, desc, key, "");
	appendStringInfoChar(sql, ')');
	if (load->spec->on_conflict == PGOS_CONFLICT_UPDATE)
		pgos_insert_append_update(sql, desc, columns, key);
	else
		appendStringInfoString(sql, " DO NOTHING");
}

static char *
pgos_insert_sql(PgosLoad *load, const PgosPlan *plan)
{
	StringInfoData sql;
	TupleDesc	   desc = RelationGetDescr(load->rel);
	Bitmapset	  *columns = pgos_insert_columns(plan);
	char *target = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(load->rel)),
											  RelationGetRelationName(load->rel));
	Oid	  schema;
	Oid	  owner;

	if (!pgos_extension_lookup(&schema, &owner))
		elog(ERROR, "extension \"pgobjstore\" does not exist");
	initStringInfo(&sql);
	appendStringInfo(&sql, "INSERT INTO %s (", target);
	pgos_insert_append_names(&sql, desc, columns, "");
	appendStringInfoString(&sql, ") OVERRIDING SYSTEM VALUE SELECT ");
	pgos_insert_append_names(&sql, desc, columns, "(s.r).");
	appendStringInfo(&sql, " FROM (SELECT %s.objstore_source_rows(NULL::%s) AS r OFFSET 0) s",
					 quote_identifier(get_namespace_name(schema)), target);
	pgos_insert_append_conflict(&sql, load, columns);
	return sql.data;
}

static QueryDesc *
pgos_insert_plan(PgosLoad *load, const char *sql)
{
	RawStmt		*statement = linitial_node(RawStmt, raw_parser(sql, RAW_PARSE_DEFAULT));
	List		*queries = pg_analyze_and_rewrite_fixedparams(statement, sql, NULL, 0, NULL);
	PlannedStmt *planned;

	if (list_length(queries) != 1 || linitial_node(Query, queries)->commandType != CMD_INSERT)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("cannot pull into relation \"%s\", which has rules for INSERT",
							   RelationGetRelationName(load->rel)),
						errhint("Use a trigger in place of the rule.")));
	planned = pgos_compat_plan_query(linitial_node(Query, queries), sql);
	UpdateActiveSnapshotCommandId();
	return CreateQueryDesc(planned, sql, GetActiveSnapshot(), InvalidSnapshot, None_Receiver, NULL,
						   NULL, 0);
}

int64
pgos_insert_rows(PgosLoad *load, const PgosPlan *plan, const PgosRowsInput *input, int64 *read)
{
	PgosInsertSource  source = {0};
	PgosInsertSource *saved_source = pgos_insert_source;
	char			 *sql = pgos_insert_sql(load, plan);
	QueryDesc		 *query;
	volatile int64	  rows = 0;

	if (!load->rel->rd_islocaltemp)
		PreventCommandIfReadOnly("objstore_pull");
	source.rowtype = load->rel->rd_rel->reltype;
	PushActiveSnapshot(GetTransactionSnapshot());
	query = pgos_insert_plan(load, sql);
	PG_TRY();
	{
		source.reader = pgos_reader_begin(load, plan, input);
		pgos_insert_source = &source;
		ExecutorStart(query, 0);
		pgos_compat_executor_run(query);
		rows = (int64) query->estate->es_processed;
		*read = pgos_reader_rows(source.reader);
		load->inserting = false;
		ExecutorFinish(query);
		ExecutorEnd(query);
		pgos_reader_end(source.reader);
	}
	PG_FINALLY();
	{
		load->cstate = NULL;
		load->inserting = false;
		pgos_insert_source = saved_source;
	}
	PG_END_TRY();
	FreeQueryDesc(query);
	PopActiveSnapshot();
	CommandCounterIncrement();
	return rows;
}
