/*
 * copy_to_direct.h
 *		COPY TO into a sink by the direct encoder (copy/encode.h), without COPY.
 *
 * Privileges, row-level security, kinds of relations, snapshot, and generated, dropped and missing columns are as
 * COPY has them.  Runs in a worker, within a transaction, with an active snapshot; raises what COPY would.
 */
#ifndef PGOS_COPY_TO_DIRECT_H
#define PGOS_COPY_TO_DIRECT_H

#include "postgres.h"

#include "copy/copy_stream.h"
#include "nodes/parsenodes.h"

/*
 * Writes the relation (columns; range) if that can be done with these options; returns NULL then and sets *rows.
 * Else returns why not, and nothing has been written.  query: what COPY would be given in place of the
 * relation, with its text, or NULL for a plain table.
 */
extern const char *pgos_copy_to_direct(Relation rel, List *columns, List *options,
									   const PgosBlockRange *range, Node *query, const char *sql,
									   PgosSink *sink, PgosCopyTick tick, void *arg, int64 *rows);

#endif
