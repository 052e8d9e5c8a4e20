/*
 * launcher.c
 *		The launcher: one process for the cluster that gives lanes their workers.
 *
 * It holds no job and touches no network.  It connects to no database, only to the shared catalogs, so that it
 * can see which databases and roles exist.  What is in the tables of a database is looked up by a scan: a
 * short-lived worker connected to it (slot.role invalid), after a start and after a worker died in a job.
 *
 * Each turn: take back the slots of workers that never came up; scan what must be scanned; give workers to
 * lanes in the order in which they began to wait, up to pgobjstore.max_workers; when there are none left,
 * ask a worker of another lane to leave after its job.
 *
 * Runs as a background worker, restarted by the postmaster if it fails.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "compat.h"
#include "guc.h"
#include "job/launcher.h"
#include "job/shmem.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

/* How long the launcher waits for the end of a scan before it goes on with its other work. */
#define PGOS_SCAN_MS 10000

/* Handles of the workers that this launcher has registered, by slot. */
static BackgroundWorkerHandle **pgos_handles = NULL;
static MemoryContext			pgos_launcher_context = NULL;

static void
pgos_launcher_exit(int code, Datum arg)
{
	LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
	pgos_shared->launcher = NULL;
	LWLockRelease(pgos_shared->lock);
}

/* Takes back the slots of workers that ended before they attached; drops handles of the ended. */
static void
pgos_launcher_reap(void)
{
	for (int i = 0; i < pgos_shared->slot_count; i++)
	{
		PgosSlot *slot = &pgos_shared->slots[i];
		pid_t	  pid;

		if (pgos_handles[i] == NULL ||
			GetBackgroundWorkerPid(pgos_handles[i], &pid) != BGWH_STOPPED)
			continue;
		pfree(pgos_handles[i]);
		pgos_handles[i] = NULL;
		LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
		if (slot->state == PGOS_SLOT_STARTING)
		{
			pgos_lane_failed(slot->database, slot->role);
			slot->state = PGOS_SLOT_FREE;
		}
		LWLockRelease(pgos_shared->lock);
	}
}

/* Registers a worker for a slot that is free; false if the server has no room for one. */
static bool
pgos_launcher_start(Oid database, Oid role)
{
	BackgroundWorker worker = {0};
	PgosSlot		*slot = NULL;
	int				 index;

	LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
	for (index = 0; index < pgos_shared->slot_count; index++)
	{
		if (pgos_shared->slots[index].state == PGOS_SLOT_FREE && pgos_handles[index] == NULL)
		{
			slot = &pgos_shared->slots[index];
			break;
		}
	}
	if (slot == NULL || (pgos_shared->blocked_db == database && OidIsValid(database)))
	{
		LWLockRelease(pgos_shared->lock);
		return false;
	}
	slot->state = PGOS_SLOT_STARTING;
	slot->generation++;
	slot->database = database;
	slot->role = role;
	slot->pid = 0;
	slot->latch = NULL;
	slot->job_id = 0;
	slot->helping = 0;
	slot->cancel = false;
	slot->leave = false;
	memcpy(worker.bgw_extra, &slot->generation, sizeof(slot->generation));
	LWLockRelease(pgos_shared->lock);

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_main_arg = Int32GetDatum(index);
	worker.bgw_notify_pid = MyProcPid;
	strlcpy(worker.bgw_library_name, "pgobjstore", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "pgos_worker_main", sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_type, "pgobjstore worker", BGW_MAXLEN);
	snprintf(worker.bgw_name, BGW_MAXLEN, "pgobjstore worker for database %u role %u", database,
			 role);
	{
		MemoryContext old = MemoryContextSwitchTo(pgos_launcher_context);
		bool		  registered = RegisterDynamicBackgroundWorker(&worker, &pgos_handles[index]);

		MemoryContextSwitchTo(old);
		if (registered)
			return true;
	}
	pgos_handles[index] = NULL;
	LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
	slot->state = PGOS_SLOT_FREE;
	LWLockRelease(pgos_shared->lock);
	return false;
}

/* Databases that a worker may connect to. */
static List *
pgos_launcher_databases(void)
{
	List		 *databases = NIL;
	Relation	  rel;
	TableScanDesc scan;
	HeapTuple	  tuple;
	MemoryContext context = CurrentMemoryContext;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while (HeapTupleIsValid(tuple = heap_getnext(scan, ForwardScanDirection)))
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);
		MemoryContext	 old;

		/* a database that is being dropped has a connection limit of -2 */
		if (!form->datallowconn || form->datconnlimit == -2)
			continue;
		old = MemoryContextSwitchTo(context);
		databases = lappend_oid(databases, form->oid);
		MemoryContextSwitchTo(old);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	CommitTransactionCommand();
	MemoryContextSwitchTo(context);
	return databases;
}

/* Whether a worker of the lane could connect at all. */
static bool
pgos_launcher_lane_exists(Oid database, Oid role)
{
	bool exists;

	StartTransactionCommand();
	exists = SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(database)) &&
			 SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(role));
	CommitTransactionCommand();
	return exists;
}

static void
pgos_launcher_wait(long timeout_ms)
{
	static uint32 wait_event = 0;

	(void) WaitLatch(MyLatch,
					 WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | (timeout_ms >= 0 ? WL_TIMEOUT : 0),
					 timeout_ms, PGOS_COMPAT_WAIT_EVENT(wait_event, "ObjstoreLauncherMain"));
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	/* not 0: the postmaster would never start a launcher again that somebody has terminated */
	if (ShutdownRequestPending)
		proc_exit(1);
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
}

/* Runs a scan in each of the databases, one after the other. */
static void
pgos_launcher_scan(List *databases)
{
	ListCell *lc;

	foreach (lc, databases)
	{
		Oid			database = lfirst_oid(lc);
		bool		running = true;
		TimestampTz deadline;

		/* no room for a worker: other lanes may use up what there is, this can wait */
		while (!pgos_launcher_start(database, InvalidOid))
		{
			if (pgos_shared->blocked_db == database)
			{
				/* whoever blocks it wakes us at the end */
				LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
				pgos_want_scan(database);
				LWLockRelease(pgos_shared->lock);
				running = false;
				break;
			}
			pgos_launcher_wait(1000);
			pgos_launcher_reap();
		}
		/* one that hangs (a lock on the database) must not keep all others waiting */
		deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), PGOS_SCAN_MS);
		while (running && GetCurrentTimestamp() < deadline)
		{
			pgos_launcher_wait(1000);
			pgos_launcher_reap();
			running = false;
			LWLockAcquire(pgos_shared->lock, LW_SHARED);
			for (int i = 0; i < pgos_shared->slot_count; i++)
			{
				PgosSlot *slot = &pgos_shared->slots[i];

				if (slot->state != PGOS_SLOT_FREE && slot->database == database &&
					!OidIsValid(slot->role))
					running = true;
			}
			LWLockRelease(pgos_shared->lock);
		}
	}
}

/* The waiting lane that began to wait first, among those that may be served now and wait behind `after`. */
static PgosLane *
pgos_launcher_next_lane(TimestampTz after, int *after_index, TimestampTz now)
{
	PgosLane *best = NULL;
	int		  best_index = -1;

	for (int i = 0; i < pgos_shared->lane_count; i++)
	{
		PgosLane *lane = &pgos_shared->lanes[i];

		if (!lane->in_use || lane->pending == 0 || lane->retry_at > now)
			continue;
		if (lane->since < after || (lane->since == after && i <= *after_index))
			continue;
		if (best == NULL || lane->since < best->since)
		{
			best = lane;
			best_index = i;
		}
	}
	if (best != NULL)
		*after_index = best_index;
	return best;
}

/*
 * The lane needs a worker and there is none left: one of another lane is asked to leave.  An idle one in any
 * case; one that is busy, after its job, only if the lane has no worker at all.
 */
static void
pgos_launcher_make_room(Oid database, Oid role, bool has_none)
{
	PgosSlot *victim = NULL;

	for (int i = 0; i < pgos_shared->slot_count; i++)
	{
		PgosSlot *slot = &pgos_shared->slots[i];

		if (slot->state == PGOS_SLOT_FREE || !OidIsValid(slot->role))
			continue;
		if (slot->leave)
			return; /* room is being made already */
		if (slot->database == database && slot->role == role)
			continue;
		if (slot->state == PGOS_SLOT_IDLE)
			victim = slot;
		else if (victim == NULL && has_none && slot->state == PGOS_SLOT_BUSY)
			victim = slot;
	}
	if (victim != NULL)
	{
		victim->leave = true;
		if (victim->latch != NULL)
			SetLatch(victim->latch);
	}
}

/*
 * Visits the waiting lanes in the order in which they began to wait, and starts one worker in each that needs
 * one.  A lane that got one goes to the end of the order, so that many jobs of one role do not keep others
 * waiting.  False: no worker was started.  *again: see pgos_launcher_serve().
 */
static bool
pgos_launcher_visit_lanes(TimestampTz now, long *again)
{
	TimestampTz after = 0;
	int			after_index = -1;
	bool		started = false;

	for (;;)
	{
		PgosLane *lane;
		Oid		  database;
		Oid		  role;
		int		  workers = 0;
		int		  available = 0;
		int		  mine = 0;
		bool	  wanted;

		LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
		lane = pgos_launcher_next_lane(after, &after_index, now);
		if (lane == NULL)
		{
			LWLockRelease(pgos_shared->lock);
			return started;
		}
		after = lane->since;
		database = lane->database;
		role = lane->role;
		for (int i = 0; i < pgos_shared->slot_count; i++)
		{
			PgosSlot *slot = &pgos_shared->slots[i];

			if (slot->state == PGOS_SLOT_FREE)
				continue;
			if (OidIsValid(slot->role))
				workers++;
			if (slot->database == database && slot->role == role && !slot->leave)
			{
				mine++;
				if (slot->state != PGOS_SLOT_BUSY)
					available++;
			}
		}
		wanted = lane->pending > (uint32) available;
		if (wanted && workers >= pgos_max_workers)
			pgos_launcher_make_room(database, role, mine == 0);
		LWLockRelease(pgos_shared->lock);

		if (!wanted || workers >= pgos_max_workers)
			continue;
		if (!pgos_launcher_lane_exists(database, role))
		{
			/* a scan says so in the rows of a role that was dropped; of a database nothing is left */
			LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
			lane->in_use = false;
			pgos_want_scan(database);
			*again = 0;
			LWLockRelease(pgos_shared->lock);
			continue;
		}
		if (pgos_launcher_start(database, role))
		{
			started = true;
			LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
			lane->since = GetCurrentTimestamp();
			LWLockRelease(pgos_shared->lock);
		}
		else
		{
			/* the server has no room for another worker, whatever max_workers says */
			LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
			pgos_launcher_make_room(database, role, mine == 0);
			LWLockRelease(pgos_shared->lock);
			*again = 1000;
		}
	}
}

/*
 * Starts the workers that lanes need.  Returns the milliseconds until it should be called again even if
 * nothing happens, or -1.
 */
static long
pgos_launcher_serve(void)
{
	TimestampTz now = GetCurrentTimestamp();
	long		again = -1;

	while (pgos_launcher_visit_lanes(now, &again))
		;

	/* lanes that wait for their retry, and lanes that nobody needs any more */
	LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < pgos_shared->lane_count; i++)
	{
		PgosLane *lane = &pgos_shared->lanes[i];

		if (!lane->in_use)
			continue;
		if (lane->pending == 0)
		{
			lane->in_use = false;
			/* there is room again for what is waiting in the tables alone */
			if (pgos_shared->scan_all)
				again = 0;
		}
		else if (lane->retry_at > now)
		{
			long ms = TimestampDifferenceMilliseconds(now, lane->retry_at) + 1;

			again = again < 0 ? ms : Min(again, ms);
		}
	}
	LWLockRelease(pgos_shared->lock);
	return again;
}

void
pgos_launcher_main(Datum arg)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	pgos_launcher_context =
		AllocSetContextCreate(TopMemoryContext, "pgobjstore launcher", ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(pgos_launcher_context);
	pgos_handles = palloc0(pgos_shared->slot_count * sizeof(BackgroundWorkerHandle *));

	before_shmem_exit(pgos_launcher_exit, (Datum) 0);
	LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
	pgos_shared->launcher = MyLatch;
	/*
	 * A launcher that was restarted knows no handles: slots that never came up are lost with its forerunner.  A
	 * worker that has its slot already gives it back itself.
	 */
	for (int i = 0; i < pgos_shared->slot_count; i++)
	{
		PgosSlot *slot = &pgos_shared->slots[i];

		if (slot->state == PGOS_SLOT_STARTING)
			slot->state = slot->latch != NULL ? PGOS_SLOT_IDLE : PGOS_SLOT_FREE;
	}
	LWLockRelease(pgos_shared->lock);
	pgstat_report_appname("pgobjstore");
	pgstat_report_activity(STATE_IDLE, "");

	for (;;)
	{
		List *databases = NIL;
		Oid	  scan_database;
		bool  scan_all;
		long  again;

		pgos_launcher_reap();
		LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
		scan_all = pgos_shared->scan_all;
		scan_database = pgos_shared->scan_database;
		pgos_shared->scan_database = InvalidOid;
		if (scan_all)
		{
			/* after an overflow, only when there is room for what will be found */
			bool room = false;

			for (int i = 0; i < pgos_shared->lane_count && !room; i++)
				room = !pgos_shared->lanes[i].in_use;
			scan_all = room;
			if (room)
				pgos_shared->scan_all = false;
		}
		LWLockRelease(pgos_shared->lock);
		if (scan_all)
			databases = pgos_launcher_databases();
		else if (OidIsValid(scan_database) &&
				 list_member_oid(pgos_launcher_databases(), scan_database))
			databases = list_make1_oid(scan_database);
		if (databases != NIL)
		{
			pgstat_report_activity(STATE_RUNNING, "pgobjstore: looking for jobs left over");
			pgos_launcher_scan(databases);
			pgstat_report_activity(STATE_IDLE, "");
			list_free(databases);
		}
		again = pgos_launcher_serve();
		pgos_launcher_wait(again);
	}
}

void
pgos_launcher_register(void)
{
	BackgroundWorker worker = {0};

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = 1;
	strlcpy(worker.bgw_library_name, "pgobjstore", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "pgos_launcher_main", sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, "pgobjstore launcher", BGW_MAXLEN);
	strlcpy(worker.bgw_type, "pgobjstore launcher", BGW_MAXLEN);
	RegisterBackgroundWorker(&worker);
}
