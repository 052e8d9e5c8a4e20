/*
 * job_table.h
 *		The durable rows of jobs (tables objstore_job and objstore_object).
 *
 * All functions need a transaction and raise.  They work with the rights of the extension's owner, with
 * search_path pinned to pg_catalog; nothing of a user's is executed by them.
 */
#ifndef PGOS_JOB_TABLE_H
#define PGOS_JOB_TABLE_H

#include "job/job.h"

/*
 * Begins a transaction for bookkeeping in a worker: read committed and writable whatever the role's defaults
 * are, and without waiting for the disk at commit: what these record can be found out again after a crash.
 */
extern void pgos_job_begin_bookkeeping(void);

/* False when the extension does not exist in this database (any more). */
extern bool pgos_job_tables_exist(void);

extern int64 pgos_job_next_id(void);
extern void	 pgos_job_insert(const PgosJob *job);

/*
 * Takes the oldest waiting job of the role: state running, attempts + 1.  Allocates *job and all it points to
 * in the context; its spec is not parsed yet.  False when none waits.
 */
extern bool pgos_job_claim(Oid owner, MemoryContext context, PgosJob *job);

/* The row of a job that is running, for a helper; raises if there is none. */
extern void pgos_job_get(int64 job_id, MemoryContext context, PgosJob *job);

/* Ends of a running job. */
extern void pgos_job_finish(const PgosJob *job, const PgosJobResult *result);
extern void
pgos_job_fail(const PgosJob *job, bool cancelled, const ErrorData *error, const char *request_id);

/* queued -> cancelled; false when it was not waiting. */
extern bool pgos_job_cancel_waiting(int64 job_id);

/* Owner and state of a job by the newest snapshot; false when there is no such job. */
extern bool pgos_job_look(int64 job_id, Oid *owner, char **state);

/*
 * Puts running jobs back that no worker runs; is_running tells which do.  Jobs of roles that were dropped fail.
 */
extern void pgos_job_requeue_orphans(bool (*is_running)(int64 job_id));

/* Calls back for each role that has waiting jobs. */
extern void pgos_job_each_waiting(void (*callback)(Oid owner, int64 jobs));

/* The row of view objstore_jobs as a composite datum, by the newest snapshot and with the caller's rights. */
extern Datum pgos_job_view_row(int64 job_id, Oid function_oid);

/* ---------------------------------------------------------------- pulls (job_table_pull.c) */

/* A row that a pull left out, as it is shown: texts in the server's encoding. */
typedef struct PgosRejectRow
{
	int64 number; /* in the job */
	char *url;
	int64 line;
	char *column; /* or NULL */
	int	  sqlstate;
	char *message;
	char *detail; /* or NULL */
	char *raw_line;
} PgosRejectRow;

extern void pgos_job_insert_rejects(const PgosJob *job, List *rejects);

/*
 * Of the objects (PgosJobObject), those that no pull that is done has loaded into the relation: same url, same
 * etag.  By the newest snapshot, if the transaction is read committed.
 */
extern List *pgos_job_not_loaded(Oid relid, List *objects);

#endif
