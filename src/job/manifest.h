/*
 * manifest.h
 *		The manifest of a dataset: the JSON object that makes it visible.  See docs/MANIFEST.md.
 */
#ifndef PGOS_MANIFEST_H
#define PGOS_MANIFEST_H

#include "access/xlogdefs.h"
#include "job/job.h"
#include "lib/stringinfo.h"
#include "store/store.h"

/* Manifests are small, but a partitioned table may have thousands of partitions in it. */
#define PGOS_MANIFEST_MAX_BYTES ((size_t) 256 * 1024 * 1024)

/* A relation of a dataset of many. */
typedef struct PgosManifestTable
{
	char		  *definition; /* writing: JSON text (copy/ddl.h), server's encoding */
	Jsonb		  *relation;   /* reading: the same */
	List		  *columns;	   /* of the rows, names (char *) */
	PgosJobObject *object;	   /* that holds its rows */
	bool		   packed;	   /* with those of others */
	int64		   offset;	   /* of its rows in the object, and how many stored bytes they are */
	int64		   bytes;
	int64		   rows;
} PgosManifestTable;

/* What goes into a manifest besides the job itself. */
typedef struct PgosManifestInput
{
	const char *database;
	const char *relation;	  /* JSON text of the definition (copy/ddl.h), server's encoding */
	List	   *columns;	  /* of the rows, names (char *) */
	List	   *tables;		  /* of PgosManifestTable, instead of relation and columns */
	List	   *copy_options; /* as given to COPY */
	XLogRecPtr	lsn;		  /* of the snapshot */
	TimestampTz started_at;
} PgosManifestInput;

/* The JSON text in UTF-8.  result: with its objects; their keys become relative to the folder job->path. */
extern StringInfo
pgos_manifest_text(const PgosJob *job, const PgosManifestInput *input, const PgosJobResult *result);

typedef struct PgosManifest
{
	Jsonb		   *json;	  /* the whole */
	Jsonb		   *relation; /* member "relation"; NULL: a dataset of tables */
	List		   *tables;	  /* of PgosManifestTable */
	PgosFormat		format;
	PgosCompression compression;
	Jsonb		   *copy_options; /* as the job's options, to read it back */
	List		   *columns;	  /* names (char *) of the columns in the rows */
	int64			rows;
	int64			bytes;	 /* of all objects */
	List		   *objects; /* of PgosJobObject, keys absolute in the store */
} PgosManifest;

/*
 * Reads <folder>manifest.json; NULL when there is none.  Checks all that it will be used for; a manifest that
 * makes no sense is ERRCODE_DATA_CORRUPTED.  Needs a transaction for nothing.
 */
extern PgosManifest *pgos_manifest_read(PgosStore *store, const char *folder);

/*
 * The newest dataset among the folders right below the prefix (which ends in '/'): their names begin with the
 * time.  NULL when none has a manifest; else *folder is where it is.
 */
extern PgosManifest *pgos_manifest_read_newest(PgosStore *store, const char *prefix, char **folder);

/*
 * Whether <folder>manifest.json was written by this job (of this cluster).  Then *result is what it says.
 */
extern bool pgos_manifest_is_of_job(PgosManifest *manifest, const PgosJob *job);

#endif
