/*
 * team.h
 *		A team: the workers that run one job together.
 *
 * The worker that claimed the job is the leader.  It fills a team in shared memory (for a push ranges of blocks and
 * the exported snapshot, for a pull one range for each object or for some tables), opens it, and begins to take
 * ranges itself; idle workers of the same database and role join and take others until there are none.  So a team needs no helper to make progress, and one that comes
 * late is no harm.
 *
 *		free --(leader: new)--> filled --(open)--> open --(leader: close, or a failure)--> closed --(last one out)--> free
 *
 * Who changes what, under pgos_shared->lock unless said otherwise:
 *		everything before open		the leader alone
 *		joined, active, importing	helpers, when they join, have the snapshot, leave
 *		failed and the error		whoever fails first
 *		lost						helpers, when their process ends
 *		copy_reason					whoever is first
 *		next_range					anybody, atomically
 *		a range's result			whoever took the range, read by the leader after all have left
 *
 * Nothing here raises except pgos_team_check() and pgos_team_wait().
 */
#ifndef PGOS_TEAM_H
#define PGOS_TEAM_H

#include "postgres.h"

#include "job/job.h"
#include "port/atomics.h"
#include "storage/block.h"
#include "storage/condition_variable.h"

#define PGOS_TEAM_COUNT 32
#define PGOS_TEAM_RANGES 256

typedef struct PgosTeamRange
{
	Oid			relid;
	BlockNumber first;
	BlockNumber end; /* first block behind it; InvalidBlockNumber: no end */
	/* result */
	bool   done;
	int64  rows;
	int64  raw_bytes;
	int64  bytes;
	uint32 crc;
	int	   parts;
	char   etag[128];
} PgosTeamRange;

typedef struct PgosTeam
{
	bool  in_use;
	bool  open; /* helpers may join */
	Oid	  database;
	Oid	  role;
	int64 job_id;
	pid_t leader_pid;
	int	  seats; /* helpers wanted */
	int	  joined;
	int	  importing;   /* joined, but without the snapshot yet */
	int	  active;	   /* joined and not left */
	pid_t helpers[64]; /* 0: has left */
	bool  helper_importing[64];
	bool  told; /* helpers have been told to stop */
	bool  lost; /* a helper was terminated, and took nothing back */
	bool  failed;
	/* of the first failure */
	int	 sqlstate;
	char message[512];
	char detail[1024];
	char hint[512];
	char request_id[128];

	char copy_reason[200]; /* why rows of a pull were not decoded directly, or "" */

	char			  snapshot[64]; /* name of the exported snapshot */
	char			  folder[1100]; /* of the dataset that is pulled */
	char			  suffix[64];	/* of the object's names, or "" */
	int				  condition;	/* PgosPutCondition of the objects */
	ConditionVariable changed;
	pg_atomic_uint32  next_range;
	int				  range_count;
	PgosTeamRange	  ranges[PGOS_TEAM_RANGES];
} PgosTeam;

extern Size pgos_team_shmem_size(void);
extern void pgos_team_shmem_init(PgosTeam *teams);

/* ---------------------------------------------------------------- leader */

/* A team for the job, not open yet; NULL when all are in use: go alone. */
extern PgosTeam *pgos_team_new(int64 job_id);
/* Lets up to `seats` helpers join, and calls for them. */
extern void pgos_team_open(PgosTeam *team, int seats);
/* No more helpers; waits until those that joined have the snapshot.  Raises if interrupted. */
extern void pgos_team_close(PgosTeam *team);
/* Waits until all helpers have left, then raises if one of them failed. */
extern void pgos_team_wait(PgosTeam *team);
/*
 * The leader has failed: tells the helpers to stop and waits until they have, a minute at most.  Does not raise
 * for their errors.
 */
extern void pgos_team_stop(PgosTeam *team);
/* Gives the team back; it is free when the last helper has left. */
extern void pgos_team_release(PgosTeam *team);

/* ---------------------------------------------------------------- helpers */

/* Joins a team of this worker's lane that wants helpers; NULL if there is none. */
extern PgosTeam *pgos_team_join(void);
/* The snapshot has been imported. */
extern void pgos_team_imported(PgosTeam *team);
/* Leaves; error: why, or NULL. */
extern void pgos_team_leave(PgosTeam *team, const ErrorData *error, const char *request_id);

/* ---------------------------------------------------------------- both */

/* For the exit of a worker: leaves whatever team it is in, which makes the team fail.  Never raises. */
extern void pgos_team_exit(void);

/* The next range to work on; NULL when there are no more. */
extern PgosTeamRange *pgos_team_next_range(PgosTeam *team);
/* A worker of a pull took COPY; reason NULL: it did not. */
extern void pgos_team_note_copy(PgosTeam *team, const char *reason);
/* When somebody of the team has failed: raises that error in the leader, ERRCODE_QUERY_CANCELED in a helper. */
extern void pgos_team_check(PgosTeam *team);

#endif
