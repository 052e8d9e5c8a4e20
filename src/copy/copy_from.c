/*
 * copy_from.c
 *		COPY FROM out of a source.
 *
 * BeginCopyFrom() with a data callback checks nothing, so the checks that COPY makes for a session are here.
 * The callback has no argument: the stream is in a static variable, saved and restored around the COPY.
 * Runs in a worker; raises.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/xact.h"
#include "commands/copy.h"
#include "commands/progress.h"
#include "compat.h"
#include "copy/copy_options.h"
#include "copy/copy_stream.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parse_node.h"
#include "utils/backend_status.h"
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"

typedef struct PgosCopyFromState
{
	PgosSource *source;
	PgosCopyTick tick;
	void	   *arg;
} PgosCopyFromState;

static PgosCopyFromState *pgos_copy_from_state = NULL;

/* COPY's counter of this process, as pg_stat_progress_copy shows it. */
static int64
pgos_copy_from_rows(void)
{
	volatile PgBackendStatus *entry = MyBEEntry;

	if (entry == NULL || entry->st_progress_command != PROGRESS_COMMAND_COPY)
		return 0;
	return entry->st_progress_param[PROGRESS_COPY_TUPLES_PROCESSED];
}

static int
pgos_copy_from_read(void *outbuf, int minread, int maxread)
{
	PgosCopyFromState *state = pgos_copy_from_state;
	int			len = 0;

	CHECK_FOR_INTERRUPTS();
	while (len < maxread)
	{
		size_t		n;

		/* enough for COPY, and more would mean work or waiting */
		if (len >= minread && state->source->avail == 0)
			break;
		n = pgos_source_read(state->source, (char *) outbuf + len, maxread - len);
		if (n == 0)
			break;
		len += (int) n;
	}
	state->tick(pgos_copy_from_rows(), state->arg);
	return len;
}

void
pgos_copy_from_check(Relation rel, List *columns)
{
	ParseState *pstate = make_parsestate(NULL);
	Bitmapset  *bms = NULL;
	List	   *attnums;
	ListCell   *lc;

	if (!rel->rd_islocaltemp)
		PreventCommandIfReadOnly("objstore_pull");
	attnums = CopyGetAttnums(RelationGetDescr(rel), rel, pgos_copy_name_list(columns));
	foreach (lc, attnums)
		bms = bms_add_member(bms, lfirst_int(lc) - FirstLowInvalidHeapAttributeNumber);
	(void) pgos_compat_check_insert(pstate, rel, bms);
	if (check_enable_rls(RelationGetRelid(rel), InvalidOid, false) == RLS_ENABLED)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot pull into table \"%s\" with row-level security",
						RelationGetRelationName(rel)),
				 errdetail("COPY FROM does not apply the policies that hold for role \"%s\".",
						   GetUserNameFromId(GetUserId(), false)),
				 errhint("Pull into a table without row-level security, then INSERT from it.")));
	free_parsestate(pstate);
}

int64
pgos_copy_from(Relation rel, List *columns, List *options, bool freeze, PgosSource *source,
			   PgosCopyTick tick, void *arg)
{
	ParseState *pstate = make_parsestate(NULL);
	PgosCopyFromState state = {source, tick, arg};
	PgosCopyFromState *saved_state = pgos_copy_from_state;
	CopyFromState cstate;
	List	   *copy_options = list_copy(options);
	volatile int64 rows = 0;
	int			guc_level;

	pgos_copy_from_check(rel, columns);
	if (freeze)
		copy_options =
			lappend(copy_options, makeDefElem("freeze", (Node *) makeString("true"), -1));
	guc_level = pgos_copy_settings_pin();
	pgos_copy_encoding_pin(options);
	PushActiveSnapshot(GetTransactionSnapshot());
	PG_TRY();
	{
		pgos_copy_from_state = &state;
		(void) addRangeTableEntryForRelation(pstate, rel, RowExclusiveLock, NULL, false, false);
		cstate = BeginCopyFrom(pstate, rel, NULL, NULL, false, pgos_copy_from_read,
							   pgos_copy_name_list(columns), copy_options);
		rows = (int64) CopyFrom(cstate);
		EndCopyFrom(cstate);
	}
	PG_FINALLY();
	{
		pgos_copy_from_state = saved_state;
	}
	PG_END_TRY();
	PopActiveSnapshot();
	AtEOXact_GUC(true, guc_level);
	free_parsestate(pstate);
	CommandCounterIncrement();
	tick(rows, arg);
	return rows;
}
