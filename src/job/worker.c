/*
 * worker.c
 *		A worker: connects to one database as one role and runs the jobs of that lane, one after the other.
 *
 * Life of a job here:
 *
 *		transaction 1 (bookkeeping)		claim: queued -> running
 *		pgos_push_run / pgos_pull_run	transactions of their own
 *		on an error: abort, then the clean-up in the store, which may fail but not hide the error
 *		transaction n (bookkeeping)		running -> done, failed or cancelled
 *		after its commit: wake those who wait for a job
 *
 * An error in the bookkeeping itself ends the process: the job stays "running" in its row, and the scan that
 * the launcher then makes puts it back.  So does any other end of the process.
 *
 * With slot.role invalid the worker is a scan: it connects as the bootstrap superuser, puts back what no worker
 * runs, fills the lanes, and exits.
 */
#include "postgres.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "access/xact.h"
#include "catalog/namespace.h"
#include "commands/prepare.h"
#include "commands/sequence.h"
#include "compat.h"
#include "errors.h"
#include "guc.h"
#include "job/job_table.h"
#include "job/launcher.h"
#include "job/role_settings.h"
#include "job/run.h"
#include "job/shmem.h"
#include "job/spec.h"
#include "job/team.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "store/store.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/portal.h"
#include "utils/snapmgr.h"

static void
pgos_worker_exit(int code, Datum arg)
{
	PgosSlot *slot = pgos_my_slot;
	Latch	 *launcher;

	if (slot == NULL)
		return;
	/* what it was about to claim may be locked by it still, so that another has taken the lane for empty */
	if (code != 0 && slot->state == PGOS_SLOT_BUSY)
		pgos_lane_add(slot->database, slot->role, 1);
	pgos_team_exit();
	pgos_my_slot = NULL;
	LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
	/* died in the middle of a job: somebody must put its row back */
	if (slot->job_id != 0)
		pgos_want_scan(slot->database);
	if (code != 0 && slot->state != PGOS_SLOT_STARTING)
		pgos_lane_failed(slot->database, slot->role);
	/* one that never got as far as idle is left to the launcher, which delays the next try */
	if (slot->state != PGOS_SLOT_STARTING)
		slot->state = PGOS_SLOT_FREE;
	slot->latch = NULL;
	slot->job_id = 0;
	slot->helping = 0;
	launcher = pgos_shared->launcher;
	if (launcher != NULL)
		SetLatch(launcher);
	LWLockRelease(pgos_shared->lock);
}

/* Takes the slot that the launcher prepared; false if it is not ours any more. */
static bool
pgos_worker_attach(int index)
{
	PgosSlot *slot = &pgos_shared->slots[index];
	uint32	  generation;
	bool	  mine;

	memcpy(&generation, MyBgworkerEntry->bgw_extra, sizeof(generation));
	LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
	mine = slot->state == PGOS_SLOT_STARTING && slot->generation == generation;
	if (mine)
	{
		slot->pid = MyProcPid;
		slot->latch = MyLatch;
		pgos_my_slot = slot;
	}
	LWLockRelease(pgos_shared->lock);
	if (mine)
		before_shmem_exit(pgos_worker_exit, (Datum) 0);
	return mine;
}

static void
pgos_slot_set(PgosSlotState state, int64 job_id)
{
	LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
	pgos_my_slot->state = state;
	pgos_my_slot->job_id = job_id;
	pgos_my_slot->cancel = false;
	LWLockRelease(pgos_shared->lock);
	/* a cancel that was sent for the job before must not hit the next */
	QueryCancelPending = false;
}

/* Whether a lane other than this has jobs waiting.  The caller holds the lock. */
static bool
pgos_others_wait(const PgosLane *mine)
{
	for (int i = 0; i < pgos_shared->lane_count; i++)
	{
		PgosLane *lane = &pgos_shared->lanes[i];

		if (lane != mine && lane->in_use && lane->pending > 0)
			return true;
	}
	return false;
}

/*
 * Claims the next job.  False: none waits, and the slot is idle since before anybody could have added one, or
 * opened a team, without waking us; or a session begun now would have other settings than ours, and slot.leave is
 * set for the launcher to start one.
 */
static bool
pgos_worker_claim(MemoryContext context, PgosJob *job)
{
	PgosLane *lane;
	uint64	  additions;
	bool	  found;
	bool	  outdated;

	LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
	additions = pgos_shared->additions;
	pgos_my_slot->state = PGOS_SLOT_BUSY;
	LWLockRelease(pgos_shared->lock);

	pgos_job_begin_bookkeeping();
	outdated = pgos_role_settings_changed(pgos_my_slot->role);
	found =
		!outdated && pgos_job_tables_exist() && pgos_job_claim(pgos_my_slot->role, context, job);
	if (found)
	{
		/* before it can be seen as running: a scan would think that nobody runs it */
		LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
		pgos_my_slot->job_id = job->job_id;
		pgos_my_slot->cancel = false;
		LWLockRelease(pgos_shared->lock);
	}
	CommitTransactionCommand();

	LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
	lane = pgos_lane_find(MyDatabaseId, pgos_my_slot->role);
	if (outdated)
		pgos_my_slot->leave = true;
	else if (lane != NULL)
		lane->failures = 0;
	if (found)
	{
		/*
		 * The claim is committed without waiting for the disk, so a crash may take it back, and the job looks as
		 * if it had never been begun.
		 */
		job->again = job->attempts > 1 || job->enqueued_at <= pgos_shared->started_at;
		if (lane != NULL && lane->pending > lane->seats)
			lane->pending--;
	}
	else if (!outdated)
	{
		pgos_my_slot->state = PGOS_SLOT_IDLE;
		/* whoever has added something meanwhile saw us busy and did not wake us */
		if (lane != NULL && lane->added_at > additions)
			SetLatch(MyLatch);
		else if (lane != NULL)
			lane->pending = lane->seats = 0;
		/* others may be waiting for the room that this worker takes up */
		if (pgos_shared->launcher != NULL && (pgos_shared->scan_all || pgos_others_wait(lane)))
			SetLatch(pgos_shared->launcher);
	}
	LWLockRelease(pgos_shared->lock);
	return found;
}

/* Tries to take back what the failed push wrote; what goes wrong there goes to the log. */
static void
pgos_worker_cleanup(PgosRun *run, bool give_up)
{
	/*
	 * The job stays "running" meanwhile.  A second cancel, or the one that a leader sends to helpers that clean up
	 * already, must not leave open uploads behind; the haste of the store is what bounds it.
	 */
	if (pgos_job_kind_is_push(run->job->kind))
		pqsignal(SIGINT, SIG_IGN);
	QueryCancelPending = false;
	if (run->store != NULL)
		pgos_store_hurry(run->store);
	PG_TRY();
	{
		switch (run->job->kind)
		{
			case PGOS_JOB_PUSH:
			case PGOS_JOB_PUSH_TABLES:
				if (give_up)
					pgos_push_give_up(run);
				else
					pgos_push_cleanup(run);
				break;
			case PGOS_JOB_PULL:
				if (give_up)
					pgos_pull_give_up(run);
				else
					pgos_pull_cleanup(run);
				break;
			case PGOS_JOB_PULL_TABLES:
				if (give_up)
					pgos_pull_tables_give_up(run);
				else
					pgos_pull_tables_cleanup(run);
				break;
		}
	}
	PG_CATCH();
	{
		ErrorData *error;

		MemoryContextSwitchTo(run->context);
		error = CopyErrorData();
		FlushErrorState();
		AbortCurrentTransaction();
		MemoryContextSwitchTo(run->context);
		ereport(WARNING, (errmsg("could not remove what job " INT64_FORMAT " left behind: %s",
								 run->job->job_id, error->message),
						  error->detail ? errdetail("%s", error->detail) : 0));
	}
	PG_END_TRY();
	pqsignal(SIGINT, StatementCancelHandler);
	QueryCancelPending = false;
}

/*
 * The session as it was at its begin, as by DISCARD ALL: what triggers and functions of one job have set, locked or
 * left open is none of the next one's business.  (LISTEN is refused in a worker.)  Lets go of a push's lock on its
 * place, too.
 */
static void
pgos_worker_reset_session(void)
{
	StartTransactionCommand();
	PortalHashTableDeleteAll();
	SetPGVariable("session_authorization", NIL, false);
	SetPGVariable("role", NIL, false);
	ResetAllOptions();
	DropAllPreparedStatements();
	LockReleaseAll(USER_LOCKMETHOD, true);
	ResetTempTableNamespace();
	ResetSequenceCaches();
	CommitTransactionCommand();
}

/* What pg_stat_activity shows. */
static void
pgos_worker_report(const PgosJob *job)
{
	SetCurrentStatementStartTimestamp();
	pgstat_report_activity(STATE_RUNNING,
						   psprintf("pgobjstore %s %s (job " INT64_FORMAT ")",
									pgos_job_kind_name(job->kind), job->relation, job->job_id));
}

/* Runs the job or, with a team, the part of a helper in it; NULL if it succeeded, else its error, in run->context. */
static ErrorData *
pgos_worker_try(PgosRun *run)
{
	ErrorData *volatile error = NULL;
	MemoryContext context = run->context;

	PG_TRY();
	{
		PgosJob *job = run->job;

		if (run->team != NULL)
		{
			pgos_job_begin_bookkeeping();
			pgos_job_get(run->team->job_id, context, job);
			CommitTransactionCommand();
			MemoryContextSwitchTo(context);
			pgos_worker_report(job);
			job->spec = pgos_spec_from_json(job->kind, job->spec_json);
			if (pgos_job_kind_is_push(job->kind))
				pgos_push_help(run);
			else if (job->kind == PGOS_JOB_PULL)
				pgos_pull_help(run);
			else
				pgos_pull_tables_help(run);
		}
		else if (job->attempts > pgos_max_attempts)
			ereport(ERROR,
					(errcode(ERRCODE_OPERATOR_INTERVENTION),
					 errmsg("job was interrupted %d times", job->attempts - 1),
					 errdetail("Its worker ended in the middle each time."),
					 errhint("Look into the server's log for the reason, then enqueue it again. "
							 "The limit is pgobjstore.max_attempts.")));
		else
		{
			job->spec = pgos_spec_from_json(job->kind, job->spec_json);
			switch (job->kind)
			{
				case PGOS_JOB_PUSH:
				case PGOS_JOB_PUSH_TABLES:
					pgos_push_run(run);
					break;
				case PGOS_JOB_PULL:
					pgos_pull_run(run);
					break;
				case PGOS_JOB_PULL_TABLES:
					pgos_pull_tables_run(run);
					break;
			}
		}
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		AbortCurrentTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	return error;
}

static void
pgos_worker_run(PgosJob *job, MemoryContext context)
{
	PgosRun	   run = {0};
	ErrorData *error;

	MemoryContextSwitchTo(context);
	run.job = job;
	run.context = context;
	pgos_progress_reset();
	pgos_failure_reset();
	pgos_worker_report(job);
	error = pgos_worker_try(&run);
	if (error != NULL)
	{
		bool  cancelled = error->sqlerrcode == ERRCODE_QUERY_CANCELED;
		bool  published = run.published;
		bool  complete;
		char *request_id = pgos_failure_request_id() ? pstrdup(pgos_failure_request_id()) : NULL;

		/* a second cancel must not keep us from cleaning up */
		pgos_slot_set(PGOS_SLOT_BUSY, job->job_id);
		pgos_worker_cleanup(&run, job->attempts > pgos_max_attempts);
		/* the manifest had arrived: who pulls finds a dataset, and the row must not say otherwise */
		complete = run.published && (!published || cancelled);
		ereport(LOG, (errcode(error->sqlerrcode),
					  errmsg("job " INT64_FORMAT " (%s %s) %s: %s", job->job_id,
							 pgos_job_kind_name(job->kind), job->relation,
							 complete	 ? "was complete when it was stopped"
							 : cancelled ? "was cancelled"
										 : "failed",
							 error->message),
					  error->detail ? errdetail("%s", error->detail) : 0,
					  error->hint ? errhint("%s", error->hint) : 0));
		pgos_job_begin_bookkeeping();
		if (complete)
		{
			run.result.note =
				psprintf("the dataset was complete when the job %s: %s; objects of a dataset that "
						 "it has replaced may be left",
						 cancelled ? "was cancelled" : "met an error", error->message);
			pgos_job_finish(job, &run.result);
		}
		else
			pgos_job_fail(job, cancelled, error, request_id);
		CommitTransactionCommand();
	}
	else if (pgos_job_kind_is_push(job->kind))
	{
		pgos_job_begin_bookkeeping();
		pgos_job_finish(job, &run.result);
		CommitTransactionCommand();
	}
	pgos_worker_reset_session();
	MemoryContextSwitchTo(TopMemoryContext);
	pgos_slot_set(PGOS_SLOT_BUSY, 0);
	ConditionVariableBroadcast(&pgos_shared->job_ended);
	/* or autovacuum never hears of the rows that came in */
	pgstat_report_stat(true);
	pgstat_report_activity(STATE_IDLE, "");
}

/* Joins in a job that another worker leads. */
static void
pgos_worker_help(PgosTeam *team, MemoryContext context)
{
	PgosRun	   run = {0};
	PgosJob	   job = {0};
	ErrorData *error;

	MemoryContextReset(context);
	MemoryContextSwitchTo(context);
	run.job = &job;
	run.context = context;
	run.team = team;
	pgos_progress_reset();
	pgos_failure_reset();
	QueryCancelPending = false;
	error = pgos_worker_try(&run);
	if (error != NULL)
	{
		QueryCancelPending = false;
		pgos_worker_cleanup(&run, false);
	}
	pgos_team_leave(team, error, pgos_failure_request_id());
	QueryCancelPending = false;
	pgos_worker_reset_session();
	MemoryContextSwitchTo(TopMemoryContext);
	pgstat_report_stat(true);
	pgstat_report_activity(STATE_IDLE, "");
}

static bool
pgos_worker_is_leaving(void)
{
	bool leave;

	LWLockAcquire(pgos_shared->lock, LW_SHARED);
	leave = pgos_my_slot->leave;
	LWLockRelease(pgos_shared->lock);
	return leave;
}

/* Waits for work; false when it is time to leave. */
static bool
pgos_worker_idle(void)
{
	static uint32 wait_event = 0;
	int			  rc;
	bool		  leave;

	rc = WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, pgos_idle_timeout,
				   PGOS_COMPAT_WAIT_EVENT(wait_event, "ObjstoreWorkerIdle"));
	ResetLatch(MyLatch);
	QueryCancelPending = false;
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
	LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
	leave = pgos_my_slot->leave;
	if (!leave && (rc & WL_TIMEOUT))
	{
		PgosLane *lane = pgos_lane_find(MyDatabaseId, pgos_my_slot->role);

		leave = lane == NULL || lane->pending == 0;
		pgos_my_slot->leave = leave;
	}
	LWLockRelease(pgos_shared->lock);
	return !leave;
}

static bool
pgos_scan_is_running(int64 job_id)
{
	bool running = false;

	LWLockAcquire(pgos_shared->lock, LW_SHARED);
	for (int i = 0; i < pgos_shared->slot_count && !running; i++)
	{
		PgosSlot *slot = &pgos_shared->slots[i];

		running = slot->state != PGOS_SLOT_FREE && slot->database == MyDatabaseId &&
				  slot->job_id == job_id;
	}
	LWLockRelease(pgos_shared->lock);
	return running;
}

static void
pgos_scan_add(Oid owner, int64 jobs)
{
	pgos_lane_add(MyDatabaseId, owner, (uint32) Min(jobs, PG_INT32_MAX));
}

/* Puts jobs that nobody runs back into the queue, and the queue into shared memory. */
static void
pgos_worker_scan(void)
{
	pgstat_report_activity(STATE_RUNNING, "pgobjstore: looking for jobs left over");
	pgos_job_begin_bookkeeping();
	if (pgos_job_tables_exist())
		pgos_job_requeue_orphans(pgos_scan_is_running);
	CommitTransactionCommand();
	pgos_job_begin_bookkeeping();
	if (pgos_job_tables_exist())
		pgos_job_each_waiting(pgos_scan_add);
	CommitTransactionCommand();
	LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
	pgos_my_slot->state = PGOS_SLOT_IDLE;
	LWLockRelease(pgos_shared->lock);
}

/*
 * Buffers for parts (5 MiB at least) come from the kernel and go back to it.  glibc would raise that threshold as soon as
 * the first one is freed, and an idle worker would keep what its largest job has needed.
 */
#define PGOS_MMAP_THRESHOLD (4 * 1024 * 1024)

static void
pgos_worker_set_malloc(void)
{
#ifdef __GLIBC__
	(void) mallopt(M_MMAP_THRESHOLD, PGOS_MMAP_THRESHOLD);
#endif
}

void
pgos_worker_main(Datum arg)
{
	MemoryContext context;
	Oid			  role;
	Oid			  database;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	/* the default handler of a worker would raise inside of libraries */
	pqsignal(SIGTERM, die);
	pqsignal(SIGINT, StatementCancelHandler);
	BackgroundWorkerUnblockSignals();
	pgos_worker_set_malloc();

	if (!pgos_worker_attach(DatumGetInt32(arg)))
		proc_exit(0);
	role = pgos_my_slot->role;
	database = pgos_my_slot->database;
	BackgroundWorkerInitializeConnectionByOid(database, role,
											  OidIsValid(role) ? PGOS_COMPAT_CONNECT_FLAGS : 0);
	pgstat_report_appname("pgobjstore");
	if (!OidIsValid(role))
	{
		pgos_worker_scan();
		proc_exit(0);
	}

	context = AllocSetContextCreate(TopMemoryContext, "pgobjstore job", ALLOCSET_DEFAULT_SIZES);
	for (;;)
	{
		PgosJob	  job;
		PgosTeam *team;

		team = pgos_team_join();
		if (team != NULL)
		{
			pgos_worker_help(team, context);
			continue;
		}
		MemoryContextReset(context);
		MemoryContextSwitchTo(context);
		if (pgos_worker_claim(context, &job))
			pgos_worker_run(&job, context);
		else if (!pgos_worker_is_leaving() && !pgos_worker_idle())
			break;
		if (pgos_worker_is_leaving())
			break;
		QueryCancelPending = false;
		CHECK_FOR_INTERRUPTS();
	}
	proc_exit(0);
}
