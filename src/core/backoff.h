/*
 * backoff.h
 *		How long to wait before a failed request is sent again, and when to give up.
 *
 * Exponential with full jitter: the wait before attempt n + 1 is a random share of
 * min(cap_ms, base_ms * 2^(n-1)), so that many workers that failed together do not come back together.
 *
 * Pure functions: the clock and the random number are the caller's.  Run anywhere, never raise, allocate
 * nothing.
 */
#ifndef PGOS_BACKOFF_H
#define PGOS_BACKOFF_H

#include "core/base.h"

typedef struct PgosBackoffPolicy
{
	int	  base_ms;			  /* upper end of the first wait */
	int	  cap_ms;			  /* upper end of every wait */
	int	  retry_after_cap_ms; /* longest wait that a server may ask for */
	int	  max_attempts;		  /* requests sent in all, the first one counted */
	int64 max_total_ms;		  /* no attempt starts later than this after the first one did */
} PgosBackoffPolicy;

#define PGOS_BACKOFF_BASE_MS 200
#define PGOS_BACKOFF_CAP_MS 20000
#define PGOS_BACKOFF_RETRY_AFTER_CAP_MS 60000

/* No Retry-After header, or one that is no number of seconds. */
#define PGOS_NO_RETRY_AFTER (-1)

/*
 * Milliseconds to wait before the next attempt, or -1 to give up.  attempts: how many have been made (>= 1).
 * elapsed_ms: since the first one began.  retry_after: seconds that the server asked for, or
 * PGOS_NO_RETRY_AFTER; the jitter then comes on top of them.  random: in [0, 1).
 */
extern int64 pgos_backoff_delay(const PgosBackoffPolicy *policy, int attempts, int64 elapsed_ms,
								int retry_after, double random);

/*
 * The seconds of a Retry-After header, saturating at INT_MAX; PGOS_NO_RETRY_AFTER for NULL, for an HTTP date
 * (object stores send none) and for nonsense.
 */
extern int pgos_backoff_parse_retry_after(const char *value);

#endif
