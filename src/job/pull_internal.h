/*
 * pull_internal.h
 *		What the files of a pull share.
 *
 *		pull.c				the transaction
 *		pull_resolve.c		which objects there are to be pulled
 *		pull_object.c		one object: fetched ahead, format and compression, loaded
 *		pull_rejects.c		rows that are left out
 *		pull_parallel.c		by several workers, into a table that the job creates
 *
 * Everything of a run lives in run->context; everything raises.
 */
#ifndef PGOS_PULL_INTERNAL_H
#define PGOS_PULL_INTERNAL_H

#include "postgres.h"

#include "compat.h"

#include "copy/copy_load.h"
#include "job/manifest.h"
#include "job/run.h"
#include "stream/source.h"

typedef struct PgosPull
{
	PgosRun	 *run;
	PgosJob	 *job;
	PgosSpec *spec;
	/* pull_resolve.c */
	char		 *folder;			/* of the dataset in UTF-8, or NULL: there is no manifest */
	PgosManifest *manifest;			/* or NULL */
	List		 *objects;			/* of PgosJobObject, in the order of loading */
	List		 *manifest_options; /* for COPY, of a dataset */
	int64		  total_bytes;
	/* pull_object.c */
	PgosLoad *load;
	List	 *streams; /* of PgosPullStream: the object under way first, then those fetched ahead */
	int		  next_open;	  /* first object that is not fetched yet */
	PgosSource *decoded;	  /* of the object under way, or NULL */
	int64		stored_bytes; /* of the objects before the one under way */
	int64		raw_bytes;
	int64		rows; /* loaded */
	int64		rows_read;
	/* pull_rejects.c */
	int64		  rejects;
	List		 *reject_rows; /* of PgosRejectRow, not written yet */
	size_t		  reject_bytes;
	MemoryContext reject_context;
	StringInfo	  first_rejects; /* for the message when there are too many */
} PgosPull;

/* ---------------------------------------------------------------- pull_resolve.c */

/* Fills folder, manifest, objects and total_bytes.  With no transaction open. */
extern void pgos_pull_resolve(PgosPull *pull);
extern void
pgos_pull_not_found(PgosPull *pull, const char *key, const char *what) pg_attribute_noreturn();

/* ---------------------------------------------------------------- pull.c */

/* Fills run->result with what was loaded into the relation. */
extern void pgos_pull_result(PgosPull *pull, Oid relid);

/* ---------------------------------------------------------------- pull_parallel.c */

/* How many workers the pull is worth and may have: 1 for one stream.  With no transaction open. */
extern int pgos_pull_workers(PgosPull *pull);

/* Runs the pull with that many workers, to its commit; false: no team is free, nothing was done. */
extern bool pgos_pull_parallel(PgosPull *pull, int workers);

/* ---------------------------------------------------------------- pull_object.c */

/* Loads every object, in order. */
extern void pgos_pull_load(PgosPull *pull, Relation rel, bool new_relation);

/* ---------------------------------------------------------------- pull_rejects.c */

/* PgosLoadEvents.reject; raises when there are more than allowed. */
extern void pgos_pull_reject(const PgosReject *reject, void *pull);
/* After the last row: writes what is left; raises when it is a larger share of the rows than allowed. */
extern void pgos_pull_rejects_finish(PgosPull *pull);

#endif
