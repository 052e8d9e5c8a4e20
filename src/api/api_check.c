/*
 * api_check.c
 *		What the functions that enqueue jobs check in the caller's session, and the enqueueing itself.
 *
 * Runs in the caller's backend and transaction; raises.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "api/api_check.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "commands/dbcommands.h"
#include "compat.h"
#include "core/key.h"
#include "guc.h"
#include "job/enqueue.h"
#include "job/job_table.h"
#include "job/run.h"
#include "job/shmem.h"
#include "miscadmin.h"
#include "rewrite/rewriteHandler.h"
#include "store/store_options.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

void
pgos_check_can_enqueue(const char *function)
{
	pgos_shmem_require();
	PreventCommandIfReadOnly(function);
}

char *
pgos_arg_text(FunctionCallInfo fcinfo, int arg)
{
	return PG_ARGISNULL(arg) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(arg));
}

/* An argument that must not be NULL. */
char *
pgos_arg_word(FunctionCallInfo fcinfo, int arg, const char *name)
{
	if (PG_ARGISNULL(arg))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("argument \"%s\" must not be null", name)));
	return pgos_arg_text(fcinfo, arg);
}

List *
pgos_arg_names(FunctionCallInfo fcinfo, int arg)
{
	List  *names = NIL;
	Datum *elements;
	bool  *nulls;
	int	   count;

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

int
pgos_arg_parallel(FunctionCallInfo fcinfo, int arg)
{
	int parallel;

	if (PG_ARGISNULL(arg))
		return 0;
	parallel = PG_GETARG_INT32(arg);
	if (parallel < 1 || parallel > 64)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("argument \"parallel\" is out of range: %d", parallel),
						errdetail("It must be between 1 and 64.")));
	return parallel;
}

/* The server that a call names or the default: exists, is ours, may be used, has what it needs. */
ForeignServer *
pgos_check_server(FunctionCallInfo fcinfo, int arg)
{
	const char		*name = PG_ARGISNULL(arg) ? pgos_default_server : NameStr(*PG_GETARG_NAME(arg));
	ForeignServer	*server;
	PgosStoreOptions options;

	if (name == NULL || name[0] == '\0')
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("no server is named"),
						errhint("Give server => '...', or set pgobjstore.default_server.")));
	server = GetForeignServerByName(name, true);
	if (server == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("server \"%s\" does not exist", name),
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
void
pgos_check_role(void)
{
	Oid		  role = GetUserId();
	HeapTuple tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(role));
	bool	  can_login;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for role %u", role);
	can_login = ((Form_pg_authid) GETSTRUCT(tuple))->rolcanlogin;
	ReleaseSysCache(tuple);
	if (!can_login && !PGOS_COMPAT_NOLOGIN_WORKS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_ROLE_SPECIFICATION),
				 errmsg("role \"%s\" cannot run jobs", GetUserNameFromId(role, false)),
				 errdetail("The role has no LOGIN, and a job runs in a session of its role."),
				 errhint("Call the function as a role with LOGIN, or ALTER ROLE %s LOGIN.",
						 quote_identifier(GetUserNameFromId(role, false)))));
	if (pgos_compat_database_aclcheck(MyDatabaseId, role, ACL_CONNECT) != ACLCHECK_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for database %s", get_database_name(MyDatabaseId)),
				 errdetail("A job runs in a session of its role, and role \"%s\" has no CONNECT.",
						   GetUserNameFromId(role, false))));
}

void
pgos_check_path(const char *path)
{
	const char *problem;
	char	   *utf8 = pgos_text_to_utf8(path);

	problem = pgos_key_check(utf8);
	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for argument \"path\": \"%s\"", path),
				 errdetail("%s", problem),
				 errhint("A path is relative to the url of the server: 'folder/' for a dataset, "
						 "'folder/name.csv.zst' for one object.")));
	pfree(utf8);
}

/* COPY's own check would come in the worker; the caller should hear of it now. */
void
pgos_check_select(Oid relid, List *columns)
{
	HeapTuple tuple;
	int		  natts;
	ListCell *lc;

	foreach (lc, columns)
	{
		const char *name = lfirst(lc);
		AttrNumber	attno = get_attnum(relid, name);

		if (attno <= 0)
			ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
							errmsg("column \"%s\" of relation \"%s\" does not exist", name,
								   get_rel_name(relid))));
		if (get_attgenerated(relid, attno) != '\0' && get_rel_relkind(relid) == RELKIND_RELATION)
			ereport(ERROR, (errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
							errmsg("column \"%s\" is a generated column", name),
							errdetail("Generated columns cannot be used in COPY.")));
		for (int i = 0; i < foreach_current_index(lc); i++)
		{
			if (strcmp(list_nth(columns, i), name) == 0)
				ereport(ERROR, (errcode(ERRCODE_DUPLICATE_COLUMN),
								errmsg("column \"%s\" specified more than once", name)));
		}
	}
	if (pgos_compat_namespace_aclcheck(get_rel_namespace(relid), GetUserId(), ACL_USAGE) !=
		ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_SCHEMA,
					   get_namespace_name(get_rel_namespace(relid)));
	if (pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) == ACLCHECK_OK)
		return;
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	natts = ((Form_pg_class) GETSTRUCT(tuple))->relnatts;
	ReleaseSysCache(tuple);
	for (AttrNumber attno = 1; attno <= natts; attno++)
	{
		char *name = get_attname(relid, attno, true);
		bool  wanted = columns == NIL;

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

char *
pgos_qualified_name(const char *schema, const char *table)
{
	return quote_qualified_identifier(schema, table);
}

/* A temporary table is seen by its own session alone, so no worker could read or write it. */
void
pgos_check_not_temporary(Oid relid)
{
	if (get_rel_persistence(relid) == RELPERSISTENCE_TEMP)
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
						errmsg("\"%s\" is a temporary table", get_rel_name(relid)),
						errdetail("Jobs run in other sessions, which do not see it."),
						errhint("Use an ordinary or unlogged table.")));
}

void
pgos_check_target(Oid relid)
{
	Relation rel = relation_open(relid, AccessShareLock);
	char	 relkind = rel->rd_rel->relkind;
	bool	 usable = relkind == RELKIND_RELATION || relkind == RELKIND_PARTITIONED_TABLE ||
				  relkind == RELKIND_FOREIGN_TABLE ||
				  (relkind == RELKIND_VIEW &&
				   (relation_is_updatable(relid, NIL, true, NULL) & (1 << CMD_INSERT)) != 0);

	if (!usable)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot pull into \"%s\"", RelationGetRelationName(rel)),
				 relkind == RELKIND_VIEW
					 ? errdetail("It is a view that takes no rows: it has no INSTEAD OF INSERT "
								 "trigger, and is not of one table alone.")
					 : errdetail("It is no table, partitioned table, foreign table or view.")));
	relation_close(rel, AccessShareLock);
	pgos_check_not_temporary(relid);
}

int64
pgos_enqueue(PgosJob *job)
{
	pgos_job_insert(job);
	pgos_enqueue_remember(job->job_id, job->owner);
	return job->job_id;
}
