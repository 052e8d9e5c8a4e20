/*
 * copy_load.h
 *		Loading the rows of streams into one relation: what a pull does with each of its objects.
 *
 *		pgos_load_begin()		once, with the relation open and locked
 *		pgos_load_object()		for each object, in order
 *
 * Rows are decoded directly where that does what COPY FROM would do, else by COPY FROM.  What that cannot do is
 * done by an INSERT whose source are the rows as COPY's parser reads them: ON CONFLICT, row-level security, views without a trigger, columns of the file that
 * the relation does not have, and values that are not in the file.
 *
 * Needs a transaction; pushes the snapshots it needs itself.  Rights are those of the current user.  Raises;
 * looks for interrupts.  One load at a time in a process.  Runs in a worker.
 */
#ifndef PGOS_COPY_LOAD_H
#define PGOS_COPY_LOAD_H

#include "postgres.h"

#include "core/format.h"
#include "nodes/pg_list.h"
#include "stream/source.h"
#include "utils/relcache.h"

typedef enum PgosConflict
{
	PGOS_CONFLICT_ERROR,
	PGOS_CONFLICT_NOTHING,
	PGOS_CONFLICT_UPDATE
} PgosConflict;

/* How rows get into the relation. */
typedef struct PgosLoadSpec
{
	PgosConflict on_conflict;
	List		*conflict_columns; /* names (char *); NIL: the primary key, or any for NOTHING */
	bool		 skip;			   /* bad rows are reported and left out */
	int64		 max_line;		   /* skip: bytes of the longest record */
	bool		 map_header;	   /* the header line says which column is where */
	bool		 ignore_extra;	   /* columns of the file that the relation does not have */
	char		*path_column;	   /* takes the object's url, or NULL */
	char		*row_column;	   /* takes the number of the row in the object, or NULL */
	bool		 hive_columns;	   /* folders named key=value are columns */
	char		*datestyle;		   /* of dates that are not in ISO's form; NULL: the role's */
} PgosLoadSpec;

/* A row that was left out.  Texts are in the server's encoding. */
typedef struct PgosReject
{
	const char *url;
	int64		line;	/* where the row ends, counted from 1 */
	const char *column; /* or NULL */
	int			sqlstate;
	const char *message;
	const char *detail; /* or NULL */
	const char *raw;	/* the line as it is in the object, in its encoding; not terminated */
	size_t		raw_len;
	int			raw_encoding; /* as in pg_wchar.h */
} PgosReject;

typedef struct PgosLoadEvents
{
	/* Now and then: rows of the object loaded so far. */
	void (*tick)(int64 rows, void *arg);
	/* A row was left out; what it points to is gone when this returns.  Not inside of a subtransaction. */
	void (*reject)(const PgosReject *reject, void *arg);
	void *arg;
} PgosLoadEvents;

typedef struct PgosLoadObject
{
	const char *key; /* in the store, UTF-8 */
	const char *url;
	PgosFormat	format;
	List	   *options; /* for COPY (copy_options.h) */
	List
		*columns; /* names (char *) of the columns in the file, in order; NIL: as in the relation */
	List *wanted; /* of these, those to load; NIL: all */
	bool  own;	  /* written by a push: settings are as they were then */
} PgosLoadObject;

typedef struct PgosLoadCounts
{
	int64 read;	  /* rows in the object */
	int64 loaded; /* rows inserted, or updated */
	int64 rejected;
} PgosLoadCounts;

typedef struct PgosLoad PgosLoad;

/* new_relation: made in this very (sub)transaction.  Everything lives in the current memory context. */
extern PgosLoad *pgos_load_begin(Relation rel, bool new_relation, const PgosLoadSpec *spec,
								 const PgosLoadEvents *events);

/* source: a peek source (peek_source.h); it is read to its end. */
extern void pgos_load_object(PgosLoad *load, const PgosLoadObject *object, PgosSource *source,
							 PgosLoadCounts *counts);

/* Why rows were not decoded directly, in words that follow "engine copy: "; NULL: all were. */
extern const char *pgos_load_copy_reason(const PgosLoad *load);

/* Whether triggers may have left rows out, so that the count of rows proves nothing. */
extern bool pgos_load_may_drop_rows(const PgosLoad *load);

#endif
