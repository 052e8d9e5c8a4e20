/*
 * pull.c
 *		Running one pull: everything in one transaction with the job's success.
 *
 *		1. open the store (a short transaction for the catalogs)
 *		2. find the objects: of a dataset by its manifest, others by their keys
 *		3. one transaction: leave out what was loaded before, make or empty the table, load every object, build
 *		   indexes, set sequences, write "done" into the job's row, commit.  Whatever goes wrong leaves nothing.
 *
 * Runs in a worker; raises.  Everything of a run lives in run->context.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "copy/ddl.h"
#include "job/job_table.h"
#include "job/pull_internal.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "store/store.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* Of advisory locks that SQL does not use: pulls with skip_loaded into one relation. */
#define PGOS_LOCK_CLASS_LOADED 8

/* The relation, if it exists by now. */
static Oid
pgos_pull_relid(PgosPull *pull)
{
	Oid nspid;

	if (OidIsValid(pull->job->relid))
		return pull->job->relid;
	nspid = get_namespace_oid(pull->spec->schema, true);
	if (!OidIsValid(nspid))
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_SCHEMA),
						errmsg("schema \"%s\" does not exist", pull->spec->schema),
						errhint("Create it before the pull.")));
	return get_relname_relid(pull->spec->table, nspid);
}

/*
 * Takes the objects that were loaded before out of the list.  Pulls that do so into one relation wait for each
 * other, until the end of the transaction; the lock is taken before the first snapshot, so that the one that has
 * waited sees what the other has loaded.
 */
static void
pgos_pull_skip_loaded(PgosPull *pull)
{
	Oid		  relid = pgos_pull_relid(pull);
	int		  before = list_length(pull->objects);
	LOCKTAG	  tag;
	ListCell *lc;

	if (!OidIsValid(relid))
		return;
	foreach (lc, pull->objects)
	{
		PgosJobObject *object = lfirst(lc);

		if (object->etag == NULL)
			ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
							errmsg("option \"skip_loaded\" needs etags, and object \"%s\" has none",
								   object->url)));
	}
	XactIsoLevel = XACT_READ_COMMITTED;
	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, relid, 0, PGOS_LOCK_CLASS_LOADED);
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
	pull->objects = pgos_job_not_loaded(relid, pull->objects);
	pull->total_bytes = 0;
	foreach (lc, pull->objects)
		pull->total_bytes += ((PgosJobObject *) lfirst(lc))->bytes;
	if (list_length(pull->objects) < before)
		pull->run->result.note = psprintf("%d of %d objects were loaded before",
										  before - list_length(pull->objects), before);
}

/* The table to load into, opened and locked; *created if it was made now. */
static Relation
pgos_pull_open_relation(PgosPull *pull, bool *created)
{
	PgosJob	 *job = pull->job;
	PgosSpec *spec = pull->spec;
	Oid		  relid = pgos_pull_relid(pull);
	Relation  rel;

	*created = false;
	if (OidIsValid(relid) && spec->mode == PGOS_MODE_CREATE)
		ereport(ERROR, (errcode(ERRCODE_DUPLICATE_TABLE),
						errmsg("relation %s exists already", job->relation),
						errhint("Use mode => 'append' or mode => 'replace', or another name.")));
	if (!OidIsValid(relid))
	{
		if (pull->manifest == NULL)
			ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
							errmsg("relation %s does not exist", job->relation),
							errdetail("Objects without a manifest do not say how to create it."),
							errhint("Create the table first.")));
		relid = pgos_ddl_create(pull->manifest->relation, spec->schema, spec->table);
		CommandCounterIncrement();
		*created = true;
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
pgos_pull_result(PgosPull *pull, Oid relid)
{
	PgosJobResult *result = &pull->run->result;

	result->path = pull->folder != NULL ? pgos_text_from_utf8(pull->folder, strlen(pull->folder))
										: pull->job->path;
	result->rows = pull->rows;
	result->raw_bytes = pull->raw_bytes;
	result->stored_bytes = pull->stored_bytes;
	result->objects = pull->objects;
	result->rejects = pull->spec->load.skip ? pull->rejects : -1;
	result->relid = relid;
}

void
pgos_pull_run(PgosRun *run)
{
	PgosPull *pull = palloc0(sizeof(PgosPull));
	Relation  rel;
	Oid		  relid;
	bool	  created;
	int		  workers;

	pull->run = run;
	pull->job = run->job;
	pull->spec = run->job->spec;
	pgos_run_open_store(run);
	pgos_pull_resolve(pull);
	workers = pgos_pull_workers(pull);
	if (workers > 1 && pgos_pull_parallel(pull, workers))
		return;

	StartTransactionCommand();
	MemoryContextSwitchTo(run->context);
	if (pull->spec->skip_loaded)
		pgos_pull_skip_loaded(pull);
	PushActiveSnapshot(GetTransactionSnapshot());
	rel = pgos_pull_open_relation(pull, &created);
	PopActiveSnapshot();
	relid = RelationGetRelid(rel);
	pgos_pull_load(pull, rel, created);
	relation_close(rel, NoLock);
	PushActiveSnapshot(GetTransactionSnapshot());
	if (created)
	{
		pgos_ddl_create_indexes(pull->manifest->relation, relid);
		pgos_ddl_set_sequences(pull->manifest->relation, relid);
	}
	pgos_pull_result(pull, relid);
	/* rows and success in one commit; the tables of the jobs may be written whatever the role's defaults are */
	pgos_job_finish(run->job, &run->result);
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(run->context);
}
