/*
 * copy_stream.h
 *		COPY between a relation and a stream: the only users of commands/copy.h besides copy_options.
 *
 * One COPY at a time in a process.  Both need a transaction; they push the snapshot they need themselves.
 * Rights are those of the current user.  Both raise; both look for interrupts.
 */
#ifndef PGOS_COPY_STREAM_H
#define PGOS_COPY_STREAM_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "storage/block.h"
#include "stream/sink.h"
#include "stream/source.h"
#include "utils/relcache.h"

/* A part of a heap table: the rows in blocks first .. end - 1; end InvalidBlockNumber: to the last. */
typedef struct PgosBlockRange
{
	BlockNumber first;
	BlockNumber end;
} PgosBlockRange;

/* Told now and then (about every 64 kB) how far COPY is. */
typedef void (*PgosCopyTick)(int64 rows, void *arg);

/* Who wrote the rows: COPY, or the direct encoder (copy/encode.h) with the same bytes. */
typedef enum PgosCopyEngine
{
	PGOS_ENGINE_COPY,
	PGOS_ENGINE_DIRECT
} PgosCopyEngine;

typedef struct PgosCopyToResult
{
	int64		   rows;
	PgosCopyEngine engine;
	const char	  *reason; /* why not the direct encoder, or NULL; a constant */
} PgosCopyToResult;

/*
 * COPY relation (columns) TO sink.  columns: names (char *), NIL for all that COPY exports.  range: NULL for the
 * whole relation; else it must be a heap table (or materialized view) without inheritance to be considered, and
 * the current user must have SELECT on it as a whole.  Every row ends with pgos_sink_row_end(); the sink is not
 * ended.  Runs under the transaction's snapshot.
 */
extern PgosCopyToResult
pgos_copy_to(Oid relid, List *columns, List *options, const PgosBlockRange *range, PgosSink *sink,
			 PgosCopyTick tick, void *arg);

/*
 * Raises unless the current user may COPY FROM into these columns of the relation now (privileges, read-only
 * transaction).  Row-level security is not looked at: COPY FROM does not apply it.
 */
extern void pgos_copy_from_check(Relation rel, List *columns);

/*
 * Loads what a push wrote, to the end of the source: COPY relation (columns) FROM source, in the plainest way that
 * copy_load.h has.  url: for messages; freeze: the relation is new in this subtransaction.  *copy_reason: as
 * pgos_load_copy_reason(), in the current context.
 */
extern int64
pgos_copy_from(Relation rel, List *columns, List *options, bool freeze, const char *url,
			   PgosSource *source, PgosCopyTick tick, void *arg, const char **copy_reason);

/* Makes the list of String nodes that the parser's structures want out of a list of char *. */
extern List *pgos_copy_name_list(List *columns);

#endif
