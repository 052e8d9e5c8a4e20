/*
 * team.c
 *		A team: the workers that run one job together.
 *
 * Runs in workers.
 */
#include "postgres.h"

#include <signal.h>

#include "compat.h"
#include "errors.h"
#include "job/shmem.h"
#include "job/team.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/timestamp.h"

/* How long a leader that has failed waits for its helpers. */
#define PGOS_TEAM_STOP_MS 60000

Size
pgos_team_shmem_size(void)
{
	return mul_size(PGOS_TEAM_COUNT, sizeof(PgosTeam));
}

void
pgos_team_shmem_init(PgosTeam *teams)
{
	for (int i = 0; i < PGOS_TEAM_COUNT; i++)
	{
		ConditionVariableInit(&teams[i].changed);
		pg_atomic_init_u32(&teams[i].next_range, 0);
	}
}

/* Helper number i is gone.  The caller holds the lock. */
static void
pgos_team_forget(PgosTeam *team, int i)
{
	team->helpers[i] = 0;
	team->active--;
	if (team->helper_importing[i])
	{
		team->helper_importing[i] = false;
		team->importing--;
	}
}

PgosTeam *
pgos_team_new(int64 job_id)
{
	PgosTeam *team = NULL;

	LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < PGOS_TEAM_COUNT && team == NULL; i++)
	{
		if (!pgos_shared->teams[i].in_use)
			team = &pgos_shared->teams[i];
	}
	if (team != NULL)
	{
		team->in_use = true;
		team->open = false;
		team->database = pgos_my_slot->database;
		team->role = pgos_my_slot->role;
		team->job_id = job_id;
		team->leader_pid = MyProcPid;
		team->seats = team->joined = team->importing = team->active = 0;
		team->failed = team->told = team->lost = false;
		team->snapshot[0] = team->suffix[0] = team->copy_reason[0] = '\0';
		team->range_count = 0;
		pg_atomic_write_u32(&team->next_range, 0);
	}
	LWLockRelease(pgos_shared->lock);
	return team;
}

void
pgos_team_open(PgosTeam *team, int seats)
{
	LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
	team->seats = Min(seats, (int) lengthof(team->helpers));
	team->open = true;
	LWLockRelease(pgos_shared->lock);
	pgos_lane_add_seats(team->database, team->role, (uint32) team->seats);
}

void
pgos_team_close(PgosTeam *team)
{
	static uint32 wait_event = 0;

	LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
	team->open = false;
	LWLockRelease(pgos_shared->lock);
	ConditionVariablePrepareToSleep(&team->changed);
	for (;;)
	{
		bool importing;

		LWLockAcquire(pgos_shared->lock, LW_SHARED);
		importing = team->importing > 0;
		LWLockRelease(pgos_shared->lock);
		if (!importing)
			break;
		(void) ConditionVariableTimedSleep(
			&team->changed, 1000, PGOS_COMPAT_WAIT_EVENT(wait_event, "ObjstoreTeamImport"));
	}
	ConditionVariableCancelSleep();
}

/* Raises the first failure of the team. */
static void
pg_attribute_noreturn() pgos_team_raise(PgosTeam *team)
{
	PgosFailure failure = {0};

	failure.sqlstate = team->sqlstate;
	failure.message = team->message;
	failure.detail = team->detail[0] != '\0' ? team->detail : NULL;
	failure.hint = team->hint[0] != '\0' ? team->hint : NULL;
	failure.request_id = team->request_id[0] != '\0' ? team->request_id : NULL;
	pgos_failure_raise(&failure);
	pg_unreachable();
}

void
pgos_team_wait(PgosTeam *team)
{
	static uint32 wait_event = 0;
	bool		  failed;

	ConditionVariablePrepareToSleep(&team->changed);
	for (;;)
	{
		bool active;

		LWLockAcquire(pgos_shared->lock, LW_SHARED);
		active = team->active > 0;
		failed = team->failed;
		LWLockRelease(pgos_shared->lock);
		if (!active)
			break;
		(void) ConditionVariableTimedSleep(&team->changed, 1000,
										   PGOS_COMPAT_WAIT_EVENT(wait_event, "ObjstoreTeamWait"));
	}
	ConditionVariableCancelSleep();
	if (failed)
		pgos_team_raise(team);
}

void
pgos_team_stop(PgosTeam *team)
{
	static uint32 wait_event = 0;
	TimestampTz	  deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), PGOS_TEAM_STOP_MS);

	ConditionVariablePrepareToSleep(&team->changed);
	for (;;)
	{
		bool active;

		LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
		team->open = false;
		if (!team->failed)
		{
			team->failed = true;
			team->sqlstate = ERRCODE_QUERY_CANCELED;
			strlcpy(team->message, "the leader of the team has failed", sizeof(team->message));
			team->detail[0] = team->hint[0] = team->request_id[0] = '\0';
		}
		/* one that waits for a lock or a server does not come by pgos_team_check() */
		for (int i = 0; i < team->joined; i++)
		{
			if (team->helpers[i] != 0 && !team->told)
				(void) kill(team->helpers[i], SIGINT);
		}
		team->told = true;
		active = team->active > 0;
		LWLockRelease(pgos_shared->lock);
		if (!active || GetCurrentTimestamp() > deadline)
			break;
		(void) ConditionVariableTimedSleep(&team->changed, 1000,
										   PGOS_COMPAT_WAIT_EVENT(wait_event, "ObjstoreTeamStop"));
	}
	ConditionVariableCancelSleep();
}

void
pgos_team_release(PgosTeam *team)
{
	LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
	if (team->in_use && team->leader_pid == MyProcPid)
	{
		team->open = false;
		team->leader_pid = 0;
		if (team->active == 0)
			team->in_use = false;
	}
	LWLockRelease(pgos_shared->lock);
}

void
pgos_team_exit(void)
{
	LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < PGOS_TEAM_COUNT; i++)
	{
		PgosTeam *team = &pgos_shared->teams[i];
		bool	  mine = false;

		if (!team->in_use)
			continue;
		if (team->leader_pid == MyProcPid)
		{
			team->leader_pid = 0;
			mine = true;
		}
		for (int j = 0; j < team->joined; j++)
		{
			if (team->helpers[j] == MyProcPid)
			{
				pgos_team_forget(team, j);
				team->lost = mine = true;
			}
		}
		if (!mine)
			continue;
		team->open = false;
		if (!team->failed)
		{
			team->failed = true;
			team->sqlstate = ERRCODE_ADMIN_SHUTDOWN;
			strlcpy(team->message, "a worker of the job was terminated", sizeof(team->message));
			team->detail[0] = team->hint[0] = team->request_id[0] = '\0';
		}
		if (team->active == 0 && team->leader_pid == 0)
			team->in_use = false;
		/* no broadcast in an exit callback: the others look at least once a second */
	}
	LWLockRelease(pgos_shared->lock);
}

PgosTeam *
pgos_team_join(void)
{
	PgosTeam *team = NULL;

	LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < PGOS_TEAM_COUNT; i++)
	{
		PgosTeam *candidate = &pgos_shared->teams[i];

		if (candidate->in_use && candidate->open && !candidate->failed &&
			candidate->database == pgos_my_slot->database &&
			candidate->role == pgos_my_slot->role && candidate->joined < candidate->seats &&
			pg_atomic_read_u32(&candidate->next_range) < (uint32) candidate->range_count)
		{
			PgosLane *lane = pgos_lane_find(candidate->database, candidate->role);

			team = candidate;
			team->helper_importing[team->joined] = true;
			team->helpers[team->joined++] = MyProcPid;
			team->importing++;
			team->active++;
			/* seats that nobody wanted are gone already: what is left are jobs */
			if (lane != NULL && lane->seats > 0)
			{
				lane->seats--;
				lane->pending--;
			}
			pgos_my_slot->state = PGOS_SLOT_BUSY;
			pgos_my_slot->helping = team->job_id;
			break;
		}
	}
	LWLockRelease(pgos_shared->lock);
	return team;
}

void
pgos_team_imported(PgosTeam *team)
{
	LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < team->joined; i++)
	{
		if (team->helpers[i] == MyProcPid && team->helper_importing[i])
		{
			team->helper_importing[i] = false;
			team->importing--;
		}
	}
	LWLockRelease(pgos_shared->lock);
	ConditionVariableBroadcast(&team->changed);
}

void
pgos_team_leave(PgosTeam *team, const ErrorData *error, const char *request_id)
{
	LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < team->joined; i++)
	{
		if (team->helpers[i] == MyProcPid)
			pgos_team_forget(team, i);
	}
	if (error != NULL && !team->failed)
	{
		team->failed = true;
		team->sqlstate = error->sqlerrcode;
		strlcpy(team->message, error->message ? error->message : "a worker failed",
				sizeof(team->message));
		strlcpy(team->detail, error->detail ? error->detail : "", sizeof(team->detail));
		strlcpy(team->hint, error->hint ? error->hint : "", sizeof(team->hint));
		strlcpy(team->request_id, request_id ? request_id : "", sizeof(team->request_id));
	}
	if (team->active == 0 && team->leader_pid == 0)
		team->in_use = false;
	pgos_my_slot->helping = 0;
	LWLockRelease(pgos_shared->lock);
	ConditionVariableBroadcast(&team->changed);
}

PgosTeamRange *
pgos_team_next_range(PgosTeam *team)
{
	uint32 index = pg_atomic_fetch_add_u32(&team->next_range, 1);

	return index < (uint32) team->range_count ? &team->ranges[index] : NULL;
}

void
pgos_team_note_copy(PgosTeam *team, const char *reason)
{
	if (reason == NULL)
		return;
	LWLockAcquire(pgos_shared->lock, LW_EXCLUSIVE);
	if (team->copy_reason[0] == '\0')
		strlcpy(team->copy_reason, reason, sizeof(team->copy_reason));
	LWLockRelease(pgos_shared->lock);
}

void
pgos_team_check(PgosTeam *team)
{
	if (!*(volatile bool *) &team->failed)
		return;
	/* whoever has failed has written down why before it lets go of the lock */
	LWLockAcquire(pgos_shared->lock, LW_SHARED);
	LWLockRelease(pgos_shared->lock);
	if (team->leader_pid == MyProcPid)
		pgos_team_raise(team);
	ereport(ERROR,
			(errcode(ERRCODE_QUERY_CANCELED), errmsg("another worker of the job has failed")));
}
