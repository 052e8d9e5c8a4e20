/*
 * copy_to_direct.c
 *		COPY TO into a sink by the direct encoder: where its rows come from.
 *
 * A heap table, a block range of one or a materialized view is scanned, and the encoder reads the tuples in
 * their pages; that skips what the executor and the slots do for every row.  Anything else is the query that COPY
 * would run, with the encoder as its receiver.
 *
 * Runs in a worker; raises.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/sysattr.h"
#include "access/tableam.h"
#include "catalog/pg_class.h"
#include "commands/copy.h"
#include "commands/progress.h"
#include "compat.h"
#include "copy/copy_to_direct.h"
#include "copy/encode.h"
#include "executor/executor.h"
#include "guc.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "parser/parse_node.h"
#include "storage/bufmgr.h"
#include "tcop/dest.h"
#include "tcop/tcopprot.h"
#include "utils/backend_progress.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"

/* ---------------------------------------------------------------- scan */

/*
 * Whether the relation's own rows can be scanned, and the columns to write then.  An error in the list of columns
 * of a table is raised as COPY raises it; in place of a query, the query will say.
 */
static bool
pgos_copy_to_can_scan(Relation rel, List *columns, bool in_place_of_query, List **attnums)
{
	TupleDesc  desc = RelationGetDescr(rel);
	char	   relkind = rel->rd_rel->relkind;
	Bitmapset *selected = NULL;
	ListCell  *lc;

	if (relkind != RELKIND_RELATION && relkind != RELKIND_MATVIEW)
		return false;
	if (relkind == RELKIND_MATVIEW && !RelationIsPopulated(rel))
		return false;
	if (rel->rd_tableam != GetHeapamTableAmRoutine() && in_place_of_query)
		return false;
	if (check_enable_rls(RelationGetRelid(rel), InvalidOid, true) == RLS_ENABLED)
		return false;
	if (in_place_of_query)
	{
		foreach (lc, columns)
		{
			int i;

			for (i = 0; i < desc->natts; i++)
			{
				Form_pg_attribute att = TupleDescAttr(desc, i);

				if (!att->attisdropped && att->attgenerated == '\0' &&
					namestrcmp(&att->attname, lfirst(lc)) == 0)
					break;
			}
			if (i == desc->natts)
				return false;
		}
	}
	*attnums = CopyGetAttnums(desc, rel, pgos_copy_name_list(columns));
	foreach (lc, *attnums)
		selected = bms_add_member(selected, lfirst_int(lc) - FirstLowInvalidHeapAttributeNumber);
	pgos_compat_check_select(rel, selected);
	return true;
}

static void
pgos_copy_to_scan(Relation rel, const PgosBlockRange *range, PgosEncoder *enc)
{
	TableScanDesc scan;

	if (range == NULL)
		scan = table_beginscan(rel, GetActiveSnapshot(), 0, NULL);
	else
	{
		BlockNumber blocks = RelationGetNumberOfBlocks(rel);
		BlockNumber end = Min(range->end, blocks);

		/* InvalidBlockNumber is the largest */
		if (range->first >= end)
			return;
		scan = table_beginscan_strat(rel, GetActiveSnapshot(), 0, NULL, true, false);
		heap_setscanlimits(scan, range->first, end - range->first);
	}
	if (rel->rd_tableam == GetHeapamTableAmRoutine())
	{
		HeapTuple tuple;

		while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
		{
			CHECK_FOR_INTERRUPTS();
			pgos_encoder_tuple(enc, tuple);
		}
	}
	else
	{
		TupleTableSlot *slot = table_slot_create(rel, NULL);

		while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
		{
			CHECK_FOR_INTERRUPTS();
			pgos_encoder_slot(enc, slot);
		}
		ExecDropSingleTupleTableSlot(slot);
	}
	table_endscan(scan);
}

/* ---------------------------------------------------------------- query */

typedef struct PgosCopyReceiver
{
	DestReceiver base;
	PgosEncoder *enc;
} PgosCopyReceiver;

static bool
pgos_receiver_receive(TupleTableSlot *slot, DestReceiver *self)
{
	pgos_encoder_slot(((PgosCopyReceiver *) self)->enc, slot);
	return true;
}

static void
pgos_receiver_startup(DestReceiver *self, int operation, TupleDesc desc)
{
}

static void
pgos_receiver_nothing(DestReceiver *self)
{
}

/* The plan of the query; NULL if rewriting made something else of it. */
static PlannedStmt *
pgos_copy_to_plan(Node *query, const char *sql)
{
	RawStmt *raw = makeNode(RawStmt);
	List	*rewritten;

	raw->stmt = query;
	rewritten = pg_analyze_and_rewrite_fixedparams(raw, sql, NULL, 0, NULL);
	if (list_length(rewritten) != 1 || linitial_node(Query, rewritten)->commandType != CMD_SELECT ||
		linitial_node(Query, rewritten)->utilityStmt != NULL)
		return NULL;
	return pg_plan_query(linitial_node(Query, rewritten), sql, CURSOR_OPT_PARALLEL_OK, NULL);
}

/* ---------------------------------------------------------------- both */

static void
pgos_copy_to_progress(Oid relid)
{
	static const int   params[] = {PROGRESS_COPY_COMMAND, PROGRESS_COPY_TYPE};
	static const int64 values[] = {PROGRESS_COPY_COMMAND_TO, PROGRESS_COPY_TYPE_PIPE};

	pgstat_progress_start_command(PROGRESS_COMMAND_COPY, relid);
	pgstat_progress_update_multi_param(lengthof(params), params, values);
}

const char *
pgos_copy_to_direct(Relation rel, List *columns, List *options, const PgosBlockRange *range,
					Node *query, const char *sql, PgosSink *sink, PgosCopyTick tick, void *arg,
					int64 *rows)
{
	CopyFormatOptions format = {0};
	PgosCopyReceiver  receiver = {0};
	PlannedStmt		 *plan;
	QueryDesc		 *desc;
	List			 *attnums;
	const char		 *refusal;

	if (pgos_fast_path == PGOS_FAST_PATH_OFF)
		return "pgobjstore.fast_path is off";
	ProcessCopyOptions(NULL, &format, false, options);
	refusal = pgos_encoder_refusal(&format);
	if (refusal != NULL)
		return refusal;

	if (pgos_copy_to_can_scan(rel, columns, query != NULL, &attnums))
	{
		PgosEncoder *enc =
			pgos_encoder_new(RelationGetDescr(rel), attnums, &format, sink, tick, arg);

		pgos_copy_to_progress(RelationGetRelid(rel));
		pgos_copy_to_scan(rel, range, enc);
		*rows = pgos_encoder_end(enc);
		pgstat_progress_end_command();
		return NULL;
	}

	Assert(query != NULL);
	plan = pgos_copy_to_plan(query, sql);
	if (plan == NULL)
		return "rules rewrite the query";
	receiver.base.receiveSlot = pgos_receiver_receive;
	receiver.base.rStartup = pgos_receiver_startup;
	receiver.base.rShutdown = pgos_receiver_nothing;
	receiver.base.rDestroy = pgos_receiver_nothing;
	receiver.base.mydest = DestCopyOut;
	PushCopiedSnapshot(GetActiveSnapshot());
	UpdateActiveSnapshotCommandId();
	desc = CreateQueryDesc(plan, sql, GetActiveSnapshot(), InvalidSnapshot, &receiver.base, NULL,
						   NULL, 0);
	ExecutorStart(desc, 0);
	receiver.enc = pgos_encoder_new(desc->tupDesc, CopyGetAttnums(desc->tupDesc, NULL, NIL),
									&format, sink, tick, arg);
	pgos_copy_to_progress(InvalidOid);
	pgos_compat_executor_run(desc);
	*rows = pgos_encoder_end(receiver.enc);
	ExecutorFinish(desc);
	ExecutorEnd(desc);
	FreeQueryDesc(desc);
	PopActiveSnapshot();
	pgstat_progress_end_command();
	return NULL;
}
