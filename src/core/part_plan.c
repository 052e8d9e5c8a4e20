/*
 * part_plan.c
 *		How large each part of a multipart upload is.
 */
#include "core/part_plan.h"

/* Sizes that the plan chooses itself are multiples of this. */
#define ROUND_TO (INT64CONST(1) << 20)

/* A part holds this many max_parts-ths of what is before it; see part_plan.h for why 8 suffices. */
#define GROWTH 8

static int64
divide_up(int64 dividend, int64 divisor)
{
	return dividend / divisor + (dividend % divisor != 0 ? 1 : 0);
}

int64
pgos_part_plan_size(const PgosPartPlan *plan, int part_no, int64 written)
{
	int64 size = plan->part_size;
	int64 rest = plan->max_object_size - written;
	int64 grown;
	int64 needed;

	Assert(part_no >= 1 && written >= 0 && plan->part_size > 0);

	if (part_no > plan->max_parts || rest <= 0)
		return 0;

	grown = divide_up(written, Max(plan->max_parts / GROWTH, 1));
	needed = divide_up(rest, plan->max_parts - part_no + 1);
	grown = Min(grown, needed);
	if (grown > size)
		size = divide_up(grown, ROUND_TO) * ROUND_TO;

	size = Min(size, plan->max_part_size);
	return Min(size, rest);
}

int
pgos_part_plan_in_flight(const PgosPartPlan *plan, int concurrency, int64 next_size)
{
	int64 parts;

	if (next_size <= plan->part_size)
		return Max(concurrency, 1);
	parts = concurrency * plan->part_size / next_size;
	return (int) Max(parts, 1);
}
