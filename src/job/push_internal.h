/*
 * push_internal.h
 *		What the files of a push share: push.c (the job), push_stream.c (streams and objects), push_plan.c (how a
 *		relation is split).
 */
#ifndef PGOS_PUSH_INTERNAL_H
#define PGOS_PUSH_INTERNAL_H

#include "copy/copy_stream.h"
#include "job/run.h"
#include "job/team.h"
#include "store/store.h"
#include "stream/sink.h"

typedef struct PgosPush
{
	PgosRun    *run;
	PgosJob    *job;
	PgosSpec   *spec;
	char	   *place;			/* job->path in UTF-8 */
	bool		is_folder;
	List	   *old_keys;		/* keys (char *) of the dataset that is replaced */
	char	   *object_key;		/* of a single object, or of the first */
	const char *suffix;			/* of the names of objects in a folder, or NULL */
	PgosPutCondition condition; /* of the objects */
	List	   *copy_options;

	/* the stream of this worker (push_stream.c) */
	PgosSink   *zstd;			/* made once, used for one object after the other */
	PgosSink   *head;			/* where COPY writes, or NULL between two objects */
	PgosSink   *upload;
	List	   *pending;		/* of PgosPushObject: ended, not completed */
	int64		rows;			/* of objects before the one under way */
	int64		raw_bytes;
	int64		stored_bytes;
	int			parts;
	int64		estimated_rows; /* 0: not known; of the whole relation */
	PgosTeam   *team;			/* or NULL */
} PgosPush;

/* An object on its way. */
typedef struct PgosPushObject
{
	PgosSink   *upload;
	PgosJobObject *object;
	PgosTeamRange *range;		/* that takes the result, or NULL */
} PgosPushObject;

/* ---------------------------------------------------------------- push_stream.c */

/*
 * COPYs the relation (or the range of it) into an object of its own, up to the point where all is handed to
 * the network; the object is completed later.  In a transaction.
 */
extern void pgos_push_stream_copy(PgosPush *push, Oid relid, List *columns,
								  const PgosBlockRange *range, const char *key,
								  PgosTeamRange *result);

/* Completes what is pending; the objects are appended to run->written.  In or out of a transaction. */
extern void pgos_push_stream_complete(PgosPush *push);

/* ---------------------------------------------------------------- push_plan.c */

/*
 * Fills the team's ranges for the relation: at least two, or none when it is to be pushed as one stream; then
 * *note says why, if the reason is not just its size.  Locks partitions.  In the transaction of the snapshot.
 */
extern int	pgos_push_plan(PgosPush *push, Relation rel, PgosTeam *team, int workers, char **note);

#endif
