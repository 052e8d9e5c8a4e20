/*
 * api_enqueue.c
 *		objstore_push and objstore_pull: check everything that can be known now, then insert the job's row.
 *
 * Runs in the caller's backend and transaction; raises.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "api/api_check.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "compat.h"
#include "core/key.h"
#include "errors.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "funcapi.h"
#include "guc.h"
#include "job/enqueue.h"
#include "job/job_table.h"
#include "job/run.h"
#include "job/shmem.h"
#include "job/spec.h"
#include "miscadmin.h"
#include "store/store_options.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/varlena.h"

/* Arguments, so that the numbers have names. */
enum
{
	PUSH_RELATION,
	PUSH_SERVER,
	PUSH_PATH,
	PUSH_FORMAT,
	PUSH_COMPRESSION,
	PUSH_COLUMNS,
	PUSH_PARALLEL,
	PUSH_IF_EXISTS,
	PUSH_OPTIONS
};

enum
{
	PULL_RELATION,
	PULL_SERVER,
	PULL_PATH,
	PULL_MODE,
	PULL_COLUMNS,
	PULL_FORMAT,
	PULL_COMPRESSION,
	PULL_ON_CONFLICT,
	PULL_ON_ERROR,
	PULL_PARALLEL,
	PULL_OPTIONS
};

PG_FUNCTION_INFO_V1(objstore_push);

Datum
objstore_push(PG_FUNCTION_ARGS)
{
	PgosSpecWords  words = {0};
	PgosJob		   job = {0};
	ForeignServer *server;
	char		  *schema;
	char		  *table;
	char		   relkind;

	pgos_check_can_enqueue("objstore_push()");
	if (PG_ARGISNULL(PUSH_RELATION))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("argument \"relation\" must not be null")));
	job.kind = PGOS_JOB_PUSH;
	job.relid = PG_GETARG_OID(PUSH_RELATION);
	words.format = pgos_arg_word(fcinfo, PUSH_FORMAT, "format");
	words.compression = pgos_arg_word(fcinfo, PUSH_COMPRESSION, "compression");
	words.if_exists = pgos_arg_word(fcinfo, PUSH_IF_EXISTS, "if_exists");
	words.columns = pgos_arg_names(fcinfo, PUSH_COLUMNS);
	words.options = PG_ARGISNULL(PUSH_OPTIONS) ? NULL : PG_GETARG_JSONB_P(PUSH_OPTIONS);
	words.parallel = pgos_arg_parallel(fcinfo, PUSH_PARALLEL);

	table = get_rel_name(job.relid);
	if (table == NULL)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
						errmsg("relation with OID %u does not exist", job.relid)));
	schema = get_namespace_name(get_rel_namespace(job.relid));
	relkind = get_rel_relkind(job.relid);
	if (relkind != RELKIND_RELATION && relkind != RELKIND_PARTITIONED_TABLE &&
		relkind != RELKIND_VIEW && relkind != RELKIND_MATVIEW && relkind != RELKIND_FOREIGN_TABLE)
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE), errmsg("cannot push \"%s\"", table),
						errdetail("It is no table, partitioned table, view, materialized view or "
								  "foreign table.")));
	pgos_check_not_temporary(job.relid);
	pgos_check_select(job.relid, words.columns);
	(void) pgos_spec_parse(PGOS_JOB_PUSH, &words);
	server = pgos_check_server(fcinfo, PUSH_SERVER);
	pgos_check_role();

	job.job_id = pgos_job_next_id();
	job.relation = pgos_qualified_name(schema, table);
	job.server = server->servername;
	job.serverid = server->serverid;
	job.owner = GetUserId();
	job.enqueued_at = GetCurrentTimestamp();
	if (PG_ARGISNULL(PUSH_PATH))
	{
		char	   *key = pgos_key_dataset(pgos_text_to_utf8(get_database_name(MyDatabaseId)),
										   pgos_text_to_utf8(schema), pgos_text_to_utf8(table),
										   timestamptz_to_time_t(job.enqueued_at), job.job_id);
		const char *problem = pgos_key_check(key);

		if (problem != NULL)
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
							errmsg("the default path \"%s\" cannot be used", key),
							errdetail("%s", problem), errhint("Give path => 'folder/'.")));
		job.path = pgos_text_from_utf8(key, strlen(key));
		words.own_folder = "true";
	}
	else
	{
		job.path = pgos_arg_text(fcinfo, PUSH_PATH);
		pgos_check_path(job.path);
	}
	job.spec_json = pgos_spec_to_json(&words);
	PG_RETURN_INT64(pgos_enqueue(&job));
}

/* Where a pull's relation is or will be: as any statement would find it. */
static void
pgos_pull_target(const char *relation, PgosJob *job, PgosSpecWords *words)
{
	RangeVar *range = makeRangeVarFromNameList(textToQualifiedNameList(cstring_to_text(relation)));

	if (range->catalogname != NULL &&
		strcmp(range->catalogname, get_database_name(MyDatabaseId)) != 0)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("cannot pull into another database: \"%s\"", relation)));
	job->relid = RangeVarGetRelid(range, NoLock, true);
	if (OidIsValid(job->relid))
	{
		words->table = get_rel_name(job->relid);
		words->schema = get_namespace_name(get_rel_namespace(job->relid));
	}
	else
	{
		Oid nspid = RangeVarGetCreationNamespace(range);

		words->table = range->relname;
		words->schema = get_namespace_name(nspid);
		if (pgos_compat_namespace_aclcheck(nspid, GetUserId(), ACL_CREATE) != ACLCHECK_OK)
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("permission denied for schema %s", words->schema),
					 errdetail("Table \"%s\" does not exist and would have to be created there.",
							   words->table)));
	}
	job->relation = pgos_qualified_name(words->schema, words->table);
}

/* Several workers cannot commit together, so what they load must have no readers before it is whole. */
static void
pgos_check_pull_parallel(const PgosJob *job, const PgosSpec *spec)
{
	const char *reason = pgos_spec_pull_unsplittable(spec);

	if (OidIsValid(job->relid))
		reason =
			"The table exists, and rows of several workers would not appear in it all at once.";
	if (reason != NULL)
		ereport(
			ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("this pull cannot use several workers"),
			 errdetail("%s", reason),
			 errhint("Leave parallel out, or pull a dataset into a table that does not exist.")));
}

PG_FUNCTION_INFO_V1(objstore_pull);

Datum
objstore_pull(PG_FUNCTION_ARGS)
{
	PgosSpecWords  words = {0};
	PgosJob		   job = {0};
	ForeignServer *server;
	PgosSpec	  *spec;

	pgos_check_can_enqueue("objstore_pull()");
	job.kind = PGOS_JOB_PULL;
	words.mode = pgos_arg_word(fcinfo, PULL_MODE, "mode");
	words.format = pgos_arg_text(fcinfo, PULL_FORMAT);
	words.compression = pgos_arg_text(fcinfo, PULL_COMPRESSION);
	words.columns = pgos_arg_names(fcinfo, PULL_COLUMNS);
	words.options = PG_ARGISNULL(PULL_OPTIONS) ? NULL : PG_GETARG_JSONB_P(PULL_OPTIONS);
	words.parallel = pgos_arg_parallel(fcinfo, PULL_PARALLEL);
	words.on_conflict = pgos_arg_word(fcinfo, PULL_ON_CONFLICT, "on_conflict");
	words.on_error = pgos_arg_word(fcinfo, PULL_ON_ERROR, "on_error");
	pgos_pull_target(pgos_arg_word(fcinfo, PULL_RELATION, "relation"), &job, &words);
	spec = pgos_spec_parse(PGOS_JOB_PULL, &words);
	if (words.parallel > 1)
		pgos_check_pull_parallel(&job, spec);
	if (OidIsValid(job.relid))
	{
		if (spec->mode == PGOS_MODE_CREATE)
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_TABLE),
					 errmsg("relation %s exists already", job.relation),
					 errhint("Use mode => 'append' or mode => 'replace', or another name.")));
		pgos_check_target(job.relid);
		if (pg_class_aclcheck(job.relid, GetUserId(), ACL_INSERT) != ACLCHECK_OK &&
			pg_attribute_aclcheck_all(job.relid, GetUserId(), ACL_INSERT, ACLMASK_ANY) !=
				ACLCHECK_OK)
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("permission denied for table %s", words.table),
					 errhint("The role needs INSERT on it: GRANT INSERT ON %s TO %s.", job.relation,
							 quote_identifier(GetUserNameFromId(GetUserId(), false)))));
		if (spec->mode == PGOS_MODE_REPLACE &&
			pg_class_aclcheck(job.relid, GetUserId(), ACL_DELETE) != ACLCHECK_OK)
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("permission denied for table %s", words.table),
					 errdetail("mode => 'replace' deletes its rows."),
					 errhint("The role needs DELETE on it: GRANT DELETE ON %s TO %s.", job.relation,
							 quote_identifier(GetUserNameFromId(GetUserId(), false)))));
	}
	server = pgos_check_server(fcinfo, PULL_SERVER);
	pgos_check_role();
	if (!PG_ARGISNULL(PULL_PATH))
	{
		job.path = pgos_arg_text(fcinfo, PULL_PATH);
		pgos_check_path(job.path);
	}

	job.job_id = pgos_job_next_id();
	job.server = server->servername;
	job.serverid = server->serverid;
	job.owner = GetUserId();
	job.enqueued_at = GetCurrentTimestamp();
	job.spec_json = pgos_spec_to_json(&words);
	PG_RETURN_INT64(pgos_enqueue(&job));
}
