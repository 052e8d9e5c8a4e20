/*
 * range_plan.h
 *		Cuts an object of known size into byte ranges for parallel GETs.
 *
 * The ranges are disjoint, in order, and cover [0, size) exactly; all but the last are chunk bytes long.
 * Pure functions: run anywhere, never raise, allocate nothing.
 */
#ifndef PGOS_RANGE_PLAN_H
#define PGOS_RANGE_PLAN_H

#include "core/base.h"

typedef struct PgosRangePlan
{
	int64 size;	 /* bytes of the object */
	int64 chunk; /* bytes of a range, at least 1 */
} PgosRangePlan;

/* How many ranges there are: 0 for an empty object. */
extern int64 pgos_range_plan_count(const PgosRangePlan *plan);

/* Range number i (from 0).  False, with *offset and *len 0, when there is no such range. */
extern bool pgos_range_plan_get(const PgosRangePlan *plan, int64 i, int64 *offset, int64 *len);

#endif
