/*
 * push_plan.c
 *		How a relation is split into block ranges for several workers.
 *
 * A heap table's rows that a snapshot sees are all below the number of blocks that it had after the snapshot was
 * taken.  So ranges that cover these blocks, scanned under that one snapshot, give every row once.
 * Runs in the leader, inside its transaction; raises.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "job/push_internal.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/rls.h"

/* A range is worth a worker and an object of its own from this size on: 64 MB of 8 kB blocks. */
#define PGOS_MIN_RANGE_BLOCKS ((BlockNumber) (64 * 1024 * 1024 / BLCKSZ))
/* Ranges for each worker: the last ones to finish should not leave the others idle for long. */
#define PGOS_RANGES_PER_WORKER 4

/* Why this relation cannot be read by block ranges; NULL if it can. */
static const char *
pgos_push_unsplittable(Relation rel)
{
	char relkind = rel->rd_rel->relkind;

	if (relkind != RELKIND_RELATION && relkind != RELKIND_MATVIEW)
		return relkind == RELKIND_VIEW ? "a view cannot be split"
									   : "a foreign table cannot be split";
	if (rel->rd_rel->relam != HEAP_TABLE_AM_OID)
		return "only tables of access method heap can be split";
	if (pg_class_aclcheck(RelationGetRelid(rel), GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		return relkind == RELKIND_RELATION && rel->rd_rel->relispartition
				   ? "a partition without SELECT for the role cannot be read on its own"
				   : "splitting needs SELECT on the whole table, not on columns";
	if (check_enable_rls(RelationGetRelid(rel), InvalidOid, true) == RLS_ENABLED)
		return "a table whose row-level security holds for the role cannot be split";
	return NULL;
}

static void
pgos_push_add_ranges(PgosTeam *team, Oid relid, BlockNumber blocks, BlockNumber size)
{
	BlockNumber first = 0;

	do
	{
		PgosTeamRange *range = &team->ranges[team->range_count++];

		memset(range, 0, sizeof(*range));
		range->relid = relid;
		range->first = first;
		/* the rest of a relation goes with its last range, and that has no end */
		if (blocks - first < size + size / 2 || team->range_count == PGOS_TEAM_RANGES)
		{
			range->end = InvalidBlockNumber;
			return;
		}
		range->end = first + size;
		first += size;
	} while (true);
}

int
pgos_push_plan(PgosPush *push, Relation rel, PgosTeam *team, int workers, char **note)
{
	List		*relids;
	ListCell	*lc;
	BlockNumber *blocks;
	uint64		 total = 0;
	uint64		 size;
	const char	*reason = NULL;
	int			 i = 0;

	team->range_count = 0;
	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
	{
		if (check_enable_rls(RelationGetRelid(rel), InvalidOid, true) == RLS_ENABLED)
			reason = "a table whose row-level security holds for the role cannot be split";
		relids = find_all_inheritors(RelationGetRelid(rel), AccessShareLock, NULL);
	}
	else
		relids = list_make1_oid(RelationGetRelid(rel));

	blocks = palloc0(list_length(relids) * sizeof(BlockNumber));
	foreach (lc, relids)
	{
		Relation part = relation_open(lfirst_oid(lc), AccessShareLock);

		if (part->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
		{
			if (reason == NULL)
				reason = pgos_push_unsplittable(part);
			if (reason == NULL)
			{
				blocks[i] = RelationGetNumberOfBlocks(part);
				total += blocks[i];
			}
		}
		i++;
		relation_close(part, NoLock);
	}
	if (reason == NULL && list_length(relids) > PGOS_TEAM_RANGES / 2)
		reason = psprintf("more than %d partitions", PGOS_TEAM_RANGES / 2);
	if (reason != NULL)
	{
		*note = psprintf("one stream: %s", reason);
		return 0;
	}
	if (total < 2 * (uint64) PGOS_MIN_RANGE_BLOCKS)
		return 0;

	size = total / ((uint64) workers * PGOS_RANGES_PER_WORKER);
	size = Max(size, PGOS_MIN_RANGE_BLOCKS);
	/* half of the ranges for the rests of partitions */
	size = Max(size, total / (PGOS_TEAM_RANGES / 2) + 1);
	i = 0;
	foreach (lc, relids)
	{
		if (get_rel_relkind(lfirst_oid(lc)) != RELKIND_PARTITIONED_TABLE)
			pgos_push_add_ranges(team, lfirst_oid(lc), blocks[i], (BlockNumber) size);
		i++;
	}
	if (team->range_count < 2)
		team->range_count = 0;
	return team->range_count;
}
