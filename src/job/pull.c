/*
 * pull.c
 *		Running one pull: manifest, download, COPY FROM, all in one transaction with the job's success.
 *
 *		1. open the store (a short transaction for the catalogs)
 *		2. find the dataset: its manifest, or one object by its key
 *		3. one transaction: make or empty the table, COPY every object, compare row counts, build indexes, set
 *		   sequences, write "done" into the job's row, commit.  Whatever goes wrong leaves nothing of it.
 *
 * Runs in a worker; raises.  Everything of a run lives in run->context.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/dbcommands.h"
#include "copy/copy_options.h"
#include "copy/copy_stream.h"
#include "copy/ddl.h"
#include "core/key.h"
#include "executor/spi.h"
#include "job/job_table.h"
#include "job/manifest.h"
#include "job/run.h"
#include "job/spec.h"
#include "miscadmin.h"
#include "store/store.h"
#include "stream/download.h"
#include "stream/zstd_source.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

typedef struct PgosPull
{
	PgosRun    *run;
	PgosJob    *job;
	PgosSpec   *spec;
	char	   *folder;			/* of the dataset in UTF-8, or NULL: one object without a manifest */
	PgosManifest *manifest;		/* or NULL */
	List	   *objects;		/* of PgosJobObject */
	List	   *columns;		/* names (char *) in the rows, NIL: all of the table */
	List	   *copy_options;
	PgosCompression compression;
	int64		total_bytes;
	int64		stored_bytes;	/* of the objects before the one under way */
	int64		raw_bytes;
	int64		rows;
	PgosSource *download;
	PgosSource *meter;
} PgosPull;

/* Counts what goes through on its way to COPY. */
typedef struct PgosMeter
{
	PgosSource	base;
	PgosSource *from;
	int64		bytes;
} PgosMeter;

static bool
pgos_meter_fill(PgosSource *source)
{
	PgosMeter  *meter = (PgosMeter *) source;

	if (meter->from->avail == 0 && !meter->from->fill(meter->from))
		return false;
	meter->base.data = meter->from->data;
	meter->base.avail = meter->from->avail;
	meter->bytes += (int64) meter->from->avail;
	meter->from->avail = 0;
	return true;
}

/* The newest dataset among the folders below `prefix`. */
static void
pgos_pull_newest(PgosPull *pull, const char *prefix)
{
	pull->manifest = pgos_manifest_read_newest(pull->run->store, prefix, &pull->folder);
}

static void
pgos_pull_not_found(PgosPull *pull, const char *key, const char *what)
{
	ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
					errmsg("no %s at \"%s\" on server \"%s\"", what,
						   pgos_store_url(pull->run->store, key), pull->job->server),
					pull->job->path == NULL
						? errhint("Push the relation first, or say where the dataset is with path => "
								  "'folder/' (the folder that objstore_push showed as path).")
						: errhint("A path that ends in \"/\" is the folder of a dataset, any other path is the "
								  "key of one object. Both are relative to the url of the server.")));
}

static bool
pgos_suffix(const char *text, const char *suffix)
{
	size_t		len = strlen(text);
	size_t		suffix_len = strlen(suffix);

	return len >= suffix_len && strcmp(text + len - suffix_len, suffix) == 0;
}

/* One object without a manifest: format and compression as given, or by the key's extensions. */
static void
pgos_pull_one_object(PgosPull *pull, const char *key)
{
	PgosObjectInfo info;
	PgosJobObject *object;
	PgosFormat	format = pull->spec->format;
	char	   *stem = pstrdup(key);

	if (!pgos_store_head(pull->run->store, key, &info))
		pgos_pull_not_found(pull, key, "object");
	object = palloc0(sizeof(PgosJobObject));
	object->key = pstrdup(key);
	object->url = pgos_store_url(pull->run->store, key);
	object->bytes = info.size;
	object->rows = -1;
	object->raw_bytes = -1;
	object->etag = info.etag[0] != '\0' ? pstrdup(info.etag) : NULL;
	pull->objects = list_make1(object);

	pull->compression = pull->spec->compression;
	if (!pull->spec->has_compression)
	{
		const char *extension = pgos_compression_extension(PGOS_COMPRESSION_ZSTD);

		pull->compression = PGOS_COMPRESSION_NONE;
		if (pgos_suffix(stem, extension))
		{
			pull->compression = PGOS_COMPRESSION_ZSTD;
			stem[strlen(stem) - strlen(extension)] = '\0';
		}
	}
	if (!pull->spec->has_format)
	{
		if (pgos_suffix(stem, pgos_format_extension(PGOS_FORMAT_BINARY)))
			format = PGOS_FORMAT_BINARY;
		else if (pgos_suffix(stem, pgos_format_extension(PGOS_FORMAT_TEXT)))
			format = PGOS_FORMAT_TEXT;
		else
			format = PGOS_FORMAT_CSV;
	}
	pull->columns = pull->spec->columns;
	pull->copy_options = pgos_copy_options_build(true, format, pull->spec->options);
	pull->total_bytes = info.size;
}

/* Finds what is to be pulled: fills folder, manifest, objects and how to read them. */
static void
pgos_pull_resolve(PgosPull *pull)
{
	const char *path = pull->job->path != NULL ? pgos_text_to_utf8(pull->job->path) : NULL;

	if (path == NULL)
	{
		StringInfoData prefix;
		char	   *database;

		StartTransactionCommand();
		MemoryContextSwitchTo(pull->run->context);
		database = get_database_name(MyDatabaseId);
		CommitTransactionCommand();
		MemoryContextSwitchTo(pull->run->context);
		initStringInfo(&prefix);
		pgos_key_component(&prefix, pgos_text_to_utf8(database));
		appendStringInfoChar(&prefix, '/');
		pgos_key_component(&prefix, pgos_text_to_utf8(pull->spec->schema));
		appendStringInfoChar(&prefix, '.');
		pgos_key_component(&prefix, pgos_text_to_utf8(pull->spec->table));
		appendStringInfoChar(&prefix, '/');
		pgos_pull_newest(pull, prefix.data);
		if (pull->manifest == NULL)
			pgos_pull_not_found(pull, prefix.data, "dataset");
	}
	else if (path[strlen(path) - 1] != '/')
	{
		pgos_pull_one_object(pull, path);
		return;
	}
	else
	{
		pull->folder = pstrdup(path);
		pull->manifest = pgos_manifest_read(pull->run->store, path);
		if (pull->manifest == NULL)
			pgos_pull_newest(pull, path);
		if (pull->manifest == NULL)
			pgos_pull_not_found(pull, path, "dataset");
	}

	if (pull->spec->has_format && pull->spec->format != pull->manifest->format)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("argument \"format\" contradicts the manifest of \"%s\"",
							   pgos_store_url(pull->run->store, pull->folder)),
						errhint("Leave format out: the manifest says what the dataset is.")));
	if (pull->spec->has_compression && pull->spec->compression != pull->manifest->compression)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("argument \"compression\" contradicts the manifest of \"%s\"",
							   pgos_store_url(pull->run->store, pull->folder)),
						errhint("Leave compression out: the manifest says what the dataset is.")));
	if (pull->manifest->compression > PGOS_COMPRESSION_ZSTD)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("dataset \"%s\" has a compression that this version does not read",
							   pgos_store_url(pull->run->store, pull->folder))));
	if (pull->spec->columns != NIL)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("argument \"columns\" is not supported for a dataset with a manifest"),
						errhint("The manifest names the columns. For a part of them, pull one object by "
								"its key.")));
	if (pull->manifest->relation == NULL)
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
						errmsg("dataset \"%s\" is of many tables",
							   pgos_store_url(pull->run->store, pull->folder)),
						errhint("Use objstore_pull_tables.")));
	pull->objects = pull->manifest->objects;
	pull->columns = pull->manifest->columns;
	pull->compression = pull->manifest->compression;
	pull->copy_options =
		pgos_copy_options_build(true, pull->manifest->format, pull->manifest->copy_options);
	pull->total_bytes = pull->manifest->bytes;
}

static void
pgos_pull_tick(int64 rows, void *arg)
{
	PgosPull   *pull = arg;
	int64		stored = pull->stored_bytes + pgos_download_source_position(pull->download);
	int64		raw = pull->raw_bytes + ((PgosMeter *) pull->meter)->bytes;

	pgos_progress_rows(pull->rows + rows);
	pgos_progress_bytes(raw, stored, 0);
	pgos_progress_percent(Min(stored, pull->total_bytes * 99 / 100), pull->total_bytes);
}

static void
pgos_pull_object(PgosPull *pull, Relation rel, bool freeze, PgosJobObject *object)
{
	PgosObjectInfo info = {0};
	PgosMeter  *meter = palloc0(sizeof(PgosMeter));
	PgosSource *source;
	pg_crc32c	crc = object->crc;
	int64		rows;
	char		byte;

	if (!pgos_store_head(pull->run->store, object->key, &info))
		pgos_pull_not_found(pull, object->key, "object");
	if (info.size != object->bytes)
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
						errmsg("object \"%s\" is not what was written", object->url),
						errdetail("It has " INT64_FORMAT " bytes, the manifest has " INT64_FORMAT ".",
								  info.size, object->bytes),
						errhint("The object was replaced after the push. Pull another dataset, or push "
								"again.")));
	pull->download =
		pgos_download_source_new(pull->run->store, object->key, &info,
								 object->has_crc ? &crc : NULL, pull->spec->part_size,
								 pull->spec->concurrency);
	source = pull->download;
	if (pull->compression == PGOS_COMPRESSION_ZSTD)
		source = pgos_zstd_source_new(source, object->url);
	meter->base.fill = pgos_meter_fill;
	meter->from = source;
	pull->meter = &meter->base;
	rows = pgos_copy_from(rel, pull->columns, pull->copy_options, freeze, pull->meter,
						  pgos_pull_tick, pull);
	/* COPY may stop early (binary's trailer, \.): what follows still must be right, and nothing may follow */
	if (pgos_source_read(pull->meter, &byte, 1) != 0)
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
						errmsg("object \"%s\" goes on after the end of its rows", object->url),
						errhint("It is damaged, or not in the format that was given.")));
	if (object->rows >= 0 && rows != object->rows)
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
						errmsg("object \"%s\" has " INT64_FORMAT " rows, its manifest has " INT64_FORMAT,
							   object->url, rows, object->rows),
						errhint("A trigger that drops rows has the same effect: pull into a table "
								"without one.")));
	object->rows = rows;
	object->raw_bytes = meter->bytes;
	pull->rows += rows;
	pull->raw_bytes += meter->bytes;
	pull->stored_bytes += object->bytes;
	pgos_download_source_close(pull->download);
	pgos_progress_rows(pull->rows);
}

/* The table to load into, opened and locked; *created if it was made now. */
static Relation
pgos_pull_open(PgosPull *pull, bool *created)
{
	PgosJob    *job = pull->job;
	PgosSpec   *spec = pull->spec;
	Oid			relid = job->relid;
	Relation	rel;

	*created = false;
	if (!OidIsValid(relid))
	{
		Oid			nspid = get_namespace_oid(spec->schema, true);

		if (!OidIsValid(nspid))
			ereport(ERROR, (errcode(ERRCODE_UNDEFINED_SCHEMA),
							errmsg("schema \"%s\" does not exist", spec->schema),
							errhint("Create it before the pull.")));
		relid = get_relname_relid(spec->table, nspid);
		if (OidIsValid(relid) && spec->mode == PGOS_MODE_CREATE)
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_TABLE),
					 errmsg("relation %s exists already", job->relation),
					 errhint("Use mode => 'append' or mode => 'replace', or another name.")));
		if (!OidIsValid(relid))
		{
			if (pull->manifest == NULL)
				ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
								errmsg("relation %s does not exist", job->relation),
								errdetail("A single object has no manifest to create it from."),
								errhint("Create the table first.")));
			relid = pgos_ddl_create(pull->manifest->relation, spec->schema, spec->table);
			CommandCounterIncrement();
			*created = true;
		}
	}
	rel = try_relation_open(relid, RowExclusiveLock);
	if (rel == NULL)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
						errmsg("relation %s does not exist any more", job->relation),
						errdetail("It was dropped after the job was enqueued."),
						errhint("Enqueue the pull again: it then creates the table.")));
	if (spec->mode == PGOS_MODE_REPLACE && !*created)
		pgos_run_delete_rows(rel);
	return rel;
}

void
pgos_pull_run(PgosRun *run)
{
	PgosPull   *pull = palloc0(sizeof(PgosPull));
	Relation	rel;
	bool		created;
	bool		freeze;
	ListCell   *lc;

	pull->run = run;
	pull->job = run->job;
	pull->spec = run->job->spec;
	pgos_run_open_store(run);
	pgos_pull_resolve(pull);

	StartTransactionCommand();
	MemoryContextSwitchTo(run->context);
	PushActiveSnapshot(GetTransactionSnapshot());
	rel = pgos_pull_open(pull, &created);
	PopActiveSnapshot();
	freeze = created && rel->rd_rel->relkind == RELKIND_RELATION;
	pgos_copy_from_check(rel, pull->columns);
	foreach (lc, pull->objects)
		pgos_pull_object(pull, rel, freeze, lfirst(lc));
	PushActiveSnapshot(GetTransactionSnapshot());
	if (created)
	{
		Oid			relid = RelationGetRelid(rel);

		relation_close(rel, NoLock);
		pgos_ddl_create_indexes(pull->manifest->relation, relid);
		pgos_ddl_set_sequences(pull->manifest->relation, relid);
	}
	else
		relation_close(rel, NoLock);
	run->result.path = pull->folder != NULL ? pgos_text_from_utf8(pull->folder, strlen(pull->folder))
											: run->job->path;
	run->result.rows = pull->rows;
	run->result.raw_bytes = pull->raw_bytes;
	run->result.stored_bytes = pull->stored_bytes;
	run->result.objects = pull->objects;
	/* rows and success in one commit; the tables of the jobs may be written whatever the role's defaults are */
	pgos_job_finish(run->job, &run->result);
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(run->context);
}
