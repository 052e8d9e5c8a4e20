/*
 * push.c
 *		Running one push: COPY into a stream of parts, manifest last.
 *
 * Order, and why:
 *
 *		1. open the store (a short transaction for the catalogs)
 *		2. look at the place: is a dataset or object there already? did an earlier attempt of this job leave
 *		   something, or even finish?
 *		3. one transaction: describe the relation, COPY it; parts go up meanwhile.  It ends when COPY ends:
 *		   no snapshot and no lock is held while the last parts are on their way.
 *		4. complete the object; only now does its key exist
 *		5. write the manifest; only now does the dataset exist
 *		6. with if_exists => 'replace': remove the objects of the dataset that was there
 *
 * Until 5 nothing of an older dataset is touched: objects whose names are taken get other names.  Two pushes
 * to one place exclude each other by an advisory lock in this cluster, and by conditional writes beyond it.
 *
 * Runs in a worker; raises.  Everything of a run lives in run->context.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/dbcommands.h"
#include "common/hashfn.h"
#include "compat.h"
#include "copy/copy_options.h"
#include "copy/copy_stream.h"
#include "copy/ddl.h"
#include "core/key.h"
#include "guc.h"
#include "job/manifest.h"
#include "job/push_internal.h"
#include "job/run.h"
#include "job/spec.h"
#include "miscadmin.h"
#include "optimizer/plancat.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "store/store.h"
#include "stream/upload.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

/* Advisory lock on a place in a store, of a class that SQL's advisory locks do not use. */
static void
pgos_push_lock_place(PgosPush *push)
{
	LOCKTAG tag;
	uint32	hash = hash_bytes((const unsigned char *) push->place, (int) strlen(push->place));

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, push->job->serverid, hash, 7);
	(void) LockAcquire(&tag, ExclusiveLock, true, false);
}

static void
pgos_push_unlock_place(PgosPush *push)
{
	LOCKTAG tag;
	uint32	hash = hash_bytes((const unsigned char *) push->place, (int) strlen(push->place));

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, push->job->serverid, hash, 7);
	(void) LockRelease(&tag, ExclusiveLock, true);
}

static void
pgos_push_already_exists(PgosPush *push, const char *what, const char *key)
{
	ereport(ERROR, (errcode(ERRCODE_DUPLICATE_OBJECT),
					errmsg("%s \"%s\" exists already on server \"%s\"", what,
						   pgos_store_url(push->run->store, key), push->job->server),
					errhint("Use if_exists => 'replace', or another path.")));
}

/* Whether `key` begins a listing that has it. */
static bool
pgos_push_key_exists(PgosPush *push, const char *key)
{
	PgosObjectInfo info;

	return pgos_store_head(push->run->store, key, &info);
}

/* For names that nobody has: the job, and the time of this attempt in microseconds. */
static char *
pgos_push_unique_suffix(PgosPush *push)
{
	return psprintf(INT64_FORMAT "-" UINT64_FORMAT, push->job->job_id,
					(uint64) GetCurrentTimestamp());
}

/*
 * The key of the object in a dataset's folder: part-00000 if that is free.  A key that is taken belongs to the
 * dataset that is there or to somebody else, and must not be touched; only in the folder that was made for this
 * job it is the rest of an earlier attempt.
 */
static void
pgos_push_choose_key(PgosPush *push, bool has_manifest)
{
	PgosSpec *spec = push->spec;
	char	 *key = pgos_key_object(push->place, 0, spec->format, spec->compression, NULL);

	push->condition = PGOS_PUT_IF_ABSENT;
	if (push->job->kind == PGOS_JOB_PUSH_TABLES && !spec->own_folder)
	{
		/* hundreds of keys are not asked for one by one: beside another dataset all get other names */
		if (has_manifest || push->job->again)
			push->suffix = pgos_push_unique_suffix(push);
		return;
	}
	if (spec->own_folder)
		push->condition = push->job->again ? PGOS_PUT_ALWAYS : PGOS_PUT_IF_ABSENT;
	else if (pgos_push_key_exists(push, key))
		push->suffix = pgos_push_unique_suffix(push);
	push->object_key =
		pgos_key_object(push->place, 0, spec->format, spec->compression, push->suffix);
}

/*
 * Looks at the place.  True: this very job has finished before, its worker died before it could say so, and
 * run->result holds what it did.
 */
static bool
pgos_push_look(PgosPush *push)
{
	PgosStore	 *store = push->run->store;
	PgosManifest *manifest;
	ListCell	 *lc;

	if (push->job->again)
		(void) pgos_upload_abort_all(store, push->place);
	if (!push->is_folder)
	{
		push->object_key = push->place;
		push->condition =
			push->spec->if_exists == PGOS_IF_EXISTS_ERROR ? PGOS_PUT_IF_ABSENT : PGOS_PUT_ALWAYS;
		if (push->spec->if_exists == PGOS_IF_EXISTS_ERROR &&
			pgos_push_key_exists(push, push->object_key))
			pgos_push_already_exists(push, "object", push->object_key);
		return false;
	}

	/* a folder that was made for this attempt has nothing in it, and conditional writes watch over that */
	manifest =
		push->spec->own_folder && !push->job->again ? NULL : pgos_manifest_read(store, push->place);
	pgos_push_choose_key(push, manifest != NULL);
	if (manifest == NULL)
		return false;
	if (pgos_manifest_is_of_job(manifest, push->job))
	{
		PgosJobResult *result = &push->run->result;

		result->path = push->job->path;
		result->rows = manifest->rows;
		result->objects = manifest->objects;
		foreach (lc, manifest->objects)
		{
			PgosJobObject *object = lfirst(lc);

			result->raw_bytes += object->raw_bytes;
			result->stored_bytes += object->bytes;
			result->parts += object->parts;
		}
		return true;
	}
	if (push->spec->if_exists == PGOS_IF_EXISTS_ERROR)
		pgos_push_already_exists(push, "dataset", push->place);
	foreach (lc, manifest->objects)
	{
		PgosJobObject *object = lfirst(lc);

		push->old_keys = lappend(push->old_keys, object->key);
	}
	return false;
}

/* Rows that the relation may have, for the percentage: 0 if there is no telling. */
static int64
pgos_push_estimate_rows(Relation rel)
{
	double	  rows = 0;
	ListCell *lc;
	List	 *relids = rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE
						   ? find_all_inheritors(RelationGetRelid(rel), AccessShareLock, NULL)
						   : list_make1_oid(RelationGetRelid(rel));

	foreach (lc, relids)
	{
		Relation part = relation_open(lfirst_oid(lc), NoLock);

		if (RELKIND_HAS_TABLE_AM(part->rd_rel->relkind))
		{
			BlockNumber pages;
			double		tuples;
			double		visible;

			estimate_rel_size(part, NULL, &pages, &tuples, &visible);
			rows += tuples;
		}
		relation_close(part, NoLock);
	}
	return (int64) rows;
}

/* Columns that the rows will have, as names in the run's context. */
List *
pgos_push_columns(Relation rel, List *columns)
{
	List	 *names = NIL;
	TupleDesc desc = RelationGetDescr(rel);

	if (columns != NIL)
		return columns;
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && att->attgenerated == '\0')
			names = lappend(names, pstrdup(NameStr(att->attname)));
	}
	return names;
}

/* Takes ranges until there are none.  In the transaction that has the team's snapshot. */
static void
pgos_push_ranges(PgosPush *push, List *columns)
{
	PgosTeam	  *team = push->team;
	PgosTeamRange *range;

	while ((range = pgos_team_next_range(team)) != NULL)
	{
		PgosBlockRange blocks = {range->first, range->end};
		char *key = pgos_key_object(push->place, (int) (range - team->ranges), push->spec->format,
									push->spec->compression, push->suffix);

		(void) pgos_push_stream_copy(push, range->relid, columns, &blocks, key, range);
	}
}

/*
 * A team for the relation, open for helpers; NULL: one stream.  The snapshot is exported for them.
 */
static PgosTeam *
pgos_push_make_team(PgosPush *push, Relation rel)
{
	int		  workers = push->spec->parallel > 0 ? push->spec->parallel : pgos_parallel;
	PgosTeam *team;

	if (workers < 2)
		return NULL;
	if (!push->is_folder)
	{
		push->run->result.note = "one stream: the path is the key of one object";
		return NULL;
	}
	team = pgos_team_new(push->job->job_id);
	if (team == NULL)
		return NULL;
	push->run->team = team;
	if (pgos_push_plan(push, rel, team, workers, &push->run->result.note) == 0)
	{
		push->run->team = NULL;
		pgos_team_release(team);
		return NULL;
	}
	strlcpy(team->snapshot, ExportSnapshot(GetActiveSnapshot()), sizeof(team->snapshot));
	strlcpy(team->suffix, push->suffix ? push->suffix : "", sizeof(team->suffix));
	team->condition = push->condition;
	pgos_team_open(team, Min(workers, team->range_count) - 1);
	return team;
}

/*
 * Locks what will be read, before there is a snapshot.  A lock may be waited for, and whoever had it may have put
 * other rows into the relation in a new file (TRUNCATE and INSERT, ALTER TABLE): an older snapshot would see none
 * of them.
 */
static void
pgos_push_lock_relation(Oid relid)
{
	LockRelationOid(relid, AccessShareLock);
	if (get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE)
		list_free(find_all_inheritors(relid, AccessShareLock, NULL));
}

static void
pgos_push_lock_relations(PgosPush *push)
{
	ListCell *lc;

	if (push->job->kind == PGOS_JOB_PUSH)
		pgos_push_lock_relation(push->job->relid);
	foreach (lc, push->spec->relids)
		pgos_push_lock_relation(lfirst_oid(lc));
}

/*
 * A helper's locks on all that the team reads, without waiting: the leader has them until we say that we have the
 * snapshot, and would wait for us.  False: somebody waits to change a relation.  Later would be too late, as that
 * would be done between the leader's end and our reading.
 */
static bool
pgos_push_try_lock(PgosPush *push)
{
	PgosTeam *team = push->team;

	if (!ConditionalLockRelationOid(push->job->relid, AccessShareLock))
		return false;
	for (int i = 0; i < team->range_count; i++)
	{
		Oid relid = team->ranges[i].relid;

		if (relid != push->job->relid && (i == 0 || relid != team->ranges[i - 1].relid) &&
			!ConditionalLockRelationOid(relid, AccessShareLock))
			return false;
	}
	return true;
}

/*
 * Begins the transaction of COPY: one snapshot for all of it, whatever the role's default is, so that several
 * COPYs and several workers see the same rows.
 */
static void
pgos_push_begin_snapshot(PgosPush *push, const char *import)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	XactIsoLevel = XACT_REPEATABLE_READ;
	XactDeferrable = false;
	if (import != NULL)
		ImportSnapshot(import);
	else
		pgos_push_lock_relations(push);
	PushActiveSnapshot(GetTransactionSnapshot());
}

/* COPYs the one relation of a push, alone or with a team.  Fills what input says of it. */
static void
pgos_push_relation(PgosPush *push, PgosManifestInput *input)
{
	PgosJob *job = push->job;
	Relation rel = try_relation_open(job->relid, AccessShareLock);

	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation %s does not exist any more", job->relation),
				 errdetail("It was dropped after the job was enqueued."),
				 errhint("Enqueue the push again if there is a new relation of that name.")));
	input->columns = pgos_push_columns(rel, push->spec->columns);
	if (push->is_folder)
	{
		StringInfo definition = makeStringInfo();

		pgos_ddl_describe(job->relid, push->spec->columns, definition);
		input->relation = definition->data;
	}
	push->estimated_rows = pgos_push_estimate_rows(rel);
	push->team = pgos_push_make_team(push, rel);
	if (push->team != NULL)
	{
		pgos_push_ranges(push, input->columns);
		pgos_team_close(push->team);
	}
	else
		(void) pgos_push_stream_copy(push, job->relid, push->spec->columns, NULL, push->object_key,
									 NULL);
	relation_close(rel, NoLock);
}

/* The transaction of COPY.  Fills input. */
static void
pgos_push_copy(PgosPush *push, PgosManifestInput *input)
{
	PgosRun *run = push->run;

	pgos_push_begin_snapshot(push, NULL);
	input->lsn = GetXLogInsertRecPtr();
	input->started_at = GetCurrentTimestamp();
	MemoryContextSwitchTo(run->context);
	input->database = get_database_name(MyDatabaseId);
	push->copy_options = pgos_copy_options_build(false, push->spec->format, push->spec->options);
	input->copy_options = push->copy_options;
	if (push->job->kind == PGOS_JOB_PUSH_TABLES)
		pgos_push_tables(push);
	else
		pgos_push_relation(push, input);
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(run->context);
}

/* The objects that the team has written, in the order of the ranges. */
List *
pgos_push_team_objects(PgosPush *push, PgosTeam *team)
{
	List *objects = NIL;

	for (int i = 0; i < team->range_count; i++)
	{
		PgosTeamRange *range = &team->ranges[i];
		PgosJobObject *object = palloc0(sizeof(PgosJobObject));

		if (!range->done)
			continue;
		object->key = pgos_key_object(push->place, i, push->spec->format, push->spec->compression,
									  push->suffix);
		object->url = pgos_store_url(push->run->store, object->key);
		object->bytes = range->bytes;
		object->rows = range->rows;
		object->raw_bytes = range->raw_bytes;
		object->has_crc = true;
		object->crc = range->crc;
		object->etag = range->etag[0] != '\0' ? pstrdup(range->etag) : NULL;
		object->parts = range->parts;
		objects = lappend(objects, object);
	}
	return objects;
}

/* How many bytes of its object each table has: up to the next that is packed behind it, or to the end. */
static void
pgos_push_measure_tables(PgosPush *push)
{
	PgosJobObject *object = NULL;
	int64		   end = 0;

	for (int i = list_length(push->tables) - 1; i >= 0; i--)
	{
		PgosManifestTable *table = list_nth(push->tables, i);

		if (!table->packed)
		{
			table->bytes = table->object->bytes;
			continue;
		}
		if (table->object != object)
			end = table->object->bytes;
		table->bytes = end - table->offset;
		object = table->object;
		end = table->offset;
	}
}

/* Completes all objects and sums them up. */
static void
pgos_push_finish_objects(PgosPush *push)
{
	PgosRun		  *run = push->run;
	PgosJobResult *result = &run->result;
	ListCell	  *lc;

	pgos_push_stream_complete(push);
	result->objects = run->written;
	pgos_push_measure_tables(push);
	if (push->team != NULL)
	{
		PgosTeam *team = push->team;

		pgos_team_wait(team);
		result->objects = pgos_push_team_objects(push, team);
		if (list_length(result->objects) != team->range_count)
			elog(ERROR, "a range of blocks was not pushed");
		run->written = result->objects;
		run->team = NULL;
		pgos_team_release(team);
	}
	foreach (lc, result->objects)
	{
		PgosJobObject *object = lfirst(lc);

		result->rows += object->rows;
		result->raw_bytes += object->raw_bytes;
		result->stored_bytes += object->bytes;
		result->parts += object->parts;
	}
}

static void
pgos_push_replaced_context(void *arg)
{
	errcontext(
		"while removing the objects of the dataset that was replaced; the new dataset is complete");
}

static void
pgos_push_publish(PgosPush *push, const PgosManifestInput *input)
{
	PgosRun				*run = push->run;
	ErrorContextCallback context;
	ListCell			*lc;

	if (push->is_folder)
	{
		char	  *key = psprintf("%s%s", push->place, PGOS_MANIFEST_NAME);
		StringInfo text = pgos_manifest_text(push->job, input, &run->result);

		run->publishing = push->place;
		pgos_store_write(run->store, key, text->data, text->len,
						 push->spec->if_exists == PGOS_IF_EXISTS_ERROR ? PGOS_PUT_IF_ABSENT
																	   : PGOS_PUT_ALWAYS,
						 NULL);
	}
	run->published = true;
	context.callback = pgos_push_replaced_context;
	context.arg = NULL;
	context.previous = error_context_stack;
	error_context_stack = &context;
	foreach (lc, push->old_keys)
		pgos_store_delete(run->store, lfirst(lc));
	error_context_stack = context.previous;
}

static bool
pgos_push_collect_stray(const char *key, const PgosObjectInfo *info, void *arg)
{
	List **keys = arg;

	*keys = lappend(*keys, pstrdup(key));
	return true;
}

/*
 * In the folder that was made for this job: removes objects that an earlier attempt has left and this one has
 * not overwritten.  The manifest does not name them, but other tools read by pattern.
 */
static void
pgos_push_remove_strays(PgosPush *push)
{
	List	 *keys = NIL;
	ListCell *lc;

	pgos_store_list(push->run->store, push->place, '\0', pgos_push_collect_stray, &keys);
	foreach (lc, keys)
	{
		bool	  ours = false;
		ListCell *lc2;

		foreach (lc2, push->run->result.objects)
			ours |= strcmp(((PgosJobObject *) lfirst(lc2))->key, lfirst(lc)) == 0;
		if (!ours)
			pgos_store_delete(push->run->store, lfirst(lc));
	}
}

PgosPush *
pgos_push_begin(PgosRun *run)
{
	PgosPush *push = palloc0(sizeof(PgosPush));

	push->run = run;
	push->job = run->job;
	push->spec = run->job->spec;
	push->place = pgos_text_to_utf8(run->job->path);
	push->is_folder = push->place[strlen(push->place) - 1] == '/';
	return push;
}

void
pgos_push_run(PgosRun *run)
{
	PgosPush		 *push = pgos_push_begin(run);
	PgosManifestInput input = {0};

	pgos_run_open_store(run);
	StartTransactionCommand();
	pgos_push_lock_place(push);
	CommitTransactionCommand();
	MemoryContextSwitchTo(run->context);
	if (!pgos_push_look(push))
	{
		run->result.path = push->job->path;
		pgos_push_copy(push, &input);
		pgos_push_finish_objects(push);
		input.tables = push->tables;
		if (push->spec->own_folder && push->job->again)
			pgos_push_remove_strays(push);
		pgos_push_publish(push, &input);
	}
	pgos_push_unlock_place(push);
}

void
pgos_push_help(PgosRun *run)
{
	PgosPush *push = pgos_push_begin(run);
	PgosTeam *team = run->team;

	push->team = team;
	push->suffix = team->suffix[0] != '\0' ? pstrdup(team->suffix) : NULL;
	push->condition = (PgosPutCondition) team->condition;
	pgos_run_open_store(run);
	pgos_push_begin_snapshot(push, team->snapshot);
	if (!pgos_push_try_lock(push))
	{
		/* the others do it without us */
		PopActiveSnapshot();
		CommitTransactionCommand();
		MemoryContextSwitchTo(run->context);
		return;
	}
	pgos_team_imported(team);
	MemoryContextSwitchTo(run->context);
	push->copy_options = pgos_copy_options_build(false, push->spec->format, push->spec->options);
	{
		Relation rel = relation_open(push->job->relid, AccessShareLock);
		List	*columns = pgos_push_columns(rel, push->spec->columns);

		pgos_push_ranges(push, columns);
		relation_close(rel, NoLock);
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(run->context);
	pgos_push_stream_complete(push);
}
