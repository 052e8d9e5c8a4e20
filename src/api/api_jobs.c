/*
 * api_jobs.c
 *		Functions about jobs that exist: objstore_wait, objstore_cancel, objstore_progress.
 *
 * Runs in the caller's backend; raises.
 */
#include "postgres.h"

#include <signal.h>

#include "compat.h"
#include "fmgr.h"
#include "funcapi.h"
#include "job/enqueue.h"
#include "job/job_table.h"
#include "job/shmem.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/condition_variable.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

/* Longest sleep between two looks at the row: a safety net, the broadcast comes at once. */
#define PGOS_WAIT_LOOK_MS 1000
/* How long objstore_cancel() looks for the worker of a running job. */
#define PGOS_CANCEL_LOOK_MS 3000

/* Owner and state of a job that the caller may see; to others it does not exist. */
static Oid
pgos_job_of_caller(int64 job_id, char **state)
{
	Oid owner;

	if (!pgos_job_look(job_id, &owner, state) ||
		!(has_privs_of_role(GetUserId(), owner) ||
		  has_privs_of_role(GetUserId(), get_role_oid("pg_read_all_stats", false))))
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
						errmsg("job " INT64_FORMAT " does not exist", job_id),
						errhint("The view objstore_jobs has the jobs that you may see.")));
	return owner;
}

static bool
pgos_state_is_final(const char *state)
{
	return strcmp(state, "queued") != 0 && strcmp(state, "running") != 0;
}

/* A column of the row of objstore_jobs as text, or NULL. */
static char *
pgos_row_attribute(HeapTupleHeader row, const char *name)
{
	bool  isnull;
	Datum value = GetAttributeByName(row, name, &isnull);

	return isnull ? NULL : TextDatumGetCString(value);
}

/* Raises the error that the job ended with. */
static void
pgos_raise_job_error(int64 job_id, HeapTupleHeader row)
{
	char *sqlstate = pgos_row_attribute(row, "sqlstate");
	char *message = pgos_row_attribute(row, "message");
	char *detail = pgos_row_attribute(row, "detail");
	char *hint = pgos_row_attribute(row, "hint");
	int	  code = ERRCODE_INTERNAL_ERROR;

	if (sqlstate != NULL && strlen(sqlstate) == 5)
		code = MAKE_SQLSTATE(sqlstate[0], sqlstate[1], sqlstate[2], sqlstate[3], sqlstate[4]);
	ereport(ERROR, (errcode(code), errmsg_internal("%s", message ? message : "job failed"),
					detail ? errdetail_internal("%s", detail) : 0, hint ? errhint("%s", hint) : 0,
					errcontext("job " INT64_FORMAT " of pgobjstore", job_id)));
}

PG_FUNCTION_INFO_V1(objstore_wait);

Datum
objstore_wait(PG_FUNCTION_ARGS)
{
	int64		  job_id;
	char		 *state;
	TimestampTz	  deadline = DT_NOEND;
	static uint32 wait_event = 0;
	Datum		  row;

	pgos_shmem_require();
	if (PG_ARGISNULL(0))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("argument \"job\" must not be null")));
	job_id = PG_GETARG_INT64(0);
	if (!PG_ARGISNULL(1))
	{
		deadline = DatumGetTimestampTz(
			DirectFunctionCall2(timestamptz_pl_interval, TimestampTzGetDatum(GetCurrentTimestamp()),
								PG_GETARG_DATUM(1)));
	}
	if (pgos_enqueue_is_mine(job_id))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot wait for job " INT64_FORMAT " in the transaction that enqueued it",
						job_id),
				 errdetail("The job begins when this transaction commits."),
				 errhint("COMMIT first, then call objstore_wait.")));

	ConditionVariablePrepareToSleep(&pgos_shared->job_ended);
	for (;;)
	{
		long ms = PGOS_WAIT_LOOK_MS;

		(void) pgos_job_of_caller(job_id, &state);
		if (pgos_state_is_final(state))
			break;
		if (deadline != DT_NOEND)
		{
			TimestampTz now = GetCurrentTimestamp();

			if (now >= deadline)
				ereport(ERROR, (errcode(ERRCODE_QUERY_CANCELED),
								errmsg("timed out waiting for job " INT64_FORMAT, job_id),
								errdetail("The job is %s.", state),
								errhint("It goes on: wait again, look into objstore_jobs, or call "
										"objstore_cancel(" INT64_FORMAT ").",
										job_id)));
			ms = Min(ms, TimestampDifferenceMilliseconds(now, deadline) + 1);
		}
		(void) ConditionVariableTimedSleep(&pgos_shared->job_ended, ms,
										   PGOS_COMPAT_WAIT_EVENT(wait_event, "ObjstoreWaitJob"));
	}
	ConditionVariableCancelSleep();

	row = pgos_job_view_row(job_id, fcinfo->flinfo->fn_oid);
	if (strcmp(state, "done") != 0)
		pgos_raise_job_error(job_id, DatumGetHeapTupleHeader(row));
	PG_RETURN_DATUM(row);
}

/* Signals the worker that runs the job; false if none does. */
static bool
pgos_cancel_running(int64 job_id)
{
	bool found = false;

	LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < pgos_shared->slot_count && !found; i++)
	{
		PgosSlot *slot = &pgos_shared->slots[i];

		if (slot->state == PGOS_SLOT_BUSY && slot->database == MyDatabaseId &&
			slot->job_id == job_id)
		{
			slot->cancel = true;
			found = kill(slot->pid, SIGINT) == 0;
		}
	}
	LWLockRelease(pgos_shared->lock);
	return found;
}

/*
 * Cancels the job, waiting or running; false if it has ended.  Between its claim and the moment when its worker
 * shows it, a job is neither: look again then.
 */
static bool
pgos_cancel(int64 job_id)
{
	static uint32 wait_event = 0;
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), PGOS_CANCEL_LOOK_MS);

	for (;;)
	{
		char *state;
		Oid	  owner = pgos_job_of_caller(job_id, &state);

		if (pgos_state_is_final(state))
			return false;
		if (pgos_job_cancel_waiting(job_id))
		{
			pgos_enqueue_remember_cancel(job_id, owner);
			ConditionVariableBroadcast(&pgos_shared->job_ended);
			return true;
		}
		if (pgos_cancel_running(job_id))
			return true;
		if (GetCurrentTimestamp() > deadline)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("could not cancel job " INT64_FORMAT, job_id),
					 errdetail("No worker runs it at the moment, and it is not waiting either: its "
							   "worker has ended, and it is about to be put back."),
					 errhint("Try again.")));
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 10,
						 PGOS_COMPAT_WAIT_EVENT(wait_event, "ObjstoreCancelJob"));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

PG_FUNCTION_INFO_V1(objstore_cancel);

Datum
objstore_cancel(PG_FUNCTION_ARGS)
{
	int64 job_id = PG_GETARG_INT64(0);
	char *state;
	Oid	  owner;

	pgos_shmem_require();
	owner = pgos_job_of_caller(job_id, &state);
	if (!has_privs_of_role(GetUserId(), owner) &&
		!has_privs_of_role(GetUserId(), get_role_oid("pg_signal_backend", false)))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to cancel job " INT64_FORMAT, job_id),
				 errhint("Only a member of the role that owns the job, or of pg_signal_backend, "
						 "may cancel it.")));
	/* of another role's superuser jobs pg_signal_backend must keep its hands off, as the server does */
	if (superuser_arg(owner) && !superuser())
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
						errmsg("must be a superuser to cancel a job of a superuser")));
	PG_RETURN_BOOL(pgos_cancel(job_id));
}

typedef struct PgosProgressSum
{
	int64 rows;
	int64 raw_bytes;
	int64 stored_bytes;
	int64 parts;
	int64 done_units;
} PgosProgressSum;

static void
pgos_progress_add(PgosProgressSum *sum, PgosSlot *slot)
{
	sum->rows += (int64) pg_atomic_read_u64(&slot->rows);
	sum->raw_bytes += (int64) pg_atomic_read_u64(&slot->raw_bytes);
	sum->stored_bytes += (int64) pg_atomic_read_u64(&slot->stored_bytes);
	sum->parts += (int64) pg_atomic_read_u64(&slot->parts);
	sum->done_units += (int64) pg_atomic_read_u64(&slot->done_units);
}

PG_FUNCTION_INFO_V1(objstore_progress);

Datum
objstore_progress(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	bool		   all;

	InitMaterializedSRF(fcinfo, 0);
	if (pgos_shared == NULL)
		PG_RETURN_NULL();
	all = has_privs_of_role(GetUserId(), get_role_oid("pg_read_all_stats", false));
	for (int i = 0; i < pgos_shared->slot_count; i++)
	{
		PgosSlot	   *slot = &pgos_shared->slots[i];
		PgosProgressSum sum = {0};
		Datum			values[7];
		bool			nulls[7] = {false};
		uint64			total;
		int64			job_id;
		Oid				role;
		int				pid;

		LWLockAcquire(pgos_shared->lock, LW_SHARED);
		job_id = slot->state == PGOS_SLOT_BUSY && slot->database == MyDatabaseId ? slot->job_id : 0;
		role = slot->role;
		pid = slot->pid;
		total = pg_atomic_read_u64(&slot->total_units);
		if (job_id != 0)
		{
			/* the leader and those who help it */
			for (int j = 0; j < pgos_shared->slot_count; j++)
			{
				PgosSlot *member = &pgos_shared->slots[j];

				if (j == i || (member->state == PGOS_SLOT_BUSY &&
							   member->database == MyDatabaseId && member->helping == job_id))
					pgos_progress_add(&sum, member);
			}
		}
		LWLockRelease(pgos_shared->lock);
		if (job_id == 0 || !(all || has_privs_of_role(GetUserId(), role)))
			continue;
		values[0] = Int64GetDatum(job_id);
		values[1] = Int32GetDatum(pid);
		values[2] = Int64GetDatum(sum.rows);
		values[3] = Int64GetDatum(sum.raw_bytes);
		values[4] = Int64GetDatum(sum.stored_bytes);
		values[5] = Int32GetDatum((int) sum.parts);
		nulls[6] = total == 0;
		/* the total is an estimate: never 100 before it is done */
		values[6] =
			total == 0
				? (Datum) 0
				: DirectFunctionCall2(
					  numeric_round,
					  DirectFunctionCall1(float8_numeric,
										  Float8GetDatum(Min(99.9, 100.0 * (double) sum.done_units /
																	   (double) total))),
					  Int32GetDatum(1));
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}
