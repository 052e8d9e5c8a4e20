/*
 * shmem.c
 *		Layout of the shared memory, and adding work to it.
 *
 * pgos_shmem_init() runs in the postmaster; the rest in any process.
 */
#include "postgres.h"

#include "guc.h"
#include "job/shmem.h"
#include "job/team.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

/* Delay before another worker is tried in a lane whose workers fail, doubled each time. */
#define PGOS_LANE_RETRY_MS 1000
#define PGOS_LANE_RETRY_MAX_MS 60000

PgosShared *pgos_shared = NULL;
PgosSlot   *pgos_my_slot = NULL;

static shmem_request_hook_type pgos_prev_shmem_request = NULL;
static shmem_startup_hook_type pgos_prev_shmem_startup = NULL;

static Size
pgos_shmem_slots_size(void)
{
	/* as many as the server can run, so that max_workers may be changed by a reload */
	return MAXALIGN(
		add_size(offsetof(PgosShared, slots), mul_size(max_worker_processes, sizeof(PgosSlot))));
}

static Size
pgos_shmem_lanes_size(void)
{
	return MAXALIGN(mul_size(pgos_queue_size, sizeof(PgosLane)));
}

static Size
pgos_shmem_size(void)
{
	return add_size(add_size(pgos_shmem_slots_size(), pgos_shmem_lanes_size()),
					pgos_team_shmem_size());
}

static void
pgos_shmem_request(void)
{
	if (pgos_prev_shmem_request)
		pgos_prev_shmem_request();
	RequestAddinShmemSpace(pgos_shmem_size());
	RequestNamedLWLockTranche("pgobjstore", 1);
}

static void
pgos_shmem_startup(void)
{
	bool found;

	if (pgos_prev_shmem_startup)
		pgos_prev_shmem_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	pgos_shared = ShmemInitStruct("pgobjstore", pgos_shmem_size(), &found);
	if (!found)
	{
		memset(pgos_shared, 0, pgos_shmem_size());
		pgos_shared->lock = &GetNamedLWLockTranche("pgobjstore")->lock;
		ConditionVariableInit(&pgos_shared->job_ended);
		pgos_shared->scan_all = true;
		pgos_shared->started_at = GetCurrentTimestamp();
		pgos_shared->slot_count = max_worker_processes;
		pgos_shared->lane_count = pgos_queue_size;
		pgos_shared->lanes = (PgosLane *) ((char *) pgos_shared + pgos_shmem_slots_size());
		pgos_shared->teams = (PgosTeam *) ((char *) pgos_shared->lanes + pgos_shmem_lanes_size());
		pgos_team_shmem_init(pgos_shared->teams);
		for (int i = 0; i < pgos_shared->slot_count; i++)
		{
			PgosSlot *slot = &pgos_shared->slots[i];

			pg_atomic_init_u64(&slot->rows, 0);
			pg_atomic_init_u64(&slot->raw_bytes, 0);
			pg_atomic_init_u64(&slot->stored_bytes, 0);
			pg_atomic_init_u64(&slot->parts, 0);
			pg_atomic_init_u64(&slot->done_units, 0);
			pg_atomic_init_u64(&slot->total_units, 0);
		}
	}
	LWLockRelease(AddinShmemInitLock);
}

void
pgos_shmem_init(void)
{
	pgos_prev_shmem_request = shmem_request_hook;
	shmem_request_hook = pgos_shmem_request;
	pgos_prev_shmem_startup = shmem_startup_hook;
	shmem_startup_hook = pgos_shmem_startup;
}

void
pgos_shmem_require(void)
{
	if (pgos_shared == NULL)
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("pgobjstore is not loaded"),
			 errdetail(
				 "Jobs are run by background workers, which the library starts with the server."),
			 errhint("Add pgobjstore to shared_preload_libraries in postgresql.conf (for example "
					 "shared_preload_libraries = 'pgobjstore') and restart the server.")));
}

PgosLane *
pgos_lane_find(Oid database, Oid role)
{
	for (int i = 0; i < pgos_shared->lane_count; i++)
	{
		PgosLane *lane = &pgos_shared->lanes[i];

		if (lane->in_use && lane->database == database && lane->role == role)
			return lane;
	}
	return NULL;
}

void
pgos_lane_failed(Oid database, Oid role)
{
	PgosLane *lane = pgos_lane_find(database, role);
	int		  delay;

	if (lane == NULL)
		return;
	delay = PGOS_LANE_RETRY_MS << Min(lane->failures, 6);
	lane->failures++;
	lane->retry_at =
		TimestampTzPlusMilliseconds(GetCurrentTimestamp(), Min(delay, PGOS_LANE_RETRY_MAX_MS));
}

void
pgos_want_scan(Oid database)
{
	if (OidIsValid(pgos_shared->scan_database) && pgos_shared->scan_database != database)
		pgos_shared->scan_all = true;
	else
		pgos_shared->scan_database = database;
}

static void
pgos_lane_grow(Oid database, Oid role, uint32 jobs, uint32 seats)
{
	PgosShared *shared = pgos_shared;
	PgosLane   *lane = NULL;
	PgosLane   *free_lane = NULL;
	uint32		wanted = jobs + seats;
	Latch	   *launcher;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	lane = pgos_lane_find(database, role);
	for (int i = 0; i < shared->lane_count && lane == NULL && free_lane == NULL; i++)
	{
		if (!shared->lanes[i].in_use)
			free_lane = &shared->lanes[i];
	}
	if (lane == NULL && free_lane != NULL)
	{
		lane = free_lane;
		memset(lane, 0, sizeof(PgosLane));
		lane->in_use = true;
		lane->database = database;
		lane->role = role;
	}
	if (lane == NULL)
		shared->scan_all = true;
	else
	{
		if (lane->pending == 0)
			lane->since = GetCurrentTimestamp();
		lane->pending += jobs + seats;
		lane->seats += seats;
		lane->added_at = ++shared->additions;
		/* a worker that idles in this lane begins at once; the launcher sees to the rest */
		for (int i = 0; i < shared->slot_count && wanted > 0; i++)
		{
			PgosSlot *slot = &shared->slots[i];

			if (slot->state == PGOS_SLOT_IDLE && slot->database == database && slot->role == role &&
				!slot->leave)
			{
				SetLatch(slot->latch);
				wanted--;
			}
		}
	}
	launcher = wanted > 0 ? shared->launcher : NULL;
	if (launcher != NULL)
		SetLatch(launcher);
	LWLockRelease(shared->lock);
}

void
pgos_lane_add(Oid database, Oid role, uint32 jobs)
{
	pgos_lane_grow(database, role, jobs, 0);
}

void
pgos_lane_add_seats(Oid database, Oid role, uint32 seats)
{
	pgos_lane_grow(database, role, 0, seats);
}
