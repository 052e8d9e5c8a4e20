/*
 * range_plan.c
 *		Cuts an object of known size into byte ranges for parallel GETs.
 */
#include "core/range_plan.h"

int64
pgos_range_plan_count(const PgosRangePlan *plan)
{
	Assert(plan->chunk > 0);

	if (plan->size <= 0)
		return 0;
	/* Not (size + chunk - 1) / chunk: a huge chunk would overflow. */
	return (plan->size - 1) / plan->chunk + 1;
}

bool
pgos_range_plan_get(const PgosRangePlan *plan, int64 i, int64 *offset, int64 *len)
{
	*offset = 0;
	*len = 0;
	if (i < 0 || i >= pgos_range_plan_count(plan))
		return false;
	*offset = i * plan->chunk;
	*len = Min(plan->chunk, plan->size - *offset);
	return true;
}
