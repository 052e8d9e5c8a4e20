/*
 * pull_tables_internal.h
 *		What the files of a pull of tables share.
 *
 *		pull_tables.c			the transaction, one table after the other
 *		pull_tables_parallel.c	tables that are new, by several workers, before it
 *
 * Everything of a run lives in run->context; everything raises.
 */
#ifndef PGOS_PULL_TABLES_INTERNAL_H
#define PGOS_PULL_TABLES_INTERNAL_H

#include "postgres.h"

#include "job/manifest.h"
#include "job/run.h"
#include "stream/source.h"

/* An object that is being fetched or will be. */
typedef struct PgosPullObject
{
	PgosJobObject *object;
	List		  *tables;	 /* of PgosManifestTable, by offset: those that are to be loaded */
	PgosSource	  *download; /* or NULL: not begun */
} PgosPullObject;

typedef struct PgosPullTables
{
	PgosRun		 *run;
	PgosJob		 *job;
	PgosSpec	 *spec;
	char		 *folder; /* in UTF-8 */
	PgosManifest *manifest;
	List		 *copy_options;
	List		 *tables; /* of PgosManifestTable: all that are wanted, in the order of loading */
	List		 *job_objects; /* of PgosJobObject: all that they are in */
	int64		  total_bytes; /* of these */
	bool		  staging;	   /* load out of sight */
	List		 *schemas;	   /* names (char *) of the schemas that tables are staged for */
	/* of the load under way */
	MemoryContext scratch;	  /* of one table, with its decompressing thread; or NULL */
	List		 *objects;	  /* of PgosPullObject, in order */
	int			  next_begin; /* first object that is not begun */
	PgosSource	 *download;
	/* since the beginning of the transaction or of the team */
	int64 stored_bytes; /* of objects before the one under way */
	int64 raw_bytes;
	int64 rows;
	List *created; /* of PgosManifestTable, and their OIDs */
	List *created_relids;
} PgosPullTables;

/* ---------------------------------------------------------------- pull_tables.c */

/* Opens the store, reads the manifest (job->path), finds the tables.  With no transaction open. */
extern PgosPullTables *pgos_pull_tables_begin(PgosRun *run);

/* schema.name, quoted */
extern char *pgos_pull_tables_name(PgosManifestTable *table);

/* The schema's OID; it is made if it is not there.  Needs an active snapshot. */
extern Oid pgos_pull_tables_schema(const char *schema);

/* Loads these (part of pull->tables, in the same order) in the transaction that is open. */
extern void pgos_pull_tables_load(PgosPullTables *pull, List *tables);

/* The table has been made here: foreign keys will be built. */
extern void pgos_pull_tables_created(PgosPullTables *pull, PgosManifestTable *table, Oid relid);

/* After an error in a load: closes what is being fetched, and begins anew. */
extern void pgos_pull_tables_forget(PgosPullTables *pull);

/* ---------------------------------------------------------------- pull_tables_parallel.c */

/*
 * Loads tables with several workers where that may be done, and answers which; NIL: none, and the reason is in
 * the result's note if the caller asked for workers.  With no transaction open.
 */
extern List *pgos_pull_tables_parallel(PgosPullTables *pull);

/* Gives these their place, in the transaction that is open. */
extern void pgos_pull_tables_publish(PgosPullTables *pull, List *staged);

/* The schema in which tables of that schema are staged. */
extern char *pgos_pull_tables_staging(PgosPullTables *pull, const char *schema);

#endif
