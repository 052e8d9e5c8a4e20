/*
 * part_plan.h
 *		How large each part of a multipart upload is.
 *
 * The length of the stream is not known when the upload starts, so the plan starts with the size that was
 * asked for and grows: part n holds at least 8/max_parts (1/1250 with S3's 10,000 parts) of what has been
 * written before it, rounded up to 1 MiB.  From the smallest first part (5 MiB) 10,000 such parts hold more
 * than 5 TiB: 1250 * 5 MiB * (1 + 1/1250)^8750 > 5 TiB.  Until 1,250 parts are written all are equal.
 *
 * Growth stops when the parts that are left can hold the rest of the largest object as they are; without that
 * the last parts of 5 TiB would be twice as large (4 GiB) as they need be.
 *
 * Pure functions: run anywhere, never raise, allocate nothing.
 */
#ifndef PGOS_PART_PLAN_H
#define PGOS_PART_PLAN_H

#include "core/base.h"

typedef struct PgosPartPlan
{
	int64 part_size;	 /* bytes of the first parts */
	int64 max_part_size; /* bytes */
	int	  max_parts;
	int64 max_object_size; /* bytes */
} PgosPartPlan;

/*
 * Size in bytes of part part_no (from 1) when `written` bytes went into the parts before it; 0 when the object
 * may not grow any more (part count or object size reached).
 */
extern int64 pgos_part_plan_size(const PgosPartPlan *plan, int part_no, int64 written);

/*
 * How many parts may be in flight when the next one has next_size bytes, so that their memory stays within
 * concurrency * part_size; at least 1.
 */
extern int pgos_part_plan_in_flight(const PgosPartPlan *plan, int concurrency, int64 next_size);

#endif
