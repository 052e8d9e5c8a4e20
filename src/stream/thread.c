/*
 * thread.c
 *		The one thread that a stream may have, for work that knows nothing of PostgreSQL: compression.
 *
 * Runs in a worker; only pgos_thread_init() and pgos_thread_wait() may raise.
 */
#include "postgres.h"

#include <signal.h>
#include <time.h>

#include "compat.h"
#include "miscadmin.h"
#include "store/store.h"
#include "stream/thread.h"
#include "utils/wait_event.h"

/* How long the owner waits before it looks after the network and interrupts again. */
#define PGOS_THREAD_WAIT_NS (10 * 1000 * 1000)
#define PGOS_NS_PER_S (1000 * 1000 * 1000)

/* A name from PostgreSQL 17 on, which has to be asked for where no mutex is held: that may raise. */
static uint32 pgos_thread_wait_event = 0;

void
pgos_thread_init(PgosThread *thread)
{
	(void) PGOS_COMPAT_WAIT_EVENT(pgos_thread_wait_event, "ObjstoreCompression");
	pthread_mutex_init(&thread->mutex, NULL);
	pthread_cond_init(&thread->changed, NULL);
	thread->running = false;
	thread->stop = false;
}

bool
pgos_thread_start(PgosThread *thread, void *(*main)(void *), void *arg)
{
	sigset_t all;
	sigset_t saved;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	thread->running = pthread_create(&thread->thread, NULL, main, arg) == 0;
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	return thread->running;
}

void
pgos_thread_wait(PgosThread *thread)
{
	struct timespec deadline;

	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_nsec += PGOS_THREAD_WAIT_NS;
	if (deadline.tv_nsec >= PGOS_NS_PER_S)
	{
		deadline.tv_sec++;
		deadline.tv_nsec -= PGOS_NS_PER_S;
	}
	pgstat_report_wait_start(PGOS_COMPAT_WAIT_EVENT(pgos_thread_wait_event, "ObjstoreCompression"));
	(void) pthread_cond_timedwait(&thread->changed, &thread->mutex, &deadline);
	pgstat_report_wait_end();
	pthread_mutex_unlock(&thread->mutex);
	pgos_store_wait(NULL, 0);
	CHECK_FOR_INTERRUPTS();
	pthread_mutex_lock(&thread->mutex);
}

void
pgos_thread_end(PgosThread *thread)
{
	if (thread->running)
	{
		pthread_mutex_lock(&thread->mutex);
		thread->stop = true;
		pthread_cond_broadcast(&thread->changed);
		pthread_mutex_unlock(&thread->mutex);
		pthread_join(thread->thread, NULL);
		thread->running = false;
	}
	pthread_cond_destroy(&thread->changed);
	pthread_mutex_destroy(&thread->mutex);
}
