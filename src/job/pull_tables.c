/*
 * pull_tables.c
 *		Running one pull of tables: a dataset of many relations.
 *
 *		1. open the store, read the manifest
 *		2. perhaps load tables that are new with several workers, out of sight (pull_tables_parallel.c)
 *		3. one transaction: give these their place; for each other table in the order of the objects: make it (or
 *		   empty it), COPY, compare the row count, build indexes, set sequences
 *		4. in it foreign keys, when every table is there; then "done" into the job's row; commit
 *
 * Objects are fetched ahead: while one is loaded, the GETs of those that follow are in flight, within the store's
 * concurrency and part size.
 *
 * Runs in a worker; raises.  Everything of a run lives in run->context.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/dbcommands.h"
#include "copy/copy_options.h"
#include "copy/copy_stream.h"
#include "copy/ddl.h"
#include "core/key.h"
#include "executor/spi.h"
#include "guc.h"
#include "job/job_table.h"
#include "job/pull_tables_internal.h"
#include "job/spec.h"
#include "job/team.h"
#include "miscadmin.h"
#include "store/store.h"
#include "stream/decompress.h"
#include "stream/download.h"
#include "stream/slice_source.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* Stored bytes from which on frozen rows are worth the file of a visibility map. */
#define PGOS_FREEZE_BYTES (256 * 1024)

static void
pgos_pull_tables_tick(int64 rows, void *arg)
{
	PgosPullTables *pull = arg;
	int64			stored = pull->stored_bytes + pgos_download_source_position(pull->download);

	pgos_progress_rows(pull->rows + rows);
	pgos_progress_bytes(pull->raw_bytes, stored, 0);
	pgos_progress_percent(stored, pull->total_bytes);
}

char *
pgos_pull_tables_name(PgosManifestTable *table)
{
	char *schema = pgos_json_string(table->relation, "schema");
	char *name = pgos_json_string(table->relation, "name");

	if (schema == NULL || name == NULL)
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
						errmsg("the manifest has a table without a name")));
	return quote_qualified_identifier(schema, name);
}

static bool
pgos_table_is_wanted(PgosPullTables *pull, const char *name)
{
	ListCell *lc;

	if (pull->spec->relations == NIL)
		return true;
	foreach (lc, pull->spec->relations)
	{
		if (strcmp(lfirst(lc), name) == 0)
			return true;
	}
	return false;
}

static int
pgos_table_compare(const ListCell *a, const ListCell *b)
{
	PgosManifestTable *ta = lfirst(a);
	PgosManifestTable *tb = lfirst(b);

	return ta->offset < tb->offset ? -1 : ta->offset > tb->offset ? 1 : 0;
}

/* The tables that are wanted, in the order in which they are in the objects. */
static void
pgos_pull_tables_group(PgosPullTables *pull)
{
	List			*missing = list_copy(pull->spec->relations);
	PgosPullObject **by_index;
	ListCell		*lc;
	int				 i = 0;

	by_index = palloc0((list_length(pull->manifest->objects) + 1) * sizeof(PgosPullObject *));
	foreach (lc, pull->manifest->objects)
	{
		by_index[i] = palloc0(sizeof(PgosPullObject));
		by_index[i]->object = lfirst(lc);
		/* the object's position, for the tables below */
		by_index[i]->object->rows = i;
		i++;
	}
	foreach (lc, pull->manifest->tables)
	{
		PgosManifestTable *table = lfirst(lc);
		char			  *name = pgos_pull_tables_name(table);
		PgosPullObject	  *object = by_index[table->object->rows];
		ListCell		  *lc2;

		if (!pgos_table_is_wanted(pull, name))
			continue;
		foreach (lc2, missing)
		{
			if (strcmp(lfirst(lc2), name) == 0)
			{
				missing = list_delete_cell(missing, lc2);
				break;
			}
		}
		object->tables = lappend(object->tables, table);
	}
	if (missing != NIL)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
						errmsg("table %s is not in the dataset \"%s\"", (char *) linitial(missing),
							   pgos_store_url(pull->run->store, pull->folder))));
	for (int j = 0; j < i; j++)
	{
		if (by_index[j]->tables == NIL)
			continue;
		list_sort(by_index[j]->tables, pgos_table_compare);
		pull->tables = list_concat(pull->tables, by_index[j]->tables);
		pull->job_objects = lappend(pull->job_objects, by_index[j]->object);
		pull->total_bytes += by_index[j]->object->bytes;
	}
}

/* Begins to fetch objects ahead, up to what the memory of one stream allows. */
static void
pgos_pull_tables_prefetch(PgosPullTables *pull, int current)
{
	const PgosStoreLimits *limits = pgos_store_limits(pull->run->store);
	int64				   budget = limits->part_size * limits->concurrency;
	int64				   ahead = 0;

	for (int i = current; i < pull->next_begin; i++)
		ahead += Min(((PgosPullObject *) list_nth(pull->objects, i))->object->bytes, budget);
	while (pull->next_begin < list_length(pull->objects) &&
		   pull->next_begin - current < limits->concurrency * 2)
	{
		PgosPullObject *next = list_nth(pull->objects, pull->next_begin);
		PgosObjectInfo	info = {0};
		pg_crc32c		crc = next->object->crc;
		int64			size = Min(next->object->bytes, budget);

		if (pull->next_begin > current && ahead + size > budget)
			break;
		/* size and checksum of the manifest are what it must be; the etag may have changed in a copy of it */
		info.size = next->object->bytes;
		next->download = pgos_download_source_new(pull->run->store, next->object->key, &info, &crc,
												  pull->spec->part_size, pull->spec->concurrency);
		ahead += size;
		pull->next_begin++;
	}
}

Oid
pgos_pull_tables_schema(const char *schema)
{
	Oid nspid = get_namespace_oid(schema, true);

	if (OidIsValid(nspid))
		return nspid;
	pgos_run_utility(psprintf("CREATE SCHEMA %s", quote_identifier(schema)));
	return get_namespace_oid(schema, false);
}

/* The table of the manifest here: created, or there and empty or to be added to.  Opened and locked. */
static Relation
pgos_pull_tables_open(PgosPullTables *pull, PgosManifestTable *table, bool *created)
{
	char	*schema = pgos_json_string(table->relation, "schema");
	char	*name = pgos_json_string(table->relation, "name");
	Oid		 nspid;
	Oid		 relid;
	Relation rel;

	if (pull->staging)
		schema = pgos_pull_tables_staging(pull, schema);
	nspid = pgos_pull_tables_schema(schema);
	relid = get_relname_relid(name, nspid);
	*created = !OidIsValid(relid);
	if (*created)
	{
		relid = pgos_ddl_create(table->relation, schema, name);
		CommandCounterIncrement();
	}
	else if (pull->spec->mode == PGOS_MODE_CREATE)
		ereport(ERROR, (errcode(ERRCODE_DUPLICATE_TABLE),
						errmsg("relation %s exists already", pgos_pull_tables_name(table)),
						errhint("Drop it, or use mode => 'append' or mode => 'replace'.")));
	rel = relation_open(relid, RowExclusiveLock);
	if (!*created && pull->spec->mode == PGOS_MODE_REPLACE)
		pgos_run_delete_rows(rel);
	return rel;
}

static void
pgos_pull_one_table(PgosPullTables *pull, PgosManifestTable *table, PgosSource *from)
{
	char	   *name = pgos_pull_tables_name(table);
	char	   *url = psprintf("%s (%s)", table->object->url, name);
	PgosSource *slice = pgos_slice_source_new(from, table->bytes, url);
	PgosSource *source;
	Relation	rel;
	bool		created;
	bool		freeze;
	int64		rows;
	char		byte;
	Oid			relid;
	const char *copy_reason;

	PushActiveSnapshot(GetTransactionSnapshot());
	rel = pgos_pull_tables_open(pull, table, &created);
	PopActiveSnapshot();
	relid = RelationGetRelid(rel);
	pgos_copy_from_check(rel, table->columns);
	source = pgos_decompress_source_new(pull->manifest->compression, slice, url);
	freeze =
		created && rel->rd_rel->relkind == RELKIND_RELATION && table->bytes >= PGOS_FREEZE_BYTES;
	rows = pgos_copy_from(rel, table->columns, pull->copy_options, freeze, url, source,
						  pgos_pull_tables_tick, pull, &copy_reason);
	pgos_run_note_engine(pull->run, copy_reason);
	if (pull->run->team != NULL)
		pgos_team_note_copy(pull->run->team, copy_reason);
	if (pgos_source_read(source, &byte, 1) != 0)
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
						errmsg("\"%s\" goes on after the end of its rows", url)));
	pgos_slice_source_end(slice);
	if (rows != table->rows)
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
						errmsg("\"%s\" has " INT64_FORMAT " rows, its manifest has " INT64_FORMAT,
							   url, rows, table->rows),
						errhint("A trigger that drops rows has the same effect.")));
	pull->rows += rows;
	relation_close(rel, NoLock);
	if (created)
	{
		PushActiveSnapshot(GetTransactionSnapshot());
		pgos_ddl_create_indexes(table->relation, relid);
		pgos_ddl_set_sequences(table->relation, relid);
		PopActiveSnapshot();
		pgos_pull_tables_created(pull, table, relid);
	}
}

void
pgos_pull_tables_created(PgosPullTables *pull, PgosManifestTable *table, Oid relid)
{
	MemoryContext old = MemoryContextSwitchTo(pull->run->context);

	pull->created = lappend(pull->created, table);
	pull->created_relids = lappend_oid(pull->created_relids, relid);
	MemoryContextSwitchTo(old);
}

static void
pgos_pull_one_object(PgosPullTables *pull, PgosPullObject *object, MemoryContext scratch)
{
	ListCell *lc;
	int64	  position = 0;
	char	  byte;

	pull->download = object->download;
	foreach (lc, object->tables)
	{
		PgosManifestTable *table = lfirst(lc);
		MemoryContext	   old = MemoryContextSwitchTo(scratch);

		if (table->offset < position)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("tables of the manifest overlap in \"%s\"", table->object->url)));
		if (table->offset > position)
			pgos_slice_source_end(pgos_slice_source_new(object->download, table->offset - position,
														table->object->url));
		pgos_pull_one_table(pull, table, object->download);
		position = table->offset + table->bytes;
		MemoryContextSwitchTo(old);
		MemoryContextReset(scratch);
	}
	/* to the end, where the checksum is compared */
	if (position < object->object->bytes)
	{
		MemoryContext old = MemoryContextSwitchTo(scratch);

		pgos_slice_source_end(pgos_slice_source_new(
			object->download, object->object->bytes - position, object->object->url));
		MemoryContextSwitchTo(old);
		MemoryContextReset(scratch);
	}
	if (pgos_source_read(object->download, &byte, 1) != 0)
		elog(ERROR, "object \"%s\" has more bytes than it should", object->object->url);
	pgos_download_source_close(object->download);
	object->download = NULL;
	pull->stored_bytes += object->object->bytes;
	pull->raw_bytes += object->object->raw_bytes;
}

void
pgos_pull_tables_load(PgosPullTables *pull, List *tables)
{
	PgosPullObject *object = NULL;
	ListCell	   *lc;

	pull->scratch =
		AllocSetContextCreate(pull->run->context, "pgobjstore table", ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(pull->run->context);
	pull->objects = NIL;
	pull->next_begin = 0;
	foreach (lc, tables)
	{
		PgosManifestTable *table = lfirst(lc);

		if (object == NULL || object->object != table->object)
		{
			object = palloc0(sizeof(PgosPullObject));
			object->object = table->object;
			pull->objects = lappend(pull->objects, object);
		}
		object->tables = lappend(object->tables, table);
	}
	for (int i = 0; i < list_length(pull->objects); i++)
	{
		MemoryContextSwitchTo(pull->run->context);
		pgos_pull_tables_prefetch(pull, i);
		pgos_pull_one_object(pull, list_nth(pull->objects, i), pull->scratch);
	}
	MemoryContextSwitchTo(pull->run->context);
	MemoryContextDelete(pull->scratch);
	pull->scratch = NULL;
}

void
pgos_pull_tables_forget(PgosPullTables *pull)
{
	ListCell *lc;

	/* first, as it ends the thread that reads what closing a download frees */
	if (pull->scratch != NULL)
		MemoryContextDelete(pull->scratch);
	pull->scratch = NULL;
	foreach (lc, pull->objects)
	{
		PgosPullObject *object = lfirst(lc);

		if (object->download != NULL)
			pgos_download_source_close(object->download);
		object->download = NULL;
	}
	pull->objects = pull->created = pull->created_relids = NIL;
	pull->rows = pull->raw_bytes = pull->stored_bytes = 0;
}

static void
pgos_pull_tables_foreign_keys(PgosPullTables *pull)
{
	List	 *left_out = NIL;
	ListCell *lc;
	ListCell *lc2;

	forboth(lc, pull->created, lc2, pull->created_relids)
	{
		PgosManifestTable *table = lfirst(lc);

		pgos_ddl_create_foreign_keys(table->relation, lfirst_oid(lc2), &left_out);
		CommandCounterIncrement();
	}
	if (left_out != NIL)
	{
		StringInfoData note;

		initStringInfo(&note);
		if (pull->run->result.note != NULL)
			appendStringInfo(&note, "%s; ", pull->run->result.note);
		appendStringInfo(&note, "%d foreign keys left out, their other table does not exist:",
						 list_length(left_out));
		foreach (lc, left_out)
		{
			if (note.len > 500)
			{
				appendStringInfoString(&note, " ...");
				break;
			}
			appendStringInfo(&note, "%s %s", foreach_current_index(lc) > 0 ? "," : "",
							 (char *) lfirst(lc));
		}
		pull->run->result.note = MemoryContextStrdup(pull->run->context, note.data);
	}
}

/* Finds the dataset: the folder given, the newest in it, or the newest of this database. */
static void
pgos_pull_tables_resolve(PgosPullTables *pull)
{
	PgosStore  *store = pull->run->store;
	const char *path;

	if (pull->job->path != NULL)
		path = pgos_text_to_utf8(pull->job->path);
	else
	{
		StringInfoData prefix;
		char		  *database;

		StartTransactionCommand();
		MemoryContextSwitchTo(pull->run->context);
		database = get_database_name(MyDatabaseId);
		CommitTransactionCommand();
		MemoryContextSwitchTo(pull->run->context);
		initStringInfo(&prefix);
		pgos_key_component(&prefix, pgos_text_to_utf8(database));
		appendStringInfoString(&prefix, "/tables/");
		path = prefix.data;
	}
	pull->folder = pstrdup(path);
	pull->manifest = pgos_manifest_read(store, path);
	if (pull->manifest == NULL)
		pull->manifest = pgos_manifest_read_newest(store, path, &pull->folder);
	if (pull->manifest == NULL)
		ereport(
			ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("no dataset at \"%s\" on server \"%s\"", pgos_store_url(store, path),
					pull->job->server),
			 errhint("Push tables first, or say where the dataset is with path => 'folder/' (the "
					 "folder that objstore_push_tables showed as path).")));
	if (pull->manifest->relation != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("dataset \"%s\" is of one relation", pgos_store_url(store, pull->folder)),
				 errhint("Use objstore_pull.")));
	if (pull->manifest->compression > PGOS_COMPRESSION_ZSTD)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("dataset \"%s\" has a compression that tables are not packed with",
							   pgos_store_url(store, pull->folder))));
}

PgosPullTables *
pgos_pull_tables_begin(PgosRun *run)
{
	PgosPullTables *pull = palloc0(sizeof(PgosPullTables));

	pull->run = run;
	pull->job = run->job;
	pull->spec = run->job->spec;
	pgos_run_open_store(run);
	pgos_pull_tables_resolve(pull);
	pull->copy_options =
		pgos_copy_options_build(true, pull->manifest->format, pull->manifest->copy_options);
	pgos_pull_tables_group(pull);
	return pull;
}

void
pgos_pull_tables_run(PgosRun *run)
{
	PgosPullTables *pull = pgos_pull_tables_begin(run);
	List		   *staged = pgos_pull_tables_parallel(pull);
	ListCell	   *lc;

	StartTransactionCommand();
	if (staged != NIL)
		pgos_pull_tables_publish(pull, staged);
	pgos_pull_tables_load(pull, list_difference_ptr(pull->tables, staged));
	PushActiveSnapshot(GetTransactionSnapshot());
	pgos_pull_tables_foreign_keys(pull);
	PopActiveSnapshot();
	MemoryContextSwitchTo(run->context);
	run->result.path = pgos_text_from_utf8(pull->folder, strlen(pull->folder));
	run->result.rows = pull->rows;
	run->result.stored_bytes = pull->total_bytes;
	run->result.objects = pull->job_objects;
	foreach (lc, pull->job_objects)
	{
		PgosJobObject *object = lfirst(lc);

		object->rows = -1;
		run->result.raw_bytes += object->raw_bytes;
	}
	pgos_job_finish(run->job, &run->result);
	CommitTransactionCommand();
	MemoryContextSwitchTo(run->context);
	run->staging = false;
}
