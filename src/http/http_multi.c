/*
 * http_multi.c
 *		libcurl's multi handle as one pollable descriptor, and the pool of easy handles.
 *
 * libcurl says through callbacks which sockets it watches and when it wants to be called; sockets go into an
 * epoll descriptor of our own, which can be waited for together with the process latch.  The multi handle,
 * the descriptor and the pool live until the process exits: with them the connections, so that the next job
 * needs no new handshake.
 *
 * libcurl starts threads (to resolve names).  A thread inherits the signal mask, and a server's signal handler
 * must not run in it, so all signals are blocked around every call that may start one.  This also keeps
 * handlers that raise (a worker's default SIGTERM) from unwinding through libcurl.
 *
 * One per process, any process but the postmaster.  Raises only where the header says so, never in a callback.
 */
#include "postgres.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "http/http_internal.h"
#include "miscadmin.h"
#include "storage/fd.h"

/* Idle easy handles kept; each holds up to one transfer buffer. */
#define POOL_SIZE 16
/* Idle and busy connections kept in all. */
#define CONNECTIONS_KEPT 128
/* Rounds of work without a wait: more is left to the next call, so that interrupts are looked at. */
#define MAX_ROUNDS 16
#define EVENTS_PER_ROUND 64

static CURLM *multi = NULL;
static int	  epoll_fd = -1;
static int64  timer_due = -1; /* pgos_http_now() terms; -1: none */
static CURL	 *pool[POOL_SIZE];
static int	  pool_used = 0;

int64
pgos_http_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void
block_signals(sigset_t *saved)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, saved);
}

static void
restore_signals(const sigset_t *saved)
{
	pthread_sigmask(SIG_SETMASK, saved, NULL);
}

/*
 * CURLMOPT_SOCKETFUNCTION.  socket_data is non-NULL once the socket is in the epoll set.  A descriptor that
 * was closed and opened again under the same number is the reason for the second tries.
 */
static int
socket_callback(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_data)
{
	struct epoll_event event = {0};
	int				   op = socket_data != NULL ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	if (what == CURL_POLL_REMOVE)
	{
		(void) epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, &event);
		return 0;
	}

	event.data.fd = fd;
	if (what & CURL_POLL_IN)
		event.events |= EPOLLIN;
	if (what & CURL_POLL_OUT)
		event.events |= EPOLLOUT;

	if (epoll_ctl(epoll_fd, op, fd, &event) != 0)
	{
		if (op == EPOLL_CTL_MOD && errno == ENOENT)
			op = EPOLL_CTL_ADD;
		else if (op == EPOLL_CTL_ADD && errno == EEXIST)
			op = EPOLL_CTL_MOD;
		else
			return -1;
		if (epoll_ctl(epoll_fd, op, fd, &event) != 0)
			return -1;
	}
	(void) curl_multi_assign(multi, fd, &epoll_fd);
	return 0;
}

/* CURLMOPT_TIMERFUNCTION. */
static int
timer_callback(CURLM *m, long timeout_ms, void *arg)
{
	timer_due = timeout_ms < 0 ? -1 : pgos_http_now() + timeout_ms;
	return 0;
}

/* Creates everything at first use.  Leaves nothing half made when it raises. */
static void
ensure_multi(void)
{
	CURLM	   *m;
	sigset_t	saved;
	static bool global_done = false;

	if (multi != NULL)
		return;

	/* The postmaster would hand libcurl's state down to every child. */
	Assert(IsUnderPostmaster || !IsPostmasterEnvironment);

	if (epoll_fd < 0)
	{
		ReserveExternalFD();
		epoll_fd = epoll_create1(EPOLL_CLOEXEC);
		if (epoll_fd < 0)
		{
			ReleaseExternalFD();
			ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_RESOURCES),
							errmsg("could not create epoll descriptor: %m")));
		}
	}

	block_signals(&saved);
	if (!global_done)
		global_done = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
	m = global_done ? curl_multi_init() : NULL;
	if (m != NULL &&
		(curl_multi_setopt(m, CURLMOPT_SOCKETFUNCTION, socket_callback) != CURLM_OK ||
		 curl_multi_setopt(m, CURLMOPT_TIMERFUNCTION, timer_callback) != CURLM_OK ||
		 curl_multi_setopt(m, CURLMOPT_PIPELINING, (long) CURLPIPE_NOTHING) != CURLM_OK ||
		 curl_multi_setopt(m, CURLMOPT_MAXCONNECTS, (long) CONNECTIONS_KEPT) != CURLM_OK))
	{
		curl_multi_cleanup(m);
		m = NULL;
	}
	restore_signals(&saved);

	if (m == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("could not initialize libcurl")));
	multi = m;
}

CURL *
pgos_multi_easy_get(void)
{
	CURL *easy;

	ensure_multi();
	if (pool_used > 0)
		return pool[--pool_used];
	easy = curl_easy_init();
	if (easy == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY), errmsg("could not create a libcurl handle")));
	return easy;
}

void
pgos_multi_easy_put(CURL *easy, bool reuse)
{
	if (reuse && pool_used < POOL_SIZE)
	{
		curl_easy_reset(easy);
		pool[pool_used++] = easy;
	}
	else
	{
		sigset_t saved;

		block_signals(&saved);
		curl_easy_cleanup(easy);
		restore_signals(&saved);
	}
}

CURLMcode
pgos_multi_add(CURL *easy)
{
	CURLMcode code;
	sigset_t  saved;

	block_signals(&saved);
	code = curl_multi_add_handle(multi, easy);
	restore_signals(&saved);
	return code;
}

void
pgos_multi_remove(CURL *easy)
{
	sigset_t saved;

	block_signals(&saved);
	(void) curl_multi_remove_handle(multi, easy);
	restore_signals(&saved);
}

void
pgos_multi_pump(void)
{
	sigset_t saved;
	int		 running;

	if (multi == NULL)
		return;

	block_signals(&saved);
	for (int round = 0; round < MAX_ROUNDS; round++)
	{
		struct epoll_event events[EVENTS_PER_ROUND];
		bool			   worked = false;
		int				   n;

		n = epoll_wait(epoll_fd, events, EVENTS_PER_ROUND, 0);
		for (int i = 0; i < n; i++)
		{
			int mask = 0;

			if (events[i].events & (EPOLLIN | EPOLLHUP))
				mask |= CURL_CSELECT_IN;
			if (events[i].events & EPOLLOUT)
				mask |= CURL_CSELECT_OUT;
			if (events[i].events & EPOLLERR)
				mask |= CURL_CSELECT_ERR;
			(void) curl_multi_socket_action(multi, events[i].data.fd, mask, &running);
			worked = true;
		}
		if (timer_due >= 0 && timer_due <= pgos_http_now())
		{
			timer_due = -1;
			(void) curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running);
			worked = true;
		}
		if (!worked)
			break;
	}
	restore_signals(&saved);
}

CURL *
pgos_multi_finished(CURLcode *code)
{
	CURLMsg *message;
	int		 left;

	if (multi == NULL)
		return NULL;
	while ((message = curl_multi_info_read(multi, &left)) != NULL)
	{
		if (message->msg == CURLMSG_DONE)
		{
			*code = message->data.result;
			return message->easy_handle;
		}
	}
	return NULL;
}

int64
pgos_multi_due(void)
{
	return timer_due;
}

int
pgos_multi_fd(void)
{
	ensure_multi();
	return epoll_fd;
}
