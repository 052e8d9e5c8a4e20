/*
 * job.h
 *		What a job is: its kinds, its states, its row in memory.
 *
 * States, and who moves a job from one to the next:
 *
 *		             (commit of the caller's transaction)
 *		                         |
 *		                         v
 *		   .------------->    queued  ---(objstore_cancel)------------------>  cancelled
 *		   |                     |                                                 ^
 *		   | launcher's scan:    | worker claims it (attempts + 1)                 |
 *		   | its worker is gone, v                                                 |
 *		   | attempts left    running  ---(objstore_cancel, pg_cancel_backend)-----'
 *		   '---------------------|
 *		                         |---(error, or worker gone and no attempts left)->  failed
 *		                         '---(a pull: in the transaction of its rows)----->  done
 */
#ifndef PGOS_JOB_H
#define PGOS_JOB_H

#include "postgres.h"

#include "copy/copy_load.h"
#include "core/format.h"
#include "nodes/pg_list.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

typedef enum PgosJobKind
{
	PGOS_JOB_PUSH,
	PGOS_JOB_PULL,
	PGOS_JOB_PUSH_TABLES,
	PGOS_JOB_PULL_TABLES
} PgosJobKind;

typedef enum PgosIfExists
{
	PGOS_IF_EXISTS_ERROR,
	PGOS_IF_EXISTS_REPLACE
} PgosIfExists;

typedef enum PgosPullMode
{
	PGOS_MODE_APPEND,
	PGOS_MODE_REPLACE,
	PGOS_MODE_CREATE
} PgosPullMode;

/* The arguments of a call, checked.  options keeps the JSON as given: COPY's members are read from there. */
typedef struct PgosSpec
{
	PgosFormat		format;
	bool			has_format; /* pull: given, not guessed */
	PgosCompression compression;
	bool			has_compression; /* pull: given, not guessed */
	List		   *columns;		 /* names (char *), NIL for all */
	PgosIfExists	if_exists;		 /* push */
	bool			own_folder;		 /* push: the path is a new folder made for this job alone */
	PgosPullMode	mode;			 /* pull */
	int				parallel;		 /* workers; 0: the GUC's */
	bool			packed;			 /* push of tables: small ones share objects */
	List		   *relids;			 /* push of tables, in order */
	List  *relations;	/* of tables: qualified names (char *); pull: those wanted, NIL for all */
	int	   level;		/* push: zstd */
	int64  part_size;	/* bytes, 0: the store's */
	int	   concurrency; /* 0: the store's */
	int64  frame_size;	/* bytes */
	Jsonb *options;
	/* pull */
	PgosLoadSpec load;
	int64		 reject_limit;	 /* rows, -1: none */
	double		 reject_percent; /* of the rows, -1: none */
	bool		 skip_loaded;	 /* leave out objects that were loaded before */
	/* for a pull into a relation that does not exist yet */
	char *schema;
	char *table;
} PgosSpec;

typedef struct PgosJob
{
	int64		job_id;
	PgosJobKind kind;
	char	   *relation; /* qualified and quoted, for people */
	Oid			relid;	  /* InvalidOid: does not exist yet */
	char	   *server;
	Oid			serverid;
	char	   *path; /* NULL: a pull of the newest dataset */
	Oid			owner;
	TimestampTz enqueued_at;
	int			attempts; /* including this one, if no crash has lost the count */
	bool		again;	  /* an earlier attempt may have left something in the store */
	Jsonb	   *spec_json;
	PgosSpec   *spec;
} PgosJob;

/* One object that a job wrote or read. */
typedef struct PgosJobObject
{
	char  *key; /* in the store */
	char  *url; /* for people */
	int64  bytes;
	int64  rows;	  /* -1: not known */
	int64  raw_bytes; /* -1: not known */
	bool   has_crc;
	uint32 crc;
	char  *etag;
	int	   parts;
} PgosJobObject;

/* What a job that succeeded has done. */
typedef struct PgosJobResult
{
	char	   *path; /* where it was; replaces the row's NULL */
	int64		rows;
	int64		raw_bytes;
	int64		stored_bytes;
	int			parts;
	List	   *objects; /* of PgosJobObject */
	int64		rejects; /* rows left out, -1: rows are never left out */
	Oid			relid;	 /* that was loaded, if the job did not know it; else InvalidOid */
	const char *engine;	 /* "direct" or "copy": how rows became bytes, or bytes rows */
	char	   *note;	 /* what the user should know about how it ran, or NULL */
} PgosJobResult;

extern const char *pgos_job_kind_name(PgosJobKind kind);
extern PgosJobKind pgos_job_kind_parse(const char *name);

static inline bool
pgos_job_kind_is_push(PgosJobKind kind)
{
	return kind == PGOS_JOB_PUSH || kind == PGOS_JOB_PUSH_TABLES;
}

#endif
