/*
 * copy_to.c
 *		COPY TO into a sink.
 *
 * COPY ... TO STDOUT is run through ProcessUtility, which checks privileges and row-level security as for any
 * session, with the connection to the client replaced by our own methods while it runs.  The protocol's
 * messages arrive there: 'd' is one row (for binary, the first also has the file header, the last is the
 * trailer alone), everything else is dropped.  The same way works on every version; the callback that newer
 * versions offer skips the checks.
 *
 * Where the direct encoder can do it, it does, and COPY is not run (copy/copy_to_direct.h).
 *
 * The methods have no argument, so the stream is in a static variable, saved and restored around the COPY.
 * Runs in a worker; raises.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_class.h"
#include "compat.h"
#include "copy/copy_options.h"
#include "copy/copy_stream.h"
#include "copy/copy_to_direct.h"
#include "libpq/libpq.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parser.h"
#include "tcop/dest.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"

#define PGOS_TICK_BYTES (64 * 1024)

typedef struct PgosCopyToState
{
	PgosSink	*sink;
	PgosCopyTick tick;
	void		*arg;
	int64		 rows; /* messages so far, less the header line */
	int64		 bytes_to_tick;
} PgosCopyToState;

static PgosCopyToState *pgos_copy_to_state = NULL;

static void
pgos_comm_reset(void)
{
}

static int
pgos_comm_flush(void)
{
	return 0;
}

static bool
pgos_comm_is_send_pending(void)
{
	return false;
}

static int
pgos_comm_putmessage(char msgtype, const char *s, size_t len)
{
	PgosCopyToState *state = pgos_copy_to_state;

	/* only rows: never raise on a notice or an error that is being reported */
	if (msgtype != 'd' || state == NULL)
		return 0;
	pgos_sink_write(state->sink, s, len);
	pgos_sink_row_end(state->sink);
	state->rows++;
	state->bytes_to_tick -= (int64) len;
	if (state->bytes_to_tick <= 0)
	{
		state->bytes_to_tick = PGOS_TICK_BYTES;
		state->tick(Max(state->rows, 0), state->arg);
	}
	return 0;
}

static void
pgos_comm_putmessage_noblock(char msgtype, const char *s, size_t len)
{
	(void) pgos_comm_putmessage(msgtype, s, len);
}

static const PQcommMethods pgos_comm_methods = {
	.comm_reset = pgos_comm_reset,
	.flush = pgos_comm_flush,
	.flush_if_writable = pgos_comm_flush,
	.is_send_pending = pgos_comm_is_send_pending,
	.putmessage = pgos_comm_putmessage,
	.putmessage_noblock = pgos_comm_putmessage_noblock,
};

List *
pgos_copy_name_list(List *columns)
{
	List	 *names = NIL;
	ListCell *lc;

	foreach (lc, columns)
		names = lappend(names, makeString(lfirst(lc)));
	return names;
}

/*
 * "SELECT columns FROM relation": what COPY needs for everything but a plain table.  Generated columns are
 * left out, as COPY leaves them out of a table.  only: not what inherits from it.  *text: the same as text.
 */
static Node *
pgos_copy_to_query(Relation rel, List *columns, bool only, const PgosBlockRange *range, char **text)
{
	StringInfoData sql;
	const char	  *separator = "";

	initStringInfo(&sql);
	appendStringInfoString(&sql, "SELECT ");
	if (columns != NIL)
	{
		ListCell *lc;

		foreach (lc, columns)
		{
			appendStringInfo(&sql, "%s%s", separator, quote_identifier(lfirst(lc)));
			separator = ", ";
		}
	}
	else
	{
		TupleDesc desc = RelationGetDescr(rel);

		for (int i = 0; i < desc->natts; i++)
		{
			Form_pg_attribute att = TupleDescAttr(desc, i);

			if (att->attisdropped || att->attgenerated != '\0')
				continue;
			appendStringInfo(&sql, "%s%s", separator, quote_identifier(NameStr(att->attname)));
			separator = ", ";
		}
	}
	appendStringInfo(&sql, " FROM %s%s", only ? "ONLY " : "",
					 quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
												RelationGetRelationName(rel)));
	if (range != NULL)
	{
		appendStringInfo(&sql, " WHERE ctid OPERATOR(pg_catalog.>=) '(%u,0)'::pg_catalog.tid",
						 range->first);
		if (range->end != InvalidBlockNumber)
			appendStringInfo(&sql, " AND ctid OPERATOR(pg_catalog.<) '(%u,0)'::pg_catalog.tid",
							 range->end);
	}
	*text = sql.data;
	return linitial_node(RawStmt, raw_parser(sql.data, RAW_PARSE_DEFAULT))->stmt;
}

/* Runs COPY; returns the number of rows. */
static int64
pgos_copy_to_by_copy(CopyStmt *stmt, PgosSink *sink, PgosCopyTick tick, void *arg)
{
	PlannedStmt			*planned = makeNode(PlannedStmt);
	QueryCompletion		 qc;
	PgosCopyToState		 state = {0};
	PgosCopyToState		*saved_state = pgos_copy_to_state;
	const PQcommMethods *saved_methods = PqCommMethods;
	CommandDest			 saved_dest = whereToSendOutput;

	planned->commandType = CMD_UTILITY;
	planned->utilityStmt = (Node *) stmt;
	planned->stmt_location = -1;

	state.sink = sink;
	state.tick = tick;
	state.arg = arg;
	state.rows = pgos_copy_options_header(stmt->options) ? -1 : 0;
	state.bytes_to_tick = PGOS_TICK_BYTES;
	InitializeQueryCompletion(&qc);
	PG_TRY();
	{
		pgos_copy_to_state = &state;
		PqCommMethods = &pgos_comm_methods;
		whereToSendOutput = DestRemote;
		ProcessUtility(planned, "COPY TO STDOUT", false, PROCESS_UTILITY_TOPLEVEL, NULL, NULL,
					   None_Receiver, &qc);
	}
	PG_FINALLY();
	{
		whereToSendOutput = saved_dest;
		PqCommMethods = saved_methods;
		pgos_copy_to_state = saved_state;
	}
	PG_END_TRY();
	return (int64) qc.nprocessed;
}

PgosCopyToResult
pgos_copy_to(Oid relid, List *columns, List *options, const PgosBlockRange *range, PgosSink *sink,
			 PgosCopyTick tick, void *arg)
{
	Relation		 rel = table_open(relid, AccessShareLock);
	bool			 is_table = rel->rd_rel->relkind == RELKIND_RELATION;
	bool			 has_policies = check_enable_rls(relid, InvalidOid, true) == RLS_ENABLED;
	CopyStmt		*stmt = makeNode(CopyStmt);
	PgosCopyToResult result = {0};
	char			*sql = NULL;
	int				 guc_level;

	/* a statement names the relation, and finds it only through a schema that the role may use */
	if (pgos_compat_namespace_aclcheck(RelationGetNamespace(rel), GetUserId(), ACL_USAGE) !=
		ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_SCHEMA,
					   get_namespace_name(RelationGetNamespace(rel)));

	/*
	 * A table with policies becomes a query in COPY, too, but one for all its columns: with the generated ones,
	 * which could not be read back.
	 */
	if (is_table && range == NULL && !has_policies)
	{
		stmt->relation = makeRangeVar(get_namespace_name(RelationGetNamespace(rel)),
									  pstrdup(RelationGetRelationName(rel)), -1);
		stmt->attlist = pgos_copy_name_list(columns);
	}
	else
		stmt->query = pgos_copy_to_query(rel, columns, range != NULL || is_table, range, &sql);
	stmt->options = options;

	guc_level = pgos_copy_settings_pin();
	pgos_copy_encoding_pin(options);

	/*
	 * Values of regclass and its like are written with the schema unless it is in the path.  Views and policies
	 * may run functions that need the role's own.
	 */
	if (rel->rd_rel->relkind != RELKIND_VIEW && !has_policies)
		(void) set_config_option("search_path", "pg_catalog", PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, 0, false);
	if (range != NULL)
		(void) set_config_option("enable_tidscan", "on", PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, 0, false);
	PushActiveSnapshot(GetTransactionSnapshot());
	result.engine = PGOS_ENGINE_DIRECT;
	result.reason = pgos_copy_to_direct(rel, columns, options, range, stmt->query, sql, sink, tick,
										arg, &result.rows);
	if (result.reason != NULL)
	{
		result.engine = PGOS_ENGINE_COPY;
		result.rows = pgos_copy_to_by_copy(stmt, sink, tick, arg);
	}
	PopActiveSnapshot();
	AtEOXact_GUC(true, guc_level);
	table_close(rel, NoLock);
	tick(result.rows, arg);
	return result;
}
