/*
 * job_table_internal.h
 *		What the files of job_table.h share: statements on the tables of the extension.
 *
 * Everything raises.
 */
#ifndef PGOS_JOB_TABLE_INTERNAL_H
#define PGOS_JOB_TABLE_INTERNAL_H

#include "job/job_table.h"

#include "executor/spi.h"

#define PGOS_MAX_ARGS 16

/* A statement with one %s or more for the schema, prepared at its first use. */
typedef struct PgosStatement
{
	const char *sql;
	int			nargs;
	Oid			types[PGOS_MAX_ARGS];
	SPIPlanPtr	plan;
	Oid			schema; /* that the plan was made for */
} PgosStatement;

typedef struct PgosTableState
{
	Oid schema;
	Oid owner;
	Oid saved_user;
	int saved_context;
	int guc_level;
} PgosTableState;

/* Becomes the extension's owner until pgos_table_leave(); an error in between is undone by the abort. */
extern void pgos_table_enter(PgosTableState *state);
extern void pgos_table_leave(PgosTableState *state);

/* expected: what SPI must answer.  Returns the number of rows. */
extern int pgos_table_execute(PgosTableState *state, PgosStatement *statement, Datum *values,
							  const char *nulls, int expected);

/* A text argument; *null: 'n' or ' '. */
extern Datum pgos_text_or_null(const char *text, char *null);

#endif
