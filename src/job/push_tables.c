/*
 * push_tables.c
 *		The relations of a push of many tables: one after the other, under one snapshot, into one dataset.
 *
 * COPY of the next table runs while the objects of those before it are on their way.  Layout "files": each table
 * has an object of its own, <folder><schema>.<table>/part-00000...; layout "packed": tables that are small share
 * objects <folder>packed-00000..., each beginning with a frame of its own; the manifest has the offsets.  One object
 * is open at a time, so the small ones are done before the others.
 *
 * Runs in a worker, inside the transaction of the snapshot; raises.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_inherits.h"
#include "copy/ddl.h"
#include "core/key.h"
#include "core/percent.h"
#include "job/push_internal.h"
#include "storage/bufmgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

/* A table up to this many blocks is small: 8 MB of 8 kB blocks. */
#define PGOS_SMALL_TABLE_BLOCKS ((BlockNumber) (8 * 1024 * 1024 / BLCKSZ))
/* Raw bytes after which a shared object is full. */
#define PGOS_PACK_RAW_BYTES ((int64) 256 * 1024 * 1024)

/* The folder of a table inside of the dataset's. */
static char *
pgos_push_table_folder(PgosPush *push, Relation rel)
{
	StringInfoData folder;

	initStringInfo(&folder);
	appendStringInfoString(&folder, push->place);
	pgos_key_component(&folder, pgos_text_to_utf8(get_namespace_name(RelationGetNamespace(rel))));
	appendStringInfoChar(&folder, '.');
	pgos_key_component(&folder, pgos_text_to_utf8(RelationGetRelationName(rel)));
	appendStringInfoChar(&folder, '/');
	return folder.data;
}

static bool
pgos_push_is_small(Relation rel)
{
	BlockNumber blocks = 0;
	ListCell   *lc;

	if (rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
		return RELKIND_HAS_STORAGE(rel->rd_rel->relkind) &&
			   RelationGetNumberOfBlocks(rel) <= PGOS_SMALL_TABLE_BLOCKS;
	foreach (lc, find_all_inheritors(RelationGetRelid(rel), AccessShareLock, NULL))
	{
		Relation part = relation_open(lfirst_oid(lc), NoLock);
		char	 relkind = part->rd_rel->relkind;

		if (RELKIND_HAS_STORAGE(relkind))
			blocks += RelationGetNumberOfBlocks(part);
		relation_close(part, NoLock);
		if (relkind == RELKIND_FOREIGN_TABLE || blocks > PGOS_SMALL_TABLE_BLOCKS)
			return false;
	}
	return true;
}

static void
pgos_push_one_table(PgosPush *push, Relation rel, bool packed, int *pack)
{
	PgosSpec		  *spec = push->spec;
	Oid				   relid = RelationGetRelid(rel);
	PgosManifestTable *table;
	StringInfoData	   definition;
	MemoryContext	   old = MemoryContextSwitchTo(push->run->context);

	table = palloc0(sizeof(PgosManifestTable));
	initStringInfo(&definition);
	table->columns = pgos_push_columns(rel, NIL);
	push->tables = lappend(push->tables, table);
	MemoryContextSwitchTo(old);
	pgos_ddl_describe(relid, NIL, &definition);
	table->definition = MemoryContextStrdup(push->run->context, definition.data);

	table->packed = packed;
	if (packed)
	{
		char *key;

		if (push->current == NULL)
			(*pack)++;
		key = psprintf("%spacked-%05d%s%s%s%s", push->place, *pack - 1, push->suffix ? "-" : "",
					   push->suffix ? push->suffix : "", pgos_format_extension(spec->format),
					   pgos_compression_extension(spec->compression));
		table->object = pgos_push_stream_pack(push, relid, NIL, key, &table->offset, &table->rows);
		pgos_push_stream_end_pack(push, PGOS_PACK_RAW_BYTES);
	}
	else
	{
		int64 rows = push->rows;

		table->object =
			pgos_push_stream_copy(push, relid, NIL, NULL,
								  pgos_key_object(pgos_push_table_folder(push, rel), 0,
												  spec->format, spec->compression, push->suffix),
								  NULL);
		table->rows = push->rows - rows;
	}
}

/* Those of the list that are packed, or are not; the others are what it answers. */
static List *
pgos_push_some_tables(PgosPush *push, List *relids, bool packed)
{
	List		 *others = NIL;
	ListCell	 *lc;
	int			  pack = 0;
	MemoryContext scratch =
		AllocSetContextCreate(push->run->context, "pgobjstore table", ALLOCSET_DEFAULT_SIZES);

	foreach (lc, relids)
	{
		Relation	  rel = relation_open(lfirst_oid(lc), NoLock);
		MemoryContext old = MemoryContextSwitchTo(scratch);
		/* decided once: a table that grows must not be left out of both */
		bool wanted = !packed || pgos_push_is_small(rel);

		if (wanted)
			pgos_push_one_table(push, rel, packed, &pack);
		MemoryContextSwitchTo(old);
		MemoryContextReset(scratch);
		relation_close(rel, NoLock);
		if (!wanted)
			others = lappend_oid(others, lfirst_oid(lc));
	}
	pgos_push_stream_end_pack(push, 0);
	MemoryContextDelete(scratch);
	return others;
}

void
pgos_push_tables(PgosPush *push)
{
	List	 *relids = push->spec->relids;
	ListCell *lc;
	ListCell *lc2;

	/* all locks first, so that no table is dropped while the others are copied */
	forboth(lc, push->spec->relids, lc2, push->spec->relations)
	{
		Relation rel = try_relation_open(lfirst_oid(lc), AccessShareLock);

		if (rel == NULL)
			ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
							errmsg("relation %s does not exist any more", (char *) lfirst(lc2)),
							errdetail("It was dropped after the job was enqueued."),
							errhint("Enqueue the push again.")));
		relation_close(rel, NoLock);
	}
	if (push->spec->packed)
		relids = pgos_push_some_tables(push, relids, true);
	(void) pgos_push_some_tables(push, relids, false);
}
