/*
 * shmem.h
 *		What the processes of pgobjstore share: lanes, slots, and who waits for what.
 *
 * Glossary
 *		lane	a (database, role) with jobs waiting.  Only a hint: the jobs themselves are rows, and a worker
 *				takes them from there.  pending is never lower than the rows that wait, once the commit that
 *				added them has passed its callback.
 *		slot	one worker, from its registration to its exit.
 *
 * Who changes what, all under `lock` unless said otherwise:
 *		lane			committing backends (add), workers (take, clear), launcher (retry_at, free)
 *		slot.state		launcher FREE->STARTING and, for a worker that never came, STARTING->FREE;
 *						the worker STARTING->IDLE<->BUSY, ->FREE at its exit
 *		slot.job_id, helping	the worker
 *		slot.cancel		any backend sets it; the worker clears it when it begins a job
 *		slot.leave		launcher and backends set it; the worker obeys between two jobs
 *		slot counters	the worker alone, atomics, no lock
 *		blocked_db		a backend that is about to need a database for itself
 *
 * No secret is ever here.  Nothing here raises except pgos_shmem_require().
 */
#ifndef PGOS_SHMEM_H
#define PGOS_SHMEM_H

#include "postgres.h"

#include "job/job.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/latch.h"
#include "storage/lwlock.h"

typedef struct PgosLane
{
	bool		in_use;
	Oid			database;
	Oid			role;
	uint32		pending;  /* jobs that may wait, and seats; 0: nothing to do */
	uint32		seats;	  /* of pending: places in teams that wait for a helper */
	uint64		added_at; /* value of shared->additions after the last addition */
	TimestampTz since;	  /* when pending became > 0: the order of service */
	int			failures; /* workers in a row that ended without having taken a job */
	TimestampTz retry_at; /* no worker is started before */
} PgosLane;

typedef enum PgosSlotState
{
	PGOS_SLOT_FREE,
	PGOS_SLOT_STARTING,
	PGOS_SLOT_IDLE,
	PGOS_SLOT_BUSY
} PgosSlotState;

typedef struct PgosSlot
{
	PgosSlotState state;
	uint32		  generation; /* grows with each use: a late worker knows that it is not meant */
	Oid			  database;
	Oid			  role; /* InvalidOid: a scan of the database for jobs left over */
	pid_t		  pid;
	Latch		 *latch;
	int64		  job_id;  /* 0: none */
	int64		  helping; /* job whose team this worker has joined, or 0 */
	bool		  cancel;  /* objstore_cancel() was called for job_id */
	bool		  leave;   /* exit when no job is running */

	pg_atomic_uint64 rows;
	pg_atomic_uint64 raw_bytes;
	pg_atomic_uint64 stored_bytes;
	pg_atomic_uint64 parts;
	pg_atomic_uint64 done_units;  /* of total_units: what percent is made of */
	pg_atomic_uint64 total_units; /* 0: not known */
} PgosSlot;

typedef struct PgosShared
{
	LWLock			 *lock;
	Latch			 *launcher;	 /* NULL while there is none */
	ConditionVariable job_ended; /* broadcast after the commit that ended a job */
	TimestampTz started_at;		 /* when this memory was laid out: at the start, or after a crash */
	uint64		additions;		 /* to lanes, so far */
	bool		scan_all; /* lanes were full, or the server has started: look into every database */
	Oid			scan_database; /* a worker died in the middle of a job of this one */
	Oid			blocked_db;	   /* no worker may be started here, by blocked_by */
	pid_t		blocked_by;
	int			slot_count;
	int			lane_count;
	PgosLane   *lanes;
	struct PgosTeam *teams; /* PGOS_TEAM_COUNT, see team.h */
	PgosSlot		 slots[FLEXIBLE_ARRAY_MEMBER];
} PgosShared;

/* NULL without shared_preload_libraries. */
extern PgosShared *pgos_shared;

/* Hooks into the layout of shared memory; called by _PG_init while libraries are preloaded. */
extern void pgos_shmem_init(void);

/* Raises, saying what to put into postgresql.conf, unless the library was preloaded. */
extern void pgos_shmem_require(void);

/*
 * Adds jobs to a lane and wakes whoever serves it.  Never raises: called after commit.  With no lane free the
 * launcher is told to look into the tables.
 */
extern void pgos_lane_add(Oid database, Oid role, uint32 jobs);

/* The same for places in a team. */
extern void pgos_lane_add_seats(Oid database, Oid role, uint32 seats);

/* Asks the launcher for a scan of the database.  The caller holds the lock exclusively, and wakes the launcher. */
extern void pgos_want_scan(Oid database);

/* The lane, or NULL.  The caller holds the lock. */
extern PgosLane *pgos_lane_find(Oid database, Oid role);

/*
 * A worker of the lane did not come up or ended with an error: the next one is started after a delay that
 * doubles each time.  The caller holds the lock exclusively.
 */
extern void pgos_lane_failed(Oid database, Oid role);

/* The worker of this process, or NULL. */
extern PgosSlot *pgos_my_slot;

#endif
