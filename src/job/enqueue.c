/*
 * enqueue.c
 *		The link between a caller's transaction and the queue.
 *
 * A list of what this transaction has enqueued, in TopTransactionContext, with the subtransaction that each
 * belongs to; and of the waiting jobs that it has cancelled, which wait again if it is rolled back, when the worker
 * has long passed them by.  The callbacks are registered once in a backend's life.  At XACT_EVENT_COMMIT the rows are
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
	bool				 cancelled; /* and not enqueued */
} PgosEnqueued;

static PgosEnqueued *pgos_enqueued = NULL;
static bool			 pgos_enqueue_registered = false;

/* Adds to the lanes what was enqueued (or cancelled), and empties the list. */
static void
pgos_enqueue_tell(bool cancelled)
{
	while (pgos_enqueued != NULL)
	{
		Oid	   role = pgos_enqueued->role;
		uint32 jobs = 0;

		/* a thousand jobs of one role are one visit to the queue */
		for (; pgos_enqueued != NULL && pgos_enqueued->role == role;
			 pgos_enqueued = pgos_enqueued->next)
			jobs += pgos_enqueued->cancelled == cancelled ? 1 : 0;
		if (jobs > 0)
			pgos_lane_add(MyDatabaseId, role, jobs);
	}
}

static void
pgos_enqueue_xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
			pgos_enqueue_tell(false);
			break;
		case XACT_EVENT_ABORT:
			pgos_enqueue_tell(true);
			break;
		case XACT_EVENT_PRE_PREPARE:
			if (pgos_enqueued != NULL)
				ereport(
					ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot PREPARE a transaction that has enqueued or cancelled a job of "
							"pgobjstore"),
					 errhint("Do it in a transaction that ends with COMMIT.")));
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
				if ((*link)->cancelled)
					pgos_lane_add(MyDatabaseId, (*link)->role, 1);
				*link = (*link)->next;
				continue;
			}
			if (event == SUBXACT_EVENT_COMMIT_SUB)
				(*link)->subid = parent;
		}
		link = &(*link)->next;
	}
}

static void
pgos_enqueue_note(int64 job_id, Oid role, bool cancelled)
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
	entry->cancelled = cancelled;
	entry->next = pgos_enqueued;
	pgos_enqueued = entry;
}

void
pgos_enqueue_remember(int64 job_id, Oid role)
{
	pgos_enqueue_note(job_id, role, false);
}

void
pgos_enqueue_remember_cancel(int64 job_id, Oid role)
{
	pgos_enqueue_note(job_id, role, true);
}

bool
pgos_enqueue_is_mine(int64 job_id)
{
	for (PgosEnqueued *entry = pgos_enqueued; entry != NULL; entry = entry->next)
	{
		if (entry->job_id == job_id && !entry->cancelled)
			return true;
	}
	return false;
}
