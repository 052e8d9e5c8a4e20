/*
 * test_utc.c
 *		Times as text.  The runner sets a TZ far from UTC; expected values are date(1)'s.
 */
#include "tap.h"

#include <limits.h>

#include "core/utc.h"

static void
formats(pg_time_t seconds, const char *want)
{
	char out[PGOS_UTC_SIZE];

	pgos_utc_format(seconds, out);
	is_str(out, want, want);
}

int
main(void)
{
	formats(0, "19700101T000000Z");
	formats(1369353600, "20130524T000000Z");
	formats(951827696, "20000229T123456Z");
	formats(1704067199, "20231231T235959Z");
	formats(2147483648, "20380119T031408Z");
	formats(4107542400, "21000301T000000Z");
	formats(INT64CONST(253402300799), "99991231T235959Z");
	formats(INT64CONST(253402300800), "99991231T235959Z");
	formats(PG_INT64_MAX, "99991231T235959Z");
	formats(-1, "19700101T000000Z");
	formats(PG_INT64_MIN, "19700101T000000Z");
	return tap_end();
}
