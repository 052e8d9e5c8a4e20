/*
 * enqueue.c
 *		The link between a caller's transaction and the queue.
 *
 * A list of what this transaction has enqueued, in TopTransactionContext, with the subtransaction that each
 * belongs to.  The callbacks are registered once in a backend's life.  At XACT_EVENT_COMMIT the rows are
 * visible already and nothing may raise: it takes an LWLock and sets latches, no more.
 * Runs in the backends that call the functions.
 */
#include "postgres.h"

#include "access/xact.h"
#include "job/enqueue.h"
#include "job/shmem.h"
#include "miscadmin.h"
#include "utils/memutils.h"

typedef struct PgosEnqueued
{
	struct PgosEnqueued *next;
	int64				 job_id;
	Oid					 role;
	SubTransactionId	 subid;
} PgosEnqueued;

static PgosEnqueued *pgos_enqueued = NULL;
static bool			 pgos_enqueue_registered = false;

static void
pgos_enqueue_xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
			while (pgos_enqueued != NULL)
			{
				Oid	   role = pgos_enqueued->role;
				uint32 jobs = 0;

				/* a thousand jobs of one role are one visit to the queue */
				while (pgos_enqueued != NULL && pgos_enqueued->role == role)
				{
					jobs++;
					pgos_enqueued = pgos_enqueued->next;
				}
				pgos_lane_add(MyDatabaseId, role, jobs);
			}
			break;
		case XACT_EVENT_ABORT:
			pgos_enqueued = NULL;
			break;
		case XACT_EVENT_PRE_PREPARE:
			if (pgos_enqueued != NULL)
				ereport(
					ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot PREPARE a transaction that has enqueued a job of pgobjstore"),
					 errhint("Enqueue the job in a transaction that ends with COMMIT.")));
			break;
		default:
			break;
	}
}

static void
pgos_enqueue_subxact_callback(SubXactEvent event, SubTransactionId mine, SubTransactionId parent,
							  void *arg)
{
	PgosEnqueued **link = &pgos_enqueued;

	while (*link != NULL)
	{
		if ((*link)->subid == mine)
		{
			if (event == SUBXACT_EVENT_ABORT_SUB)
			{
				*link = (*link)->next;
				continue;
			}
			if (event == SUBXACT_EVENT_COMMIT_SUB)
				(*link)->subid = parent;
		}
		link = &(*link)->next;
	}
}

void
pgos_enqueue_remember(int64 job_id, Oid role)
{
	PgosEnqueued *entry;

	if (!pgos_enqueue_registered)
	{
		RegisterXactCallback(pgos_enqueue_xact_callback, NULL);
		RegisterSubXactCallback(pgos_enqueue_subxact_callback, NULL);
		pgos_enqueue_registered = true;
	}
	entry = MemoryContextAlloc(TopTransactionContext, sizeof(PgosEnqueued));
	entry->job_id = job_id;
	entry->role = role;
	entry->subid = GetCurrentSubTransactionId();
	entry->next = pgos_enqueued;
	pgos_enqueued = entry;
}

bool
pgos_enqueue_is_mine(int64 job_id)
{
	for (PgosEnqueued *entry = pgos_enqueued; entry != NULL; entry = entry->next)
	{
		if (entry->job_id == job_id)
			return true;
	}
	return false;
}
