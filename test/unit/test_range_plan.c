/*
 * test_range_plan.c
 *		Ranges are disjoint, in order, and cover the object.
 */
#include "tap.h"

#include "core/range_plan.h"

static void
covers(int64 size, int64 chunk, int64 count)
{
	PgosRangePlan plan = {.size = size, .chunk = chunk};
	int64		  expected = 0;
	int64		  offset;
	int64		  len;
	int64		  i;
	bool		  good = true;

	is_int(pgos_range_plan_count(&plan), count, "number of ranges");
	for (i = 0; i < count; i++)
	{
		good = good && pgos_range_plan_get(&plan, i, &offset, &len) && offset == expected &&
			   len > 0 && (len == chunk || (i == count - 1 && len < chunk));
		expected += len;
	}
	ok(good && expected == size, "size " INT64_FORMAT ", chunk " INT64_FORMAT, size, chunk);
	ok(!pgos_range_plan_get(&plan, count, &offset, &len) && offset == 0 && len == 0,
	   "none behind the last");
	ok(!pgos_range_plan_get(&plan, -1, &offset, &len), "none before the first");
}

int
main(void)
{
	PgosRangePlan huge = {.size = PG_INT64_MAX, .chunk = INT64CONST(8388608)};
	int64		  offset;
	int64		  len;

	covers(0, 8, 0);
	covers(1, 8, 1);
	covers(7, 8, 1);
	covers(8, 8, 1);
	covers(9, 8, 2);
	covers(16, 8, 2);
	covers(17, 8, 3);
	covers(5, 1, 5);
	covers(PG_INT64_MAX, PG_INT64_MAX, 1);
	covers(10, PG_INT64_MAX, 1);
	covers(PG_INT64_MAX, PG_INT64_MAX - 1, 2);
	covers(INT64CONST(5497558138880), INT64CONST(536870912), 10240); /* 5 TiB by 512 MiB */
	covers(INT64CONST(5497558138881), INT64CONST(536870912), 10241);

	/* 2^63 - 1 bytes by 8 MiB: 2^40 ranges, the last one a byte short */
	is_int(pgos_range_plan_count(&huge), INT64CONST(1) << 40, "very many ranges");
	ok(pgos_range_plan_get(&huge, (INT64CONST(1) << 40) - 1, &offset, &len), "the last of them");
	is_int(len, 8388607, "its length");
	is_int(offset, PG_INT64_MAX - 8388607, "its offset");
	return tap_end();
}
