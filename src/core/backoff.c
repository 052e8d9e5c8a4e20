/*
 * backoff.c
 *		How long to wait before a failed request is sent again, and when to give up.
 */
#include "core/backoff.h"

#include <limits.h>

int64
pgos_backoff_delay(const PgosBackoffPolicy *policy, int attempts, int64 elapsed_ms, int retry_after,
				   double random)
{
	int64 remaining = policy->max_total_ms - elapsed_ms;
	int64 asked = 0;
	int64 bound = policy->base_ms;
	int64 jitter;
	int	  i;

	if (retry_after > 0)
		asked = Min((int64) retry_after * 1000, policy->retry_after_cap_ms);

	/* Coming back earlier than the server asked for would only fail again. */
	if (attempts >= policy->max_attempts || remaining <= 0 || asked > remaining)
		return -1;

	for (i = 1; i < attempts && bound < policy->cap_ms; i++)
		bound *= 2;
	bound = Min(bound, policy->cap_ms);

	/* The guard keeps a bad random number within the promise, NaN included. */
	jitter = random > 0 ? (int64) (Min(random, 1.0) * (double) bound) : 0;

	/* The last attempt starts at the very end of the time rather than not at all. */
	return Min(asked + jitter, remaining);
}

int
pgos_backoff_parse_retry_after(const char *value)
{
	int64		seconds = 0;
	const char *p = value;

	if (p == NULL)
		return PGOS_NO_RETRY_AFTER;
	while (*p == ' ' || *p == '\t')
		p++;
	if (*p < '0' || *p > '9')
		return PGOS_NO_RETRY_AFTER;
	for (; *p >= '0' && *p <= '9'; p++)
		seconds = Min(seconds * 10 + (*p - '0'), INT_MAX);
	while (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n')
		p++;
	return *p == '\0' ? (int) seconds : PGOS_NO_RETRY_AFTER;
}
