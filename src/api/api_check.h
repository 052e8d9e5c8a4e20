/*
 * api_check.h
 *		What the functions that enqueue jobs share: arguments, checks in the caller's session, the enqueueing.
 *
 * Runs in the caller's backend and transaction; everything raises.
 */
#ifndef PGOS_API_CHECK_H
#define PGOS_API_CHECK_H

#include "postgres.h"

#include "fmgr.h"
#include "foreign/foreign.h"
#include "job/job.h"

/* The first thing to call: the library is preloaded, the transaction may write. */
extern void pgos_check_can_enqueue(const char *function);

/* A text argument; NULL for null.  pgos_arg_word(): one that must not be null. */
extern char *pgos_arg_text(FunctionCallInfo fcinfo, int arg);
extern char *pgos_arg_word(FunctionCallInfo fcinfo, int arg, const char *name);
/* An argument name[]: names (char *); NIL for null. */
extern List *pgos_arg_names(FunctionCallInfo fcinfo, int arg);

/* The argument parallel, 0 for null. */
extern int pgos_arg_parallel(FunctionCallInfo fcinfo, int arg);

/* The server that a call names or the default: exists, is ours, may be used, has what it needs. */
extern ForeignServer *pgos_check_server(FunctionCallInfo fcinfo, int arg);
/* The role must be able to connect: the job runs in a session of its own. */
extern void pgos_check_role(void);
extern void pgos_check_path(const char *path);
/* The columns (NIL: all) exist and may be read. */
extern void pgos_check_select(Oid relid, List *columns);
extern void pgos_check_not_temporary(Oid relid);
/* A relation that rows can be pulled into: table, partitioned or foreign table, view with an INSTEAD OF trigger. */
extern void pgos_check_target(Oid relid);

extern char *pgos_qualified_name(const char *schema, const char *table);

/* Inserts the job's row and remembers it for the commit; returns the id. */
extern int64 pgos_enqueue(PgosJob *job);

#endif
