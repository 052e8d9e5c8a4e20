/*
 * api_enqueue.c
 *		objstore_push and objstore_pull: check everything that can be known now, then insert the job's row.
 *
 * Runs in the caller's backend and transaction; raises.
 */
#include "postgres.h"

#include "access/htup_details.h"
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

static char *
pgos_arg_text(FunctionCallInfo fcinfo, int arg)
{
	return PG_ARGISNULL(arg) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(arg));
}

/* An argument that must not be NULL. */
static char *
pgos_arg_word(FunctionCallInfo fcinfo, int arg, const char *name)
{
	if (PG_ARGISNULL(arg))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("argument \"%s\" must not be null", name)));
	return pgos_arg_text(fcinfo, arg);
}

static List *
pgos_arg_names(FunctionCallInfo fcinfo, int arg)
{
	List	   *names = NIL;
	Datum	   *elements;
	bool	   *nulls;
	int			count;

	if (PG_ARGISNULL(arg))
		return NIL;
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(arg), NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR,
					  &elements, &nulls, &count);
	for (int i = 0; i < count; i++)
	{
		if (nulls[i])
			ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
							errmsg("argument \"columns\" must not contain nulls")));
		names = lappend(names, pstrdup(NameStr(*DatumGetName(elements[i]))));
	}
	if (names == NIL)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("argument \"columns\" is an empty array"),
						errhint("Leave it out for all columns.")));
	return names;
}

/* parallel: one stream is what there is. */
static void
pgos_check_parallel(FunctionCallInfo fcinfo, int arg)
{
	if (!PG_ARGISNULL(arg) && PG_GETARG_INT32(arg) != 1)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("argument \"parallel\" must be null or 1 in this version"),
						errhint("Leave it out.")));
}

/* The server that a call names or the default: exists, is ours, may be used, has what it needs. */
static ForeignServer *
pgos_check_server(FunctionCallInfo fcinfo, int arg)
{
	const char *name =
		PG_ARGISNULL(arg) ? pgos_default_server : NameStr(*PG_GETARG_NAME(arg));
	ForeignServer *server;
	PgosStoreOptions options;

	if (name == NULL || name[0] == '\0')
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("no server is named"),
						errhint("Give server => '...', or set pgobjstore.default_server.")));
	server = GetForeignServerByName(name, true);
	if (server == NULL)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
						errmsg("server \"%s\" does not exist", name),
						errhint("Create it: CREATE SERVER %s FOREIGN DATA WRAPPER objstore OPTIONS (url "
								"'s3://bucket/prefix'). The psql command \\des lists the servers.",
								quote_identifier(name))));
	if (strcmp(GetForeignDataWrapper(server->fdwid)->fdwname, "objstore") != 0)
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
						errmsg("server \"%s\" is not an object store", name),
						errdetail("It belongs to the foreign-data wrapper \"%s\".",
								  GetForeignDataWrapper(server->fdwid)->fdwname),
						errhint("Use a server of the foreign-data wrapper objstore.")));
	if (pgos_compat_server_aclcheck(server->serverid, GetUserId(), ACL_USAGE) != ACLCHECK_OK)
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
						errmsg("permission denied for foreign server %s", name),
						errhint("Its owner can allow it: GRANT USAGE ON FOREIGN SERVER %s TO %s.",
								quote_identifier(name),
								quote_identifier(GetUserNameFromId(GetUserId(), false)))));
	pgos_store_options_get(server->serverid, GetUserId(), &options);
	return server;
}

/* The role must be able to connect: the job runs in a session of its own. */
static void
pgos_check_role(void)
{
	Oid			role = GetUserId();
	HeapTuple	tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(role));
	bool		can_login;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for role %u", role);
	can_login = ((Form_pg_authid) GETSTRUCT(tuple))->rolcanlogin;
	ReleaseSysCache(tuple);
	if (!can_login && !PGOS_COMPAT_NOLOGIN_WORKS)
		ereport(ERROR, (errcode(ERRCODE_INVALID_ROLE_SPECIFICATION),
						errmsg("role \"%s\" cannot run jobs", GetUserNameFromId(role, false)),
						errdetail("The role has no LOGIN, and a job runs in a session of its role."),
						errhint("Call the function as a role with LOGIN, or ALTER ROLE %s LOGIN.",
								quote_identifier(GetUserNameFromId(role, false)))));
	if (pgos_compat_database_aclcheck(MyDatabaseId, role, ACL_CONNECT) != ACLCHECK_OK)
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
						errmsg("permission denied for database %s", get_database_name(MyDatabaseId)),
						errdetail("A job runs in a session of its role, and role \"%s\" has no CONNECT.",
								  GetUserNameFromId(role, false))));
}

static void
pgos_check_path(const char *path)
{
	const char *problem;
	char	   *utf8 = pgos_text_to_utf8(path);

	problem = pgos_key_check(utf8);
	if (problem != NULL)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("invalid value for argument \"path\": \"%s\"", path),
						errdetail("%s", problem),
						errhint("A path is relative to the url of the server: 'folder/' for a dataset, "
								"'folder/name.csv.zst' for one object.")));
	pfree(utf8);
}

/* COPY's own check would come in the worker; the caller should hear of it now. */
static void
pgos_check_select(Oid relid, List *columns)
{
	HeapTuple	tuple;
	int			natts;
	ListCell   *lc;

	foreach (lc, columns)
	{
		const char *name = lfirst(lc);
		AttrNumber	attno = get_attnum(relid, name);

		if (attno <= 0)
			ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
							errmsg("column \"%s\" of relation \"%s\" does not exist", name,
								   get_rel_name(relid))));
	}
	if (pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) == ACLCHECK_OK)
		return;
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	natts = ((Form_pg_class) GETSTRUCT(tuple))->relnatts;
	ReleaseSysCache(tuple);
	for (AttrNumber attno = 1; attno <= natts; attno++)
	{
		char	   *name = get_attname(relid, attno, true);
		bool		wanted = columns == NIL;

		if (name == NULL)
			continue;
		foreach (lc, columns)
			wanted |= strcmp(lfirst(lc), name) == 0;
		if (wanted && get_attgenerated(relid, attno) == '\0' &&
			pg_attribute_aclcheck(relid, attno, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
			ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
							errmsg("permission denied for table %s", get_rel_name(relid)),
							errhint("The role needs SELECT on it: GRANT SELECT ON %s TO %s.",
									quote_identifier(get_rel_name(relid)),
									quote_identifier(GetUserNameFromId(GetUserId(), false)))));
	}
}

static char *
pgos_qualified_name(const char *schema, const char *table)
{
	return quote_qualified_identifier(schema, table);
}

/* A temporary table is seen by its own session alone, so no worker could read or write it. */
static void
pgos_check_not_temporary(Oid relid)
{
	if (get_rel_persistence(relid) == RELPERSISTENCE_TEMP)
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
						errmsg("\"%s\" is a temporary table", get_rel_name(relid)),
						errdetail("Jobs run in other sessions, which do not see it."),
						errhint("Use an ordinary or unlogged table.")));
}

static int64
pgos_enqueue(PgosJob *job)
{
	pgos_job_insert(job);
	pgos_enqueue_remember(job->job_id, job->owner);
	return job->job_id;
}

PG_FUNCTION_INFO_V1(objstore_push);

Datum
objstore_push(PG_FUNCTION_ARGS)
{
	PgosSpecWords words = {0};
	PgosJob		job = {0};
	ForeignServer *server;
	char	   *schema;
	char	   *table;
	char		relkind;

	pgos_shmem_require();
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
	words.parallel = PG_ARGISNULL(PUSH_PARALLEL) ? 0 : PG_GETARG_INT32(PUSH_PARALLEL);
	if (!PG_ARGISNULL(PUSH_PARALLEL) && (words.parallel < 1 || words.parallel > 64))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("argument \"parallel\" is out of range: %d", words.parallel),
						errdetail("It must be between 1 and 64.")));

	table = get_rel_name(job.relid);
	if (table == NULL)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
						errmsg("relation with OID %u does not exist", job.relid)));
	schema = get_namespace_name(get_rel_namespace(job.relid));
	relkind = get_rel_relkind(job.relid);
	if (relkind != RELKIND_RELATION && relkind != RELKIND_PARTITIONED_TABLE &&
		relkind != RELKIND_VIEW && relkind != RELKIND_MATVIEW && relkind != RELKIND_FOREIGN_TABLE)
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
						errmsg("cannot push \"%s\"", table),
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
	RangeVar   *range = makeRangeVarFromNameList(textToQualifiedNameList(cstring_to_text(relation)));

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
		Oid			nspid = RangeVarGetCreationNamespace(range);

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

PG_FUNCTION_INFO_V1(objstore_pull);

Datum
objstore_pull(PG_FUNCTION_ARGS)
{
	static const char *const conflicts[] = {"error", NULL};
	static const char *const errors[] = {"stop", NULL};
	PgosSpecWords words = {0};
	PgosJob		job = {0};
	ForeignServer *server;
	PgosSpec   *spec;
	char	   *word;

	pgos_shmem_require();
	job.kind = PGOS_JOB_PULL;
	words.mode = pgos_arg_word(fcinfo, PULL_MODE, "mode");
	words.format = pgos_arg_text(fcinfo, PULL_FORMAT);
	words.compression = pgos_arg_text(fcinfo, PULL_COMPRESSION);
	words.columns = pgos_arg_names(fcinfo, PULL_COLUMNS);
	words.options = PG_ARGISNULL(PULL_OPTIONS) ? NULL : PG_GETARG_JSONB_P(PULL_OPTIONS);
	pgos_check_parallel(fcinfo, PULL_PARALLEL);
	word = pgos_arg_word(fcinfo, PULL_ON_CONFLICT, "on_conflict");
	if (strcmp(word, conflicts[0]) != 0)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("on_conflict => '%s' is not supported in this version", word),
						errdetail("Valid values are: %s.", pgos_join_words(conflicts))));
	word = pgos_arg_word(fcinfo, PULL_ON_ERROR, "on_error");
	if (strcmp(word, errors[0]) != 0)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("on_error => '%s' is not supported in this version", word),
						errdetail("Valid values are: %s.", pgos_join_words(errors))));

	pgos_pull_target(pgos_arg_word(fcinfo, PULL_RELATION, "relation"), &job, &words);
	spec = pgos_spec_parse(PGOS_JOB_PULL, &words);
	if (OidIsValid(job.relid))
	{
		if (spec->mode == PGOS_MODE_CREATE)
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_TABLE),
					 errmsg("relation %s exists already", job.relation),
					 errhint("Use mode => 'append' or mode => 'replace', or another name.")));
		pgos_check_not_temporary(job.relid);
		if (pg_class_aclcheck(job.relid, GetUserId(), ACL_INSERT) != ACLCHECK_OK &&
			pg_attribute_aclcheck_all(job.relid, GetUserId(), ACL_INSERT, ACLMASK_ANY) != ACLCHECK_OK)
			ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
							errmsg("permission denied for table %s", words.table),
							errhint("The role needs INSERT on it: GRANT INSERT ON %s TO %s.",
									job.relation,
									quote_identifier(GetUserNameFromId(GetUserId(), false)))));
		if (spec->mode == PGOS_MODE_REPLACE &&
			pg_class_aclcheck(job.relid, GetUserId(), ACL_DELETE) != ACLCHECK_OK)
			ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
							errmsg("permission denied for table %s", words.table),
							errdetail("mode => 'replace' deletes its rows."),
							errhint("The role needs DELETE on it: GRANT DELETE ON %s TO %s.",
									job.relation,
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
