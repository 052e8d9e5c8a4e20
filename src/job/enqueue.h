/*
 * enqueue.h
 *		The link between a caller's transaction and the queue.
 */
#ifndef PGOS_ENQUEUE_H
#define PGOS_ENQUEUE_H

#include "postgres.h"

/*
 * Remembers that the current (sub)transaction has inserted the row of a job.  When the top transaction
 * commits, the lane of (database, role) is told; a rollback, also to a savepoint, forgets it; PREPARE
 * TRANSACTION raises.
 */
extern void pgos_enqueue_remember(int64 job_id, Oid role);

/*
 * Remembers that it has cancelled a job that was waiting.  Workers pass by a row that is locked; so the lane is told
 * if it is rolled back.
 */
extern void pgos_enqueue_remember_cancel(int64 job_id, Oid role);

/* Whether this transaction has enqueued the job (and so must not wait for it). */
extern bool pgos_enqueue_is_mine(int64 job_id);

#endif
