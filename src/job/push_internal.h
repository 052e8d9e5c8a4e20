/*
 * push_internal.h
 *		What the files of a push share: push.c (the job), push_stream.c (streams and objects), push_plan.c (how a
 *		relation is split).
 */
#ifndef PGOS_PUSH_INTERNAL_H
#define PGOS_PUSH_INTERNAL_H

#include "copy/copy_stream.h"
#include "job/manifest.h"
#include "job/run.h"
#include "job/team.h"
#include "store/store.h"
#include "stream/sink.h"

typedef struct PgosPush
{
	PgosRun			*run;
	PgosJob			*job;
	PgosSpec		*spec;
	char			*place; /* job->path in UTF-8 */
	bool			 is_folder;
	List			*old_keys;	 /* keys (char *) of the dataset that is replaced */
	char			*object_key; /* of a single object, or of the first */
	const char		*suffix;	 /* of the names of objects in a folder, or NULL */
	PgosPutCondition condition;	 /* of the objects */
	List			*copy_options;

	/* the stream of this worker (push_stream.c) */
	PgosSink			  *zstd; /* made once, used for one object after the other */
	PgosSink			  *head; /* where COPY writes, or NULL between two objects */
	PgosSink			  *upload;
	struct PgosPushObject *current; /* under way, or NULL */
	List				  *pending; /* of PgosPushObject: ended, not completed */
	int64				   rows;	/* of objects before the one under way */
	int64				   raw_bytes;
	int64				   stored_bytes;
	int					   parts;
	int64				   estimated_rows; /* 0: not known; of the whole relation */
	PgosTeam			  *team;		   /* or NULL */
	List				  *tables;		   /* of PgosManifestTable: a push of tables */
} PgosPush;

/* An object on its way. */
typedef struct PgosPushObject
{
	PgosSink	  *upload;
	PgosJobObject *object;
	PgosTeamRange *range; /* that takes the result, or NULL */
} PgosPushObject;

/* ---------------------------------------------------------------- push_stream.c */

/*
 * COPYs the relation (or the range of it) into an object of its own, up to the point where all is handed to
 * the network; what it returns is filled when the object is completed.  In a transaction.
 */
extern PgosJobObject *
pgos_push_stream_copy(PgosPush *push, Oid relid, List *columns, const PgosBlockRange *range,
					  const char *key, PgosTeamRange *result);

/*
 * COPYs the relation into an object that others share; key is that of a new object, if none is under way.
 * *offset, set when the object is completed at the latest, is where the relation's frames begin.
 */
extern PgosJobObject *pgos_push_stream_pack(PgosPush *push, Oid relid, List *columns,
											const char *key, int64 *offset, int64 *rows);

/* Ends a shared object that has so many bytes (raw), if one is under way. */
extern void pgos_push_stream_end_pack(PgosPush *push, int64 max_raw_bytes);

/* Completes what is pending; the objects are appended to run->written.  In or out of a transaction. */
extern void pgos_push_stream_complete(PgosPush *push);

/* ---------------------------------------------------------------- push.c */

extern PgosPush *pgos_push_begin(PgosRun *run);

/* The objects (PgosJobObject) of the ranges that are done, which no worker of the team works on any more. */
extern List *pgos_push_team_objects(PgosPush *push, PgosTeam *team);

/* ---------------------------------------------------------------- push_tables.c */

/* COPYs all relations of a push of tables, in the transaction of the snapshot. */
extern void pgos_push_tables(PgosPush *push);

/* Columns of the relation's rows: those given, or all that COPY exports. */
extern List *pgos_push_columns(Relation rel, List *columns);

/* ---------------------------------------------------------------- push_plan.c */

/*
 * Fills the team's ranges for the relation: at least two, or none when it is to be pushed as one stream; then
 * *note says why, if the reason is not just its size.  Locks partitions.  In the transaction of the snapshot.
 */
extern int pgos_push_plan(PgosPush *push, Relation rel, PgosTeam *team, int workers, char **note);

#endif
