/*
 * test_backoff.c
 *		Waits between attempts: bounds, limits, Retry-After.
 */
#include "tap.h"

#include <limits.h>

#include "core/backoff.h"

static const PgosBackoffPolicy policy = {
	.base_ms = PGOS_BACKOFF_BASE_MS,
	.cap_ms = PGOS_BACKOFF_CAP_MS,
	.retry_after_cap_ms = PGOS_BACKOFF_RETRY_AFTER_CAP_MS,
	.max_attempts = 10,
	.max_total_ms = 300000,
};

/* The largest random number below 1. */
#define ALMOST_ONE 0.99999999999999989

static int64
delay(int attempts, int64 elapsed, int retry_after, double random)
{
	return pgos_backoff_delay(&policy, attempts, elapsed, retry_after, random);
}

int
main(void)
{
	/* base 200 ms, doubled, capped at 20 s */
	static const int64 bounds[] = {200, 400, 800, 1600, 3200, 6400, 12800, 20000, 20000};
	PgosBackoffPolicy  other = policy;
	int				   i;

	for (i = 0; i < lengthof(bounds); i++)
	{
		int64  top = delay(i + 1, 0, PGOS_NO_RETRY_AFTER, ALMOST_ONE);
		double random;
		bool   inside = true;

		is_int(delay(i + 1, 0, PGOS_NO_RETRY_AFTER, 0.0), 0, "least wait");
		is_int(delay(i + 1, 0, PGOS_NO_RETRY_AFTER, 0.5), bounds[i] / 2, "middle wait");
		ok(top >= bounds[i] - 1 && top <= bounds[i], "longest wait after attempt %d", i + 1);
		for (random = 0; random < 1; random += 0.001)
		{
			int64 wait = delay(i + 1, 0, PGOS_NO_RETRY_AFTER, random);

			inside = inside && wait >= 0 && wait <= bounds[i];
		}
		ok(inside, "all waits after attempt %d are within bounds", i + 1);
	}

	/* limits */
	ok(delay(9, 0, PGOS_NO_RETRY_AFTER, 0.5) >= 0, "the tenth attempt is made");
	is_int(delay(10, 0, PGOS_NO_RETRY_AFTER, 0.5), -1, "the eleventh is not");
	is_int(delay(INT_MAX, 0, PGOS_NO_RETRY_AFTER, 0.5), -1, "nor any later");
	is_int(delay(1, 300000, PGOS_NO_RETRY_AFTER, 0.5), -1, "time is up");
	is_int(delay(1, PG_INT64_MAX, PGOS_NO_RETRY_AFTER, 0.5), -1, "time is long up");
	is_int(delay(9, 299000, PGOS_NO_RETRY_AFTER, 0.5), 1000, "the wait ends with the time");
	other.max_attempts = INT_MAX;
	is_int(pgos_backoff_delay(&other, INT_MAX - 1, 0, PGOS_NO_RETRY_AFTER, 0.5), 10000,
		   "very many attempts");
	other.cap_ms = 50;
	is_int(pgos_backoff_delay(&other, 1, 0, PGOS_NO_RETRY_AFTER, 0.5), 25, "cap below base");

	/* Retry-After: at least as long as asked, up to the cap */
	is_int(delay(1, 0, 5, 0.0), 5000, "asked for 5 s");
	is_int(delay(1, 0, 5, 0.5), 5100, "jitter on top");
	is_int(delay(1, 0, 0, 0.5), 100, "asked for nothing");
	is_int(delay(1, 0, 60, 0.0), 60000, "asked for the cap");
	is_int(delay(1, 0, 61, 0.0), 60000, "asked for more than the cap");
	is_int(delay(1, 0, INT_MAX, 0.0), 60000, "asked for ages");
	is_int(delay(1, 296000, 5, 0.0), -1, "no use in coming back too early");
	is_int(delay(1, 295000, 5, 0.5), 5000, "just in time");

	/* bad random numbers do no harm */
	is_int(delay(1, 0, PGOS_NO_RETRY_AFTER, -3.0), 0, "negative random number");
	is_int(delay(1, 0, PGOS_NO_RETRY_AFTER, 1e300), 200, "huge random number");

	is_int(pgos_backoff_parse_retry_after("0"), 0, "header 0");
	is_int(pgos_backoff_parse_retry_after("120"), 120, "header 120");
	is_int(pgos_backoff_parse_retry_after(" 7\r\n"), 7, "header with blanks");
	is_int(pgos_backoff_parse_retry_after("99999999999999999999999999"), INT_MAX, "huge header");
	is_int(pgos_backoff_parse_retry_after(NULL), PGOS_NO_RETRY_AFTER, "no header");
	is_int(pgos_backoff_parse_retry_after(""), PGOS_NO_RETRY_AFTER, "empty header");
	is_int(pgos_backoff_parse_retry_after("-1"), PGOS_NO_RETRY_AFTER, "negative header");
	is_int(pgos_backoff_parse_retry_after("3x"), PGOS_NO_RETRY_AFTER, "header with a tail");
	is_int(pgos_backoff_parse_retry_after("1.5"), PGOS_NO_RETRY_AFTER, "header with a fraction");
	is_int(pgos_backoff_parse_retry_after("Fri, 31 Dec 1999 23:59:59 GMT"), PGOS_NO_RETRY_AFTER,
		   "header with a date");
	return tap_end();
}
