/*
 * test_part_plan.c
 *		Part sizes simulated up to the largest object: limits kept, memory bounded.
 */
#include "tap.h"

#include "core/part_plan.h"

#define MiB (INT64CONST(1) << 20)
#define GiB (INT64CONST(1) << 30)
#define TiB (INT64CONST(1) << 40)

/* Fills parts until the plan says 0; checks what must hold for each part.  Returns the bytes written. */
static int64
simulate(const PgosPartPlan *plan, int concurrency, int64 *largest, int *parts)
{
	int64 written = 0;
	int64 growth = plan->max_parts / 8;
	int64 promised = concurrency * plan->part_size;
	int	  n;
	bool  bounded = true;
	bool  equal = true;
	bool  proportional = true;
	bool  memory = true;

	*largest = 0;
	for (n = 1;; n++)
	{
		int64 size = pgos_part_plan_size(plan, n, written);
		int	  in_flight;

		if (size == 0)
			break;
		in_flight = pgos_part_plan_in_flight(plan, concurrency, size);

		/* S3: every part but the last has at least 5 MiB and at most 5 GiB */
		bounded = bounded && size > 0 && size <= plan->max_part_size &&
				  (size >= plan->part_size || written + size == plan->max_object_size);
		if (n <= growth)
			equal = equal && size == Min(plan->part_size, plan->max_object_size - written);
		/* A part is never more than 1/growth of what is there, so what is buffered stays small beside it. */
		proportional =
			proportional && (size <= plan->part_size || size <= written / growth + 1 + MiB);
		memory = memory && in_flight >= 1 && in_flight <= concurrency &&
				 (in_flight == 1 || in_flight * size <= promised) &&
				 (in_flight == concurrency || (in_flight + 1) * size > promised);
		*largest = Max(*largest, size);
		written += size;
		if (!bounded || n > plan->max_parts)
			break;
	}
	*parts = n - 1;
	ok(bounded, "every part within the limits");
	ok(equal, "the first parts are equal");
	ok(proportional, "no part larger than its share of what is written");
	ok(memory, "parts in flight are as many as the memory allows");
	ok(*parts <= plan->max_parts, "no more parts than allowed: %d", *parts);
	is_int(pgos_part_plan_size(plan, plan->max_parts + 1, 1), 0, "no part behind the last number");
	is_int(pgos_part_plan_size(plan, 1, plan->max_object_size), 0, "no part behind the last byte");
	return written;
}

int
main(void)
{
	PgosPartPlan s3 = {.part_size = 5 * MiB,
					   .max_part_size = 5 * GiB,
					   .max_parts = 10000,
					   .max_object_size = 5 * TiB};
	PgosPartPlan plan;
	int64		 largest;
	int			 parts;

	is_int(simulate(&s3, 8, &largest, &parts), 5 * TiB, "5 MiB parts reach 5 TiB exactly");
	/* Part n being 1/1250 of what is before it to the end would make this 4 GiB. */
	ok(largest <= 5 * GiB / 2, "largest part: " INT64_FORMAT " MiB", largest / MiB);

	plan = s3;
	plan.part_size = 8 * MiB;
	is_int(simulate(&plan, 4, &largest, &parts), 5 * TiB, "8 MiB parts reach 5 TiB exactly");
	ok(largest <= 5 * GiB / 2, "largest part: " INT64_FORMAT " MiB", largest / MiB);

	/* 5 TiB / 10,000 = 525 MiB: with such parts there is nothing to grow */
	plan.part_size = 525 * MiB;
	is_int(simulate(&plan, 1, &largest, &parts), 5 * TiB, "525 MiB parts reach 5 TiB");
	is_int(largest, 525 * MiB, "and never grow");

	/* An odd size is kept as it is; part_size needs no rounding. */
	plan.part_size = 5 * MiB + 1;
	is_int(pgos_part_plan_size(&plan, 1, 0), 5 * MiB + 1, "odd first part");
	is_int(pgos_part_plan_size(&plan, 2, 5 * MiB + 1), 5 * MiB + 1, "odd second part");
	is_int(simulate(&plan, 3, &largest, &parts), 5 * TiB, "odd parts reach 5 TiB");

	/* 12,500 MiB written: 1/1250 is 10 MiB; one byte more: rounded up to 11 MiB */
	is_int(pgos_part_plan_size(&s3, 2000, 12500 * MiB), 10 * MiB, "exactly 1/1250");
	is_int(pgos_part_plan_size(&s3, 2000, 12500 * MiB + 1), 11 * MiB, "rounded up");

	/* Servers with lower limits: 1,000 parts, and equal parts only */
	plan = s3;
	plan.max_parts = 1000;
	/* 125 * 5 MiB * (1 + 1/125)^875 is 650 GiB */
	ok(simulate(&plan, 8, &largest, &parts) > 640 * GiB, "1,000 parts hold 640 GiB");
	is_int(parts, 1000, "all of them used");
	plan = s3;
	plan.max_part_size = plan.part_size;
	is_int(simulate(&plan, 8, &largest, &parts), 10000 * 5 * MiB, "equal parts");
	is_int(largest, 5 * MiB, "equal to the end");

	/* Small limits: the last part is cut to the object's limit */
	plan = s3;
	plan.max_object_size = 12 * MiB;
	is_int(simulate(&plan, 2, &largest, &parts), 12 * MiB, "small object limit");
	is_int(parts, 3, "5 + 5 + 2 MiB");
	plan.max_parts = 1;
	is_int(simulate(&plan, 2, &largest, &parts), 5 * MiB, "a single part");

	/* in flight */
	is_int(pgos_part_plan_in_flight(&s3, 8, 5 * MiB), 8, "all of equal size");
	is_int(pgos_part_plan_in_flight(&s3, 8, 1), 8, "never more than the concurrency");
	is_int(pgos_part_plan_in_flight(&s3, 8, 10 * MiB), 4, "twice the size, half as many");
	is_int(pgos_part_plan_in_flight(&s3, 8, 10 * MiB + 1), 3, "rounded down");
	is_int(pgos_part_plan_in_flight(&s3, 8, 5 * GiB), 1, "at least one");
	is_int(pgos_part_plan_in_flight(&s3, 0, 5 * MiB), 1, "at least one of none");
	return tap_end();
}
