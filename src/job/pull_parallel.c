/*
 * pull_parallel.c
 *		A dataset of several objects, loaded by several workers into a table that the job creates.
 *
 * Rows of one transaction can be written by one process only, so the table must be committed before it is whole.
 * It is created under a name of its own, objstore_pull_<job>; every worker commits the objects that it loads
 * there.  The last transaction gives it its name, builds the indexes, and says "done" in the job's row: under its
 * name the table appears at once, with everything, or not at all.
 *
 *		leader								helpers
 *		------								-------
 *		create the table, commit
 *		open the team						join
 *		take objects, load, commit			take objects, load, commit
 *		wait for all
 *		rename, indexes, sequences,
 *		"done", commit
 *
 * After a failure the leader drops the table; after a crash the next attempt does.
 *
 * Runs in workers; raises.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "commands/tablecmds.h"
#include "compat.h"
#include "copy/ddl.h"
#include "guc.h"
#include "job/job_table.h"
#include "job/pull_internal.h"
#include "job/spec.h"
#include "job/team.h"
#include "miscadmin.h"
#include "store/store.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* Stored bytes from which on a second worker is worth its start. */
#define PGOS_PARALLEL_PULL_BYTES ((int64) 16 * 1024 * 1024)

static char *
pgos_staging_name(const PgosJob *job)
{
	return psprintf("objstore_pull_" INT64_FORMAT, job->job_id);
}

/*
 * Drops the table that this job has loaded into, if it is there and belongs to the role.  In a transaction of its
 * own.
 */
static void
pgos_staging_drop(PgosRun *run)
{
	const char *schema = run->job->spec->schema;
	char	   *name = pgos_staging_name(run->job);
	Oid			nspid;
	Oid			relid;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	nspid = get_namespace_oid(schema, true);
	relid = OidIsValid(nspid) ? get_relname_relid(name, nspid) : InvalidOid;
	if (OidIsValid(relid) && pgos_compat_is_owner(relid, GetUserId()))
		pgos_run_utility(psprintf("DROP TABLE %s", quote_qualified_identifier(schema, name)));
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(run->context);
}

int
pgos_pull_workers(PgosPull *pull)
{
	PgosSpec *spec = pull->spec;
	char	 *kind;
	int		  workers = spec->parallel > 0 ? spec->parallel : pgos_parallel;
	bool	  exists;
	Oid		  nspid;

	if (workers < 2 || pull->manifest == NULL || list_length(pull->objects) < 2 ||
		list_length(pull->objects) > PGOS_TEAM_RANGES ||
		pull->total_bytes < PGOS_PARALLEL_PULL_BYTES || OidIsValid(pull->job->relid) ||
		pgos_spec_pull_unsplittable(spec) != NULL)
		return 1;
	kind = pgos_json_string(pull->manifest->relation, "kind");
	if (kind == NULL || strcmp(kind, "partitioned table") == 0)
		return 1;
	StartTransactionCommand();
	nspid = get_namespace_oid(spec->schema, true);
	exists = !OidIsValid(nspid) || OidIsValid(get_relname_relid(spec->table, nspid));
	CommitTransactionCommand();
	MemoryContextSwitchTo(pull->run->context);
	return exists ? 1 : Min(workers, list_length(pull->objects));
}

/* Takes objects until there are none; each is loaded in a transaction of its own. */
static void
pgos_pull_team_load(PgosPull *pull, PgosTeam *team)
{
	List		  *objects = pull->objects;
	PgosTeamRange *range;

	while ((range = pgos_team_next_range(team)) != NULL)
	{
		PgosJobObject *object = list_nth(objects, (int) (range - team->ranges));
		int64		   rows = pull->rows;
		int64		   raw_bytes = pull->raw_bytes;
		Relation	   rel;

		pgos_team_check(team);
		StartTransactionCommand();
		(void) set_config_option("synchronous_commit", "off", PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_LOCAL, true, 0, false);
		MemoryContextSwitchTo(pull->run->context);
		rel = table_open(range->relid, RowExclusiveLock);
		pull->objects = list_make1(object);
		pull->next_open = 0;
		pgos_pull_load(pull, rel, false);
		table_close(rel, NoLock);
		pgos_team_note_copy(team, pgos_load_copy_reason(pull->load));
		CommitTransactionCommand();
		MemoryContextSwitchTo(pull->run->context);
		range->rows = pull->rows - rows;
		range->raw_bytes = pull->raw_bytes - raw_bytes;
		range->bytes = object->bytes;
		range->done = true;
	}
	pull->objects = objects;
}

/* Gives the table its name; what is named after the table follows. */
static void
pgos_staging_rename(PgosPull *pull, Oid relid)
{
	PgosSpec *spec = pull->spec;
	char	 *staging = pgos_staging_name(pull->job);
	size_t	  len = strlen(staging);
	ListCell *lc;

	if (OidIsValid(get_relname_relid(spec->table, get_rel_namespace(relid))))
		ereport(ERROR, (errcode(ERRCODE_DUPLICATE_TABLE),
						errmsg("relation %s exists already", pull->job->relation),
						errdetail("It was created while the data was loaded."),
						errhint("Drop it, or pull under another name.")));
	RenameRelationInternal(relid, spec->table, false, false);
	CommandCounterIncrement();
	foreach (lc, getOwnedSequences(relid))
	{
		char *name = get_rel_name(lfirst_oid(lc));
		char *wanted;

		if (strncmp(name, staging, len) != 0)
			continue;
		wanted = psprintf("%s%s", spec->table, name + len);
		if (strlen(wanted) < NAMEDATALEN &&
			!OidIsValid(get_relname_relid(wanted, get_rel_namespace(relid))))
		{
			RenameRelationInternal(lfirst_oid(lc), wanted, false, false);
			CommandCounterIncrement();
		}
	}
}

static Oid
pgos_staging_create(PgosPull *pull)
{
	Oid relid;

	if (pull->job->again)
		pgos_staging_drop(pull->run);
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	relid =
		pgos_ddl_create(pull->manifest->relation, pull->spec->schema, pgos_staging_name(pull->job));
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(pull->run->context);
	return relid;
}

static void
pgos_pull_team_sum(PgosPull *pull, PgosTeam *team)
{
	pull->rows = pull->raw_bytes = pull->stored_bytes = 0;
	for (int i = 0; i < team->range_count; i++)
	{
		PgosTeamRange *range = &team->ranges[i];
		PgosJobObject *object = list_nth(pull->objects, i);

		if (!range->done)
			elog(ERROR, "an object was not loaded");
		object->rows = range->rows;
		object->raw_bytes = range->raw_bytes;
		pull->rows += range->rows;
		pull->raw_bytes += range->raw_bytes;
		pull->stored_bytes += range->bytes;
	}
}

bool
pgos_pull_parallel(PgosPull *pull, int workers)
{
	PgosRun	 *run = pull->run;
	PgosTeam *team = pgos_team_new(pull->job->job_id);
	Oid		  relid;

	if (team == NULL)
		return false;
	run->team = team;
	relid = pgos_staging_create(pull);
	/* not before: a table of that name that is somebody's own is not ours to drop */
	run->staging = true;
	strlcpy(team->folder, pull->folder, sizeof(team->folder));
	team->range_count = list_length(pull->objects);
	for (int i = 0; i < team->range_count; i++)
	{
		PgosJobObject *object = list_nth(pull->objects, i);

		memset(&team->ranges[i], 0, sizeof(PgosTeamRange));
		team->ranges[i].relid = relid;
		/* by which helpers know that they see the same dataset */
		team->ranges[i].bytes = object->bytes;
		team->ranges[i].crc = object->crc;
	}
	pgos_team_open(team, workers - 1);
	pgos_pull_team_load(pull, team);
	pgos_team_close(team);
	pgos_team_wait(team);
	pgos_pull_team_sum(pull, team);
	run->result.note = psprintf("loaded by up to %d workers", workers);
	run->result.engine = NULL;
	pgos_run_note_engine(run, team->copy_reason[0] != '\0' ? team->copy_reason : NULL);
	run->team = NULL;
	pgos_team_release(team);

	StartTransactionCommand();
	MemoryContextSwitchTo(run->context);
	PushActiveSnapshot(GetTransactionSnapshot());
	pgos_staging_rename(pull, relid);
	pgos_ddl_create_indexes(pull->manifest->relation, relid);
	pgos_ddl_set_sequences(pull->manifest->relation, relid);
	pgos_pull_result(pull, relid);
	pgos_job_finish(run->job, &run->result);
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(run->context);
	run->staging = false;
	return true;
}

/* Whether these are the objects that the leader has: the dataset may have been replaced in between. */
static bool
pgos_team_is_of(const PgosTeam *team, List *objects)
{
	if (list_length(objects) != team->range_count)
		return false;
	for (int i = 0; i < team->range_count; i++)
	{
		PgosJobObject *object = list_nth(objects, i);

		if (object->bytes != team->ranges[i].bytes || object->crc != team->ranges[i].crc)
			return false;
	}
	return true;
}

void
pgos_pull_help(PgosRun *run)
{
	PgosPull *pull = palloc0(sizeof(PgosPull));
	PgosTeam *team = run->team;

	/* there is no snapshot to share: the leader need not wait for us */
	pgos_team_imported(team);
	pull->run = run;
	pull->job = run->job;
	pull->spec = run->job->spec;
	/* the dataset that the leader has found, even if there is a newer one by now */
	run->job->path = pgos_text_from_utf8(team->folder, strlen(team->folder));
	pgos_run_open_store(run);
	pgos_pull_resolve(pull);
	if (!pgos_team_is_of(team, pull->objects))
		pgos_run_dataset_changed(run);
	pgos_pull_team_load(pull, team);
}

void
pgos_pull_cleanup(PgosRun *run)
{
	pgos_run_stop_team(run);
	if (run->staging)
		pgos_staging_drop(run);
}

void
pgos_pull_give_up(PgosRun *run)
{
	run->job->spec = pgos_spec_from_json(run->job->kind, run->job->spec_json);
	if (run->job->spec->schema != NULL)
		pgos_staging_drop(run);
}
