/*
 * utc.c
 *		Seconds since 1970 as the compact UTC text of signatures and dataset folders.
 */
#include "core/utc.h"

#include <time.h>

/* 9999-12-31 23:59:59 UTC */
#define LAST_SECOND INT64CONST(253402300799)

void
pgos_utc_format(pg_time_t seconds, char out[PGOS_UTC_SIZE])
{
	time_t	  t = (time_t) Min(Max(seconds, 0), LAST_SECOND);
	struct tm tm;

	/* Digits only: strftime() would do, but its result depends on the locale. */
	if (gmtime_r(&t, &tm) == NULL)
		memset(&tm, 0, sizeof(tm));
	/* The remainders change nothing; they tell the compiler that the fields are narrow. */
	snprintf(out, PGOS_UTC_SIZE, "%04d%02d%02dT%02d%02d%02dZ", (tm.tm_year + 1900) % 10000,
			 (tm.tm_mon + 1) % 100, tm.tm_mday % 100, tm.tm_hour % 100, tm.tm_min % 100,
			 tm.tm_sec % 100);
}
