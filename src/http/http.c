/*
 * http.c
 *		Operations: their states, retries, time limits; the loop that waits for them.
 *
 *		waiting ──launch──> active ──libcurl, or a time limit──> ended ──judge──> done
 *		   ^                                                       │
 *		   └───────────── retry after a pause, next step ──────────┘
 *
 * Each operation that is not done is in just one of three lists of the process, and leaves it in its memory
 * context's reset callback at the latest.  If prepare(), judge() or end() raises, the operation stays in the
 * state it was in; whoever catches the error drops it with its context.
 *
 * Runs in background workers and backends.
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "compat.h"
#include "core/backoff.h"
#include "guc.h"
#include "http/http_internal.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/memutils.h"

/* Operations on the wire at a time in one process; the others wait their turn. */
#define MAX_ACTIVE 128

/* Progress is looked at this often; a pause of the caller's longer than this is no stall of the server's. */
#define STALL_CHECK_MS 500

/*
 * An attempt that always makes some progress may still not go on for ever: this many request timeouts, plus
 * the time that its body takes at a rate below any useful one.
 */
#define MAX_TIMEOUTS 10
#define MIN_BYTES_PER_MS 16

/* Failures that users cause by a wrong setting show soon: refused connections, unknown hosts. */
#define BRIEF_ATTEMPTS 3
#define BRIEF_BASE_MS 1000
#define BRIEF_TOTAL_MS 3000

typedef enum OpState
{
	OP_WAITING, /* for its time, or for a free slot */
	OP_ACTIVE,	/* on the wire */
	OP_ENDED,	/* the reply is to be judged */
	OP_DONE		/* in no list */
} OpState;

struct PgosHttpOp
{
	dlist_node			  node; /* in the list of its state */
	OpState				  state;
	MemoryContext		  context;		   /* this operation's */
	MemoryContext		  attempt_context; /* reset before each attempt */
	MemoryContextCallback callback;

	const PgosHttpOwner *owner;
	void				*arg;
	PgosHttpCounters	*counters;

	int64			due;		   /* OP_WAITING: not before */
	int				attempts;	   /* begun in this step */
	int64			began;		   /* first attempt of this step */
	int64			failing_since; /* end of its first failed attempt; 0: none failed yet */
	PgosHttpAttempt attempt;
};

static dlist_head waiting_ops = DLIST_STATIC_INIT(waiting_ops);
static dlist_head active_ops = DLIST_STATIC_INIT(active_ops);
static dlist_head ended_ops = DLIST_STATIC_INIT(ended_ops);
static int		  active_count = 0;

/* When the process drove HTTP last, and when it looked for stalls last. */
static int64 last_driven = 0;
static int64 last_stall_check = 0;

/* ---------------------------------------------------------------- states */

/* Takes the operation out of its list and off the wire. */
static void
leave_state(PgosHttpOp *op)
{
	if (op->state == OP_DONE)
		return;
	dlist_delete(&op->node);
	if (op->state == OP_ACTIVE)
		active_count--;
	op->state = OP_DONE;
}

static void
enter_state(PgosHttpOp *op, OpState state)
{
	leave_state(op);
	op->state = state;
	switch (state)
	{
		case OP_WAITING:
			dlist_push_tail(&waiting_ops, &op->node);
			break;
		case OP_ACTIVE:
			dlist_push_tail(&active_ops, &op->node);
			active_count++;
			break;
		case OP_ENDED:
			dlist_push_tail(&ended_ops, &op->node);
			break;
		case OP_DONE:
			break;
	}
}

/* Reset callback of the operation's context. */
static void
op_release(void *arg)
{
	PgosHttpOp *op = arg;

	leave_state(op);
	pgos_attempt_clear(&op->attempt);
}

/* Begins the next attempt.  The operation stays where it is when this raises. */
static void
launch(PgosHttpOp *op)
{
	PgosHttpAttempt *attempt = &op->attempt;
	MemoryContext	 old;
	const char		*error;

	pgos_attempt_clear(attempt);
	MemoryContextReset(op->attempt_context);
	old = MemoryContextSwitchTo(op->attempt_context);

	attempt->request.connect_timeout = pgos_connect_timeout;
	attempt->request.request_timeout = pgos_request_timeout;
	error = op->owner->prepare(op->arg, op->attempts + 1, &attempt->request);
	if (error == NULL)
		pgos_attempt_begin(attempt, op);
	else
		pgos_attempt_abort(attempt, PGOS_HTTP_FAULT_NOT_SENT, error);
	MemoryContextSwitchTo(old);

	enter_state(op, error == NULL ? OP_ACTIVE : OP_ENDED);
	op->attempts++;
	if (op->attempts == 1)
		op->began = pgos_http_now();
	else
		op->counters->retries++;
	op->counters->requests++;
}

/* Begins what is due, first come, first served. */
static void
launch_due(void)
{
	int64			   now = pgos_http_now();
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &waiting_ops)
	{
		PgosHttpOp *op = dlist_container(PgosHttpOp, node, iter.cur);

		if (active_count >= MAX_ACTIVE)
			break;
		if (op->due <= now)
			launch(op);
	}
}

/* ---------------------------------------------------------------- ends */

static void
op_finish(PgosHttpOp *op, bool success)
{
	PgosHttpTries tries;
	MemoryContext old = MemoryContextSwitchTo(op->attempt_context);

	tries.attempts = op->attempts;
	tries.elapsed_ms = pgos_http_now() - op->began;
	op->owner->end(op->arg, success, &op->attempt.reply, &tries);
	MemoryContextSwitchTo(old);

	leave_state(op);
	pgos_attempt_clear(&op->attempt);
}

/* Milliseconds until the next attempt, or -1 when there were enough. */
static int64
retry_delay(PgosHttpOp *op, bool briefly)
{
	PgosBackoffPolicy policy = {.base_ms = briefly ? BRIEF_BASE_MS : PGOS_BACKOFF_BASE_MS,
								.cap_ms = briefly ? BRIEF_BASE_MS : PGOS_BACKOFF_CAP_MS,
								.retry_after_cap_ms = PGOS_BACKOFF_RETRY_AFTER_CAP_MS,
								.max_attempts = briefly ? Min(BRIEF_ATTEMPTS, pgos_max_retries)
														: pgos_max_retries,
								.max_total_ms = briefly ? BRIEF_TOTAL_MS : pgos_retry_timeout};
	int64			  now = pgos_http_now();

	/*
	 * The time limit is on failing, not on a first attempt that took long because its body is large.
	 */
	if (op->failing_since == 0)
		op->failing_since = now;
	return pgos_backoff_delay(&policy, op->attempts, now - op->failing_since,
							  op->attempt.reply.retry_after, pg_prng_double(&pg_global_prng_state));
}

static void
judge(PgosHttpOp *op)
{
	PgosHttpReply  *reply = &op->attempt.reply;
	MemoryContext	old = MemoryContextSwitchTo(op->attempt_context);
	PgosHttpVerdict verdict = op->owner->judge(op->arg, reply);
	int64			delay;

	MemoryContextSwitchTo(old);
	switch (verdict)
	{
		case PGOS_HTTP_DONE:
		case PGOS_HTTP_FAIL:
			op_finish(op, verdict == PGOS_HTTP_DONE);
			return;

		case PGOS_HTTP_RETRY:
		case PGOS_HTTP_RETRY_BRIEFLY:
			delay =
				retry_delay(op, verdict == PGOS_HTTP_RETRY_BRIEFLY || op->attempt.request.hurry);
			if (delay < 0)
			{
				op_finish(op, false);
				return;
			}
			op->due = pgos_http_now() + delay;
			break;

		case PGOS_HTTP_NEXT:
			op->attempts = 0;
			op->failing_since = 0;
			op->due = 0;
			break;
	}
	enter_state(op, OP_WAITING);
}

/* Counts the traffic of an attempt that is about to leave the wire. */
static void
count_traffic(PgosHttpOp *op)
{
	curl_off_t up = 0;
	curl_off_t down = 0;
	long	   status = 0;

	(void) curl_easy_getinfo(op->attempt.easy, CURLINFO_SIZE_UPLOAD_T, &up);
	(void) curl_easy_getinfo(op->attempt.easy, CURLINFO_SIZE_DOWNLOAD_T, &down);
	(void) curl_easy_getinfo(op->attempt.easy, CURLINFO_RESPONSE_CODE, &status);
	op->counters->bytes_sent += up;
	op->counters->bytes_received += down;
	if (status == 429 || status == 503)
		op->counters->throttles++;
}

/* Takes what libcurl has finished. */
static void
collect(void)
{
	CURL	*easy;
	CURLcode code;

	while ((easy = pgos_multi_finished(&code)) != NULL)
	{
		PgosHttpOp *op = NULL;

		(void) curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **) &op);
		count_traffic(op);
		pgos_attempt_end(&op->attempt, code);
		enter_state(op, OP_ENDED);
	}
}

/*
 * Ends attempts that make no progress.  The time in which this process did not drive HTTP does not count: the
 * bytes may have been waiting here.
 */
static void
check_stalls(int64 now, int64 absent_ms)
{
	dlist_mutable_iter iter;

	if (absent_ms <= STALL_CHECK_MS)
		absent_ms = 0;
	else if (absent_ms > 0)
		last_stall_check = 0;
	if (now - last_stall_check < STALL_CHECK_MS)
		return;
	last_stall_check = now;

	dlist_foreach_modify(iter, &active_ops)
	{
		PgosHttpOp		*op = dlist_container(PgosHttpOp, node, iter.cur);
		PgosHttpAttempt *attempt = &op->attempt;
		PgosHttpRequest *request = &attempt->request;
		int64			 bytes = pgos_attempt_progress(attempt);
		int64			 limit;
		char			 text[64];

		attempt->began += absent_ms;
		attempt->progress_at += absent_ms;
		if (bytes != attempt->progress_bytes)
		{
			attempt->progress_bytes = bytes;
			attempt->progress_at = now;
		}

		limit = (int64) request->request_timeout * MAX_TIMEOUTS +
				(int64) (request->body_len + request->dest_len) / MIN_BYTES_PER_MS;
		if (now - attempt->progress_at >= request->request_timeout)
		{
			snprintf(text, sizeof(text), "no progress for %d ms", request->request_timeout);
			count_traffic(op);
			pgos_attempt_abort(attempt, PGOS_HTTP_FAULT_STALLED, text);
			enter_state(op, OP_ENDED);
		}
		else if (now - attempt->began >= limit)
		{
			snprintf(text, sizeof(text), "not complete after " INT64_FORMAT " s", limit / 1000);
			count_traffic(op);
			pgos_attempt_abort(attempt, PGOS_HTTP_FAULT_TOO_SLOW, text);
			enter_state(op, OP_ENDED);
		}
	}
}

/* ---------------------------------------------------------------- the loop */

static bool
nothing_left(void)
{
	return dlist_is_empty(&waiting_ops) && dlist_is_empty(&active_ops) &&
		   dlist_is_empty(&ended_ops);
}

/* Everything that can be done without waiting. */
static void
act(void)
{
	int64 now = pgos_http_now();
	int64 absent_ms = active_count > 0 && last_driven > 0 ? now - last_driven : 0;

	launch_due();
	pgos_multi_pump();
	collect();
	now = pgos_http_now();
	check_stalls(now, absent_ms);
	while (!dlist_is_empty(&ended_ops))
		judge(dlist_head_element(PgosHttpOp, node, &ended_ops));
	launch_due();
	last_driven = pgos_http_now();
}

/* How long the loop may sleep: until something is due that no socket announces. */
static long
sleep_ms(int64 deadline)
{
	int64	   now = pgos_http_now();
	int64	   due = deadline;
	int64	   timer = pgos_multi_due();
	dlist_iter iter;

	if (!dlist_is_empty(&ended_ops))
		return 0;
	if (timer >= 0)
		due = Min(due, timer);
	if (active_count > 0)
		due = Min(due, now + STALL_CHECK_MS);
	if (active_count < MAX_ACTIVE)
	{
		dlist_foreach(iter, &waiting_ops) due =
			Min(due, dlist_container(PgosHttpOp, node, iter.cur)->due);
	}
	return (long) Max(Min(due - now, 60000), 0);
}

void
pgos_http_drive(long timeout_ms, bool (*until)(void *arg), void *arg)
{
	int64		  deadline = timeout_ms < 0 ? PG_INT64_MAX : pgos_http_now() + timeout_ms;
	static uint32 wait_event = 0;

	(void) wait_event; /* not used before PostgreSQL 17 */
	for (;;)
	{
		long pause;
		int	 rc;

		CHECK_FOR_INTERRUPTS();
		if (nothing_left())
			return;
		act();
		if (timeout_ms == 0 || (until != NULL && until(arg)) || nothing_left())
			return;
		if (pgos_http_now() >= deadline)
			return;

		pause = sleep_ms(deadline);
		if (pause == 0)
			continue;
		rc = WaitLatchOrSocket(
			MyLatch, WL_LATCH_SET | WL_SOCKET_READABLE | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
			pgos_multi_fd(), pause, PGOS_COMPAT_WAIT_EVENT(wait_event, "ObjstoreHttp"));
		if (rc & WL_LATCH_SET)
			ResetLatch(MyLatch);
		/* Time spent waiting here is time in which the server was listened to. */
		last_driven = pgos_http_now();
	}
}

/* ---------------------------------------------------------------- operations */

PgosHttpOp *
pgos_http_start(MemoryContext parent, const PgosHttpOwner *owner, void *arg,
				PgosHttpCounters *counters)
{
	MemoryContext context = AllocSetContextCreate(parent, "pgobjstore http", ALLOCSET_SMALL_SIZES);
	PgosHttpOp	 *op = MemoryContextAllocZero(context, sizeof(PgosHttpOp));

	op->context = context;
	op->state = OP_DONE;
	op->callback.func = op_release;
	op->callback.arg = op;
	MemoryContextRegisterResetCallback(context, &op->callback);
	op->attempt_context =
		AllocSetContextCreate(context, "pgobjstore http attempt", ALLOCSET_SMALL_SIZES);
	op->owner = owner;
	op->arg = arg;
	op->counters = counters;

	if (active_count == 0)
		last_driven = pgos_http_now();
	enter_state(op, OP_WAITING);
	launch_due();
	/* On a kept connection the request leaves now, also if the caller computes for a while. */
	pgos_multi_pump();
	return op;
}

bool
pgos_http_done(const PgosHttpOp *op)
{
	return op->state == OP_DONE;
}

void
pgos_http_cancel(PgosHttpOp *op)
{
	if (op != NULL)
		MemoryContextDelete(op->context);
}

/* ---------------------------------------------------------------- classification */

PgosHttpVerdict
pgos_http_classify(const PgosHttpReply *reply)
{
	switch (reply->fault)
	{
		case PGOS_HTTP_FAULT_NONE:
			break;

			/* A restart of the server, or a wrong setting: the user should not wait long for the latter. */
		case PGOS_HTTP_FAULT_RESOLVE:
		case PGOS_HTTP_FAULT_REFUSED:
		case PGOS_HTTP_FAULT_TLS:
			return PGOS_HTTP_RETRY_BRIEFLY;

		case PGOS_HTTP_FAULT_TLS_TRUST:
		case PGOS_HTTP_FAULT_TLS_CA_FILE:
		case PGOS_HTTP_FAULT_TOO_LARGE:
		case PGOS_HTTP_FAULT_NOT_SENT:
			return PGOS_HTTP_FAIL;

		case PGOS_HTTP_FAULT_CONNECT_TIMEOUT:
		case PGOS_HTTP_FAULT_STALLED:
		case PGOS_HTTP_FAULT_TOO_SLOW:
		case PGOS_HTTP_FAULT_BROKEN:
		case PGOS_HTTP_FAULT_MALFORMED:
		case PGOS_HTTP_FAULT_OTHER:
			return PGOS_HTTP_RETRY;
	}

	if (reply->status >= 200 && reply->status <= 299)
		return PGOS_HTTP_DONE;
	switch (reply->status)
	{
		case 408:
		case 429:
		case 500:
		case 502:
		case 503:
		case 504:
			return PGOS_HTTP_RETRY;
		default:
			return PGOS_HTTP_FAIL;
	}
}
