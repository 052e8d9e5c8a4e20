/*
 * pull_tables_parallel.c
 *		The tables of a dataset that are new here, loaded by several workers before the transaction of the job.
 *
 * Rows of one transaction can be written by one process only, so tables must be committed before all of them are
 * there.  They are made in schemas of their own, objstore_pull_<job>_<n>, one for each schema of the dataset, with
 * indexes and all; the job's transaction renames such a schema if there is none of the right name, else moves the
 * tables, builds the foreign keys, and says "done": under their names they appear at once, or not at all.
 *
 *		leader								helpers
 *		------								-------
 *		make the schemas, commit
 *		open the team						join, read the manifest
 *		take units, load, commit			take units, load, commit
 *		wait for all
 *		(pull_tables.c) rename, move,
 *		load the others, foreign keys,
 *		"done", commit
 *
 * A unit is some neighbouring tables, each range of the team is one: first and end are positions in the list of
 * tables that leader and helpers make of the manifest alike.  The point is not only that there are several cores: each index
 * that is built waits for the disk.
 *
 * Where this way may see things in another way than one table after the other would, that is what is done after
 * all: after an error that is not the store's or the server's, so that it is the plain way that fails or succeeds.
 * After a failure the leader drops the schemas; after a crash the next attempt does.
 *
 * Runs in workers; raises.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "executor/spi.h"
#include "guc.h"
#include "job/pull_tables_internal.h"
#include "job/spec.h"
#include "job/team.h"
#include "miscadmin.h"
#include "store/store.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* From so many tables, or stored bytes, on a second worker is worth its start. */
#define PGOS_PARALLEL_TABLES 16
#define PGOS_PARALLEL_TABLES_BYTES ((int64) 16 * 1024 * 1024)
/*
 * Units for each worker: the last ones to finish should not leave the others idle for long, but each fetches the
 * object that it shares with others.
 */
#define PGOS_UNITS_PER_WORKER 8
/* What a table costs without its rows, as if it were so many stored bytes more. */
#define PGOS_TABLE_WEIGHT ((int64) 64 * 1024)
/* An object up to this size may be fetched once for each of the units that have tables in it. */
#define PGOS_SHARED_BYTES ((int64) 4 * 1024 * 1024)

/* The names of this job's schemas begin with it. */
static char *
pgos_staging_prefix(const PgosJob *job)
{
	return psprintf("objstore_pull_" INT64_FORMAT "_", job->job_id);
}

char *
pgos_pull_tables_staging(PgosPullTables *pull, const char *schema)
{
	ListCell *lc;

	foreach (lc, pull->schemas)
	{
		if (strcmp(lfirst(lc), schema) == 0)
			return psprintf("%s%d", pgos_staging_prefix(pull->job), foreach_current_index(lc) + 1);
	}
	elog(ERROR, "schema \"%s\" is not staged", schema);
	return NULL;
}

/* Drops what this job has staged and not published, in a transaction of its own. */
static void
pgos_staging_drop_schemas(PgosRun *run)
{
	char *query;
	List *names = NIL;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	query = psprintf(
		"SELECT nspname FROM pg_catalog.pg_namespace WHERE pg_catalog.starts_with(nspname, '%s') "
		"AND nspowner = %u",
		pgos_staging_prefix(run->job), GetUserId());
	SPI_connect();
	if (SPI_execute(query, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read pg_namespace");
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		char		 *name = SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1);
		MemoryContext old = MemoryContextSwitchTo(CurTransactionContext);

		names = lappend(names, pstrdup(name));
		MemoryContextSwitchTo(old);
	}
	SPI_finish();
	for (int i = 0; i < list_length(names); i++)
		pgos_run_utility(psprintf("DROP SCHEMA %s CASCADE", quote_identifier(list_nth(names, i))));
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(run->context);
}

static bool
pgos_is_in_list(List *names, const char *name)
{
	ListCell *lc;

	foreach (lc, names)
	{
		if (strcmp(lfirst(lc), name) == 0)
			return true;
	}
	return false;
}

/* Tables that are made of one CREATE TABLE: partitions would not move with their table. */
static bool
pgos_table_is_plain(PgosManifestTable *table)
{
	char *kind = pgos_json_string(table->relation, "kind");

	return kind != NULL && strcmp(kind, "partitioned table") != 0;
}

static List *
pgos_plain_tables(PgosPullTables *pull)
{
	List	 *tables = NIL;
	ListCell *lc;

	foreach (lc, pull->tables)
	{
		PgosManifestTable *table = lfirst(lc);
		char			  *schema = pgos_json_string(table->relation, "schema");

		if (!pgos_table_is_plain(table))
			continue;
		tables = lappend(tables, table);
		if (!pgos_is_in_list(pull->schemas, schema))
			pull->schemas = lappend(pull->schemas, schema);
	}
	return tables;
}

/* Writes down what tells a unit from that of another dataset. */
static void
pgos_describe_unit(List *tables, int first, int end, PgosTeamRange *range)
{
	memset(range, 0, sizeof(PgosTeamRange));
	range->first = first;
	range->end = end;
	INIT_CRC32C(range->crc);
	for (int i = first; i < end; i++)
	{
		PgosManifestTable *table = list_nth(tables, i);

		range->bytes += table->bytes;
		COMP_CRC32C(range->crc, &table->object->crc, sizeof(table->object->crc));
	}
}

/* Divides the tables into units, about so many and no more: the team's ranges. */
static void
pgos_make_units(List *tables, int units, PgosTeam *team)
{
	int64	  total = 0;
	int64	  weight = 0;
	int		  first = 0;
	ListCell *lc;

	units = Min(units, PGOS_TEAM_RANGES);
	team->range_count = 0;
	foreach (lc, tables)
		total += PGOS_TABLE_WEIGHT + ((PgosManifestTable *) lfirst(lc))->bytes;
	foreach (lc, tables)
	{
		PgosManifestTable *table = lfirst(lc);
		ListCell		  *next = lnext(tables, lc);
		bool			   shared;

		weight += PGOS_TABLE_WEIGHT + table->bytes;
		shared = next != NULL && ((PgosManifestTable *) lfirst(next))->object == table->object;
		/* so many units at most, as each but the last has a share of that weight */
		if (next == NULL ||
			(weight >= total / units && !(shared && table->object->bytes > PGOS_SHARED_BYTES)))
		{
			int end = foreach_current_index(lc) + 1;

			pgos_describe_unit(tables, first, end, &team->ranges[team->range_count++]);
			first = end;
			weight = 0;
		}
	}
}

/* Whether objects made in another schema and moved have other rights than those made in their place. */
static bool
pgos_has_default_privileges(void)
{
	bool found;

	SPI_connect();
	if (SPI_execute(psprintf("SELECT 1 FROM pg_catalog.pg_default_acl WHERE defaclrole = %u AND "
							 "defaclnamespace <> 0",
							 GetUserId()),
					true, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not read pg_default_acl");
	found = SPI_processed > 0;
	SPI_finish();
	return found;
}

/* Why one worker must do it all, or NULL. */
static const char *
pgos_unsplittable(PgosPullTables *pull, List *tables)
{
	const char *reason = NULL;
	ListCell   *lc;

	if (list_length(tables) < 2 || (list_length(tables) < PGOS_PARALLEL_TABLES &&
									pull->total_bytes < PGOS_PARALLEL_TABLES_BYTES))
		return "the dataset is small";
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	if (pgos_has_default_privileges())
		reason = "the role has default privileges in schemas";
	foreach (lc, tables)
	{
		PgosManifestTable *table = lfirst(lc);
		Oid nspid = get_namespace_oid(pgos_json_string(table->relation, "schema"), true);

		if (OidIsValid(nspid) &&
			OidIsValid(get_relname_relid(pgos_json_string(table->relation, "name"), nspid)))
			reason = "a table exists already";
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(pull->run->context);
	return reason;
}

/* Takes units until there are none; each is loaded in a transaction of its own. */
static void
pgos_load_units(PgosPullTables *pull, List *tables, PgosTeam *team)
{
	PgosTeamRange *range;

	pull->staging = true;
	while ((range = pgos_team_next_range(team)) != NULL)
	{
		int64 rows = pull->rows;
		List *unit = NIL;

		pgos_team_check(team);
		StartTransactionCommand();
		(void) set_config_option("synchronous_commit", "off", PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_LOCAL, true, 0, false);
		MemoryContextSwitchTo(pull->run->context);
		for (BlockNumber i = range->first; i < range->end; i++)
			unit = lappend(unit, list_nth(tables, (int) i));
		pgos_pull_tables_load(pull, unit);
		CommitTransactionCommand();
		MemoryContextSwitchTo(pull->run->context);
		range->rows = pull->rows - rows;
		range->done = true;
	}
	pull->staging = false;
}

static void
pgos_staging_make_schemas(PgosPullTables *pull)
{
	ListCell *lc;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	foreach (lc, pull->schemas)
		pgos_run_utility(psprintf("CREATE SCHEMA %s",
								  quote_identifier(pgos_pull_tables_staging(pull, lfirst(lc)))));
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(pull->run->context);
	/* not before: a schema of that name that is somebody's own is not ours to drop */
	pull->run->staging = true;
}

static void
pgos_stage_tables(PgosPullTables *pull, List *tables, PgosTeam *team, int workers)
{
	int64 rows = 0;

	pgos_make_units(tables, workers * PGOS_UNITS_PER_WORKER, team);
	strlcpy(team->folder, pull->folder, sizeof(team->folder));
	pgos_staging_make_schemas(pull);
	pgos_team_open(team, Min(workers, team->range_count) - 1);
	pgos_load_units(pull, tables, team);
	pgos_team_close(team);
	pgos_team_wait(team);
	for (int i = 0; i < team->range_count; i++)
	{
		if (!team->ranges[i].done)
			elog(ERROR, "a table was not loaded");
		rows += team->ranges[i].rows;
	}
	pull->rows = rows;
	pull->created = pull->created_relids = NIL;
	pull->run->result.note = psprintf("loaded by up to %d workers", workers);
	pull->run->result.engine = NULL;
	pgos_run_note_engine(pull->run, team->copy_reason[0] != '\0' ? team->copy_reason : NULL);
	pull->run->team = NULL;
	pgos_team_release(team);
}

/* Whether the plain way may do better. */
static bool
pgos_error_is_of_tables(const ErrorData *error)
{
	switch (ERRCODE_TO_CATEGORY(error->sqlerrcode))
	{
		case ERRCODE_CONNECTION_EXCEPTION:
		case ERRCODE_INSUFFICIENT_RESOURCES:
		case ERRCODE_OPERATOR_INTERVENTION:
		case ERRCODE_SYSTEM_ERROR:
		case ERRCODE_TO_CATEGORY(ERRCODE_DATA_CORRUPTED):
			return false;
		default:
			return true;
	}
}

/* The error that the plain way may do without, or NULL; others are raised. */
static ErrorData *
pgos_try_staging(PgosPullTables *pull, List *tables, PgosTeam *team, int workers)
{
	PgosRun *run = pull->run;
	ErrorData *volatile error = NULL;

	PG_TRY();
	{
		pgos_stage_tables(pull, tables, team, workers);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(run->context);
		error = CopyErrorData();
		if (!pgos_error_is_of_tables(error))
			PG_RE_THROW();
		FlushErrorState();
		AbortCurrentTransaction();
		MemoryContextSwitchTo(run->context);
	}
	PG_END_TRY();
	return error;
}

List *
pgos_pull_tables_parallel(PgosPullTables *pull)
{
	PgosRun	   *run = pull->run;
	int			workers = pull->spec->parallel > 0 ? pull->spec->parallel : pgos_parallel;
	List	   *tables;
	PgosTeam   *team;
	const char *reason;
	ErrorData  *error;

	if (pull->job->again)
		pgos_staging_drop_schemas(run);
	if (workers < 2)
		return NIL;
	tables = pgos_plain_tables(pull);
	reason = pgos_unsplittable(pull, tables);
	team = reason == NULL ? pgos_team_new(pull->job->job_id) : NULL;
	if (team == NULL)
	{
		if (pull->spec->parallel > 1)
			run->result.note =
				psprintf("one worker: %s", reason != NULL ? reason : "too many teams are at work");
		return NIL;
	}
	run->team = team;
	error = pgos_try_staging(pull, tables, team, workers);
	if (error == NULL)
		return tables;
	ereport(LOG, (errmsg("job " INT64_FORMAT " goes on with one worker: %s", pull->job->job_id,
						 error->message)));
	pull->staging = false;
	pgos_pull_tables_forget(pull);
	pgos_pull_tables_cleanup(run);
	run->result.engine = NULL;
	run->result.note = psprintf("one worker: with several there was an error: %s", error->message);
	return NIL;
}

/*
 * Where the dataset's schema is not here, ours becomes it, with all that is in it.  True: so it is.
 */
static bool
pgos_staging_rename_schema(PgosPullTables *pull, const char *schema)
{
	if (OidIsValid(get_namespace_oid(schema, true)))
		return false;
	pgos_run_utility(psprintf("ALTER SCHEMA %s RENAME TO %s",
							  quote_identifier(pgos_pull_tables_staging(pull, schema)),
							  quote_identifier(schema)));
	return true;
}

/* Moves a table to its schema, which is here; returns its OID. */
static Oid
pgos_staging_move_table(PgosPullTables *pull, PgosManifestTable *table, const char *schema,
						const char *name)
{
	char *staging = pgos_pull_tables_staging(pull, schema);
	Oid	  relid = get_relname_relid(name, get_namespace_oid(staging, false));

	if (OidIsValid(get_relname_relid(name, get_namespace_oid(schema, false))))
		ereport(ERROR, (errcode(ERRCODE_DUPLICATE_TABLE),
						errmsg("relation %s exists already", pgos_pull_tables_name(table)),
						errdetail("It was created while the data was loaded."),
						errhint("Drop it, and pull again.")));
	pgos_run_utility(psprintf("ALTER TABLE %s SET SCHEMA %s",
							  quote_qualified_identifier(staging, name), quote_identifier(schema)));
	return relid;
}

void
pgos_pull_tables_publish(PgosPullTables *pull, List *staged)
{
	List	 *moving = NIL; /* schemas that are here, with tables of ours to come */
	ListCell *lc;

	PushActiveSnapshot(GetTransactionSnapshot());
	foreach (lc, pull->schemas)
	{
		if (!pgos_staging_rename_schema(pull, lfirst(lc)))
			moving = lappend(moving, lfirst(lc));
	}
	foreach (lc, staged)
	{
		PgosManifestTable *table = lfirst(lc);
		char			  *schema = pgos_json_string(table->relation, "schema");
		char			  *name = pgos_json_string(table->relation, "name");
		Oid				   relid;

		if (pgos_is_in_list(moving, schema))
			relid = pgos_staging_move_table(pull, table, schema, name);
		else
			relid = get_relname_relid(name, get_namespace_oid(schema, false));
		pgos_pull_tables_created(pull, table, relid);
	}
	foreach (lc, moving)
		pgos_run_utility(psprintf("DROP SCHEMA %s",
								  quote_identifier(pgos_pull_tables_staging(pull, lfirst(lc)))));
	PopActiveSnapshot();
}

void
pgos_pull_tables_help(PgosRun *run)
{
	PgosTeam	   *team = run->team;
	PgosPullTables *pull;
	List		   *tables;
	bool			same = true;

	/* there is no snapshot to share: the leader need not wait for us */
	pgos_team_imported(team);
	/* the dataset that the leader has found, even if there is a newer one by now */
	run->job->path = pgos_text_from_utf8(team->folder, strlen(team->folder));
	pull = pgos_pull_tables_begin(run);
	tables = pgos_plain_tables(pull);
	for (int i = 0; same && i < team->range_count; i++)
	{
		PgosTeamRange *theirs = &team->ranges[i];
		PgosTeamRange  ours;

		same = theirs->end <= (BlockNumber) list_length(tables);
		if (!same)
			break;
		pgos_describe_unit(tables, theirs->first, theirs->end, &ours);
		same = ours.bytes == theirs->bytes && ours.crc == theirs->crc;
	}
	if (!same)
		pgos_run_dataset_changed(run);
	pgos_load_units(pull, tables, team);
}

void
pgos_pull_tables_cleanup(PgosRun *run)
{
	pgos_run_stop_team(run);
	if (run->staging)
		pgos_staging_drop_schemas(run);
	run->staging = false;
}

void
pgos_pull_tables_give_up(PgosRun *run)
{
	pgos_staging_drop_schemas(run);
}
