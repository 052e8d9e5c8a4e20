/*
 * thread.h
 *		The one thread that a stream may have, for work that knows nothing of PostgreSQL: compression.
 *
 * What its owner and the thread share is guarded by `mutex`; whoever changes it broadcasts `changed`.  All
 * signals are blocked in the thread, and it touches neither palloc nor ereport: errors are left where the owner
 * finds them.  The owner ends the thread in a reset callback of the memory context that holds what they share.
 */
#ifndef PGOS_THREAD_H
#define PGOS_THREAD_H

#include <pthread.h>

#include "postgres.h"

typedef struct PgosThread
{
	pthread_mutex_t mutex;
	pthread_cond_t	changed;
	pthread_t		thread;
	bool			running;
	bool			stop; /* under the mutex: the thread shall return */
} PgosThread;

extern void pgos_thread_init(PgosThread *thread);

/* Whether it could be started. */
extern bool pgos_thread_start(PgosThread *thread, void *(*main)(void *), void *arg);

/*
 * For the owner, when it has to wait for the thread: called, and returns, with the mutex held; waits for the next
 * change, a moment at most.  Meanwhile the network goes on.  Raises if the job is cancelled, and then the mutex is free.
 */
extern void pgos_thread_wait(PgosThread *thread);

/* Stops the thread, if there is one, and waits for its end; what was made by init goes. */
extern void pgos_thread_end(PgosThread *thread);

#endif
