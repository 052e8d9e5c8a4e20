/*
 * utility.c
 *		Keeps idle workers out of the way of commands that need a database for themselves.
 *
 * DROP DATABASE, ALTER DATABASE ... RENAME / SET TABLESPACE and CREATE DATABASE ... TEMPLATE fail while somebody
 * is connected.  Before such a command runs, idle workers of that database are asked to leave and none is
 * started until it has ended.  A worker in the middle of a job stays: the command then fails as it would with
 * any other session (DROP DATABASE ... WITH (FORCE) ends it).
 *
 * Runs in the backend that executes the command; raises only if interrupted.
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "compat.h"
#include "job/launcher.h"
#include "job/shmem.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "tcop/utility.h"
#include "utils/timestamp.h"

/* How long the command waits for workers; the server itself gives other sessions 5 s. */
#define PGOS_LEAVE_MS 5000

static ProcessUtility_hook_type pgos_prev_utility = NULL;

/* Name of the database that the statement needs for itself, or NULL. */
static const char *
pgos_utility_database(Node *statement)
{
	switch (nodeTag(statement))
	{
		case T_DropdbStmt:
			return ((DropdbStmt *) statement)->dbname;
		case T_RenameStmt:
			if (((RenameStmt *) statement)->renameType == OBJECT_DATABASE)
				return ((RenameStmt *) statement)->subname;
			return NULL;
		case T_AlterDatabaseStmt:
		{
			ListCell *lc;

			foreach (lc, ((AlterDatabaseStmt *) statement)->options)
			{
				if (strcmp(((DefElem *) lfirst(lc))->defname, "tablespace") == 0)
					return ((AlterDatabaseStmt *) statement)->dbname;
			}
			return NULL;
		}
		case T_CreatedbStmt:
		{
			ListCell *lc;

			foreach (lc, ((CreatedbStmt *) statement)->options)
			{
				DefElem *option = lfirst(lc);

				if (strcmp(option->defname, "template") == 0 && option->arg != NULL)
					return defGetString(option);
			}
			return "template1";
		}
		default:
			return NULL;
	}
}

static void
pgos_unblock(void)
{
	LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
	if (pgos_shared->blocked_by == MyProcPid)
	{
		pgos_shared->blocked_db = InvalidOid;
		pgos_shared->blocked_by = 0;
		if (pgos_shared->launcher != NULL)
			SetLatch(pgos_shared->launcher);
	}
	LWLockRelease(pgos_shared->lock);
}

static void
pgos_unblock_at_exit(int code, Datum arg)
{
	pgos_unblock();
}

/* Asks the idle workers of the database to leave; returns how many are still there, busy ones left out. */
static int
pgos_ask_to_leave(Oid database)
{
	int count = 0;

	LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < pgos_shared->slot_count; i++)
	{
		PgosSlot *slot = &pgos_shared->slots[i];

		if (slot->state == PGOS_SLOT_FREE || slot->database != database || slot->job_id != 0)
			continue;
		slot->leave = true;
		count++;
		if (slot->latch != NULL)
			SetLatch(slot->latch);
	}
	LWLockRelease(pgos_shared->lock);
	return count;
}

static void
pgos_clear_database(Oid database)
{
	TimestampTz	  deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), PGOS_LEAVE_MS);
	static uint32 wait_event = 0;

	LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
	pgos_shared->blocked_db = database;
	pgos_shared->blocked_by = MyProcPid;
	LWLockRelease(pgos_shared->lock);
	while (pgos_ask_to_leave(database) > 0 && GetCurrentTimestamp() < deadline)
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 10,
						 PGOS_COMPAT_WAIT_EVENT(wait_event, "ObjstoreWorkersLeave"));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

static void
pgos_process_utility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
					 ProcessUtilityContext context, ParamListInfo params,
					 QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	const char *name = pgos_utility_database(pstmt->utilityStmt);
	Oid			database = InvalidOid;

	if (name != NULL && pgos_shared != NULL && IsTransactionState())
		database = get_database_oid(name, true);
	if (!OidIsValid(database))
	{
		if (pgos_prev_utility)
			pgos_prev_utility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest,
							  qc);
		else
			standard_ProcessUtility(pstmt, queryString, readOnlyTree, context, params, queryEnv,
									dest, qc);
		return;
	}

	before_shmem_exit(pgos_unblock_at_exit, (Datum) 0);
	PG_TRY();
	{
		pgos_clear_database(database);
		if (pgos_prev_utility)
			pgos_prev_utility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest,
							  qc);
		else
			standard_ProcessUtility(pstmt, queryString, readOnlyTree, context, params, queryEnv,
									dest, qc);
	}
	PG_FINALLY();
	{
		pgos_unblock();
		cancel_before_shmem_exit(pgos_unblock_at_exit, (Datum) 0);
	}
	PG_END_TRY();
}

void
pgos_utility_init(void)
{
	pgos_prev_utility = ProcessUtility_hook;
	ProcessUtility_hook = pgos_process_utility;
}
