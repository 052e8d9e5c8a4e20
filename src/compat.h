/*
 * compat.h
 *		The differences between the PostgreSQL versions that pgobjstore compiles with (15 to 19).
 *
 * The only file that looks at PG_VERSION_NUM.
 */
#ifndef PGOS_COMPAT_H
#define PGOS_COMPAT_H

#include "postgres.h"
#include "executor/executor.h"
#include "parser/parse_relation.h"
#include "postmaster/bgworker.h"
#include "storage/lmgr.h"
#include "storage/lwlock.h"
#include "utils/acl.h"
#include "utils/wait_event.h"

#if PG_VERSION_NUM < 150000
#error "pgobjstore needs PostgreSQL 15 or later"
#endif

/* 18 has pg_noreturn, which stands before the declaration, and the other no more. */
#ifndef pg_attribute_noreturn
#define pg_attribute_noreturn() __attribute__((noreturn))
#endif

/* 16: object_aclcheck() replaced the functions for each kind of object. */
#if PG_VERSION_NUM >= 160000
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_namespace.h"
#define pgos_compat_server_aclcheck(oid, role, mode) \
	object_aclcheck(ForeignServerRelationId, oid, role, mode)
#define pgos_compat_database_aclcheck(oid, role, mode) \
	object_aclcheck(DatabaseRelationId, oid, role, mode)
#define pgos_compat_namespace_aclcheck(oid, role, mode) \
	object_aclcheck(NamespaceRelationId, oid, role, mode)
#define pgos_compat_is_owner(relid, role) object_ownercheck(RelationRelationId, relid, role)
#else
#define pgos_compat_server_aclcheck(oid, role, mode) pg_foreign_server_aclcheck(oid, role, mode)
#define pgos_compat_database_aclcheck(oid, role, mode) pg_database_aclcheck(oid, role, mode)
#define pgos_compat_namespace_aclcheck(oid, role, mode) pg_namespace_aclcheck(oid, role, mode)
#define pgos_compat_is_owner(relid, role) pg_class_ownercheck(relid, role)
#endif

/*
 * Adds the relation to the range table and checks that the current user may INSERT into (COPY FROM) the
 * columns; raises if not.  16 moved the permissions out of the range table entry.
 */
static inline ParseNamespaceItem *
pgos_compat_check_insert(ParseState *pstate, Relation rel, Bitmapset *columns)
{
	ParseNamespaceItem *nsitem =
		addRangeTableEntryForRelation(pstate, rel, RowExclusiveLock, NULL, false, false);

#if PG_VERSION_NUM >= 160000
	nsitem->p_perminfo->requiredPerms = ACL_INSERT;
	nsitem->p_perminfo->insertedCols = columns;
	(void) ExecCheckPermissions(pstate->p_rtable, list_make1(nsitem->p_perminfo), true);
#else
	nsitem->p_rte->requiredPerms = ACL_INSERT;
	nsitem->p_rte->insertedCols = columns;
	(void) ExecCheckRTPerms(pstate->p_rtable, true);
#endif
	return nsitem;
}

/*
 * Raises unless the current user may SELECT the columns of the relation, as COPY TO does.
 */
static inline void
pgos_compat_check_select(Relation rel, Bitmapset *columns)
{
	ParseState		   *pstate = make_parsestate(NULL);
	ParseNamespaceItem *nsitem =
		addRangeTableEntryForRelation(pstate, rel, AccessShareLock, NULL, false, false);

#if PG_VERSION_NUM >= 160000
	nsitem->p_perminfo->requiredPerms = ACL_SELECT;
	nsitem->p_perminfo->selectedCols = columns;
	(void) ExecCheckPermissions(pstate->p_rtable, list_make1(nsitem->p_perminfo), true);
#else
	nsitem->p_rte->requiredPerms = ACL_SELECT;
	nsitem->p_rte->selectedCols = columns;
	(void) ExecCheckRTPerms(pstate->p_rtable, true);
#endif
	free_parsestate(pstate);
}

/* 18: a plan is run once at most, and need not be told so. */
#if PG_VERSION_NUM >= 180000
#define pgos_compat_executor_run(desc) ExecutorRun(desc, ForwardScanDirection, 0)
#else
#define pgos_compat_executor_run(desc) ExecutorRun(desc, ForwardScanDirection, 0, true)
#endif

/*
 * Wait events of our own exist since 17; before, everything of an extension is "Extension".
 */
#if PG_VERSION_NUM >= 170000
#define PGOS_COMPAT_WAIT_EVENT(variable, name) \
	((variable) == 0 ? ((variable) = WaitEventExtensionNew(name)) : (variable))
#else
#define PGOS_COMPAT_WAIT_EVENT(variable, name) ((void) (variable), PG_WAIT_EXTENSION)
#endif

/* 17: a worker may connect as a role that has no LOGIN. */
#ifdef BGWORKER_BYPASS_ROLELOGINCHECK
#define PGOS_COMPAT_CONNECT_FLAGS BGWORKER_BYPASS_ROLELOGINCHECK
#define PGOS_COMPAT_NOLOGIN_WORKS true
#else
#define PGOS_COMPAT_CONNECT_FLAGS 0
#define PGOS_COMPAT_NOLOGIN_WORKS false
#endif

/* 16: COPY FROM knows DEFAULT, and inserts into foreign tables in groups, of which it knows no line. */
#if PG_VERSION_NUM >= 160000
#define PGOS_COMPAT_COPY_FROM_OPTIONS "default",
#define PGOS_COMPAT_COPY_NO_LINE(cstate) ((cstate)->relname_only)
#else
#define PGOS_COMPAT_COPY_FROM_OPTIONS
#define PGOS_COMPAT_COPY_NO_LINE(cstate) false
#endif

/* The same of what COPY FROM holds: whether the option is given, and the default of a column it does not read. */
#if PG_VERSION_NUM >= 160000
#define PGOS_COMPAT_COPY_HAS_DEFAULT(options) ((options)->default_print != NULL)
#define PGOS_COMPAT_COPY_DEFAULT(cstate, i) ((cstate)->defexprs[(cstate)->defmap[i]])
#else
#define PGOS_COMPAT_COPY_HAS_DEFAULT(options) false
#define PGOS_COMPAT_COPY_DEFAULT(cstate, i) ((cstate)->defexprs[i])
#endif

/* 17: FORCE_NULL * and FORCE_NOT_NULL *. */
#define PGOS_COMPAT_COPY_FORCE_ALL (PG_VERSION_NUM >= 170000)
#if PG_VERSION_NUM >= 170000
#define PGOS_COMPAT_COPY_FORCES_ALL(options) \
	((options)->force_null_all || (options)->force_notnull_all)
#else
#define PGOS_COMPAT_COPY_FORCES_ALL(options) false
#endif

/* The range table of a COPY FROM for an executor: 16 has permissions beside it, 18 says what was pruned. */
#if PG_VERSION_NUM >= 180000
#define pgos_compat_init_range_table(estate, cstate) \
	ExecInitRangeTable(estate, (cstate)->range_table, (cstate)->rteperminfos, bms_make_singleton(1))
#elif PG_VERSION_NUM >= 160000
#define pgos_compat_init_range_table(estate, cstate) \
	ExecInitRangeTable(estate, (cstate)->range_table, (cstate)->rteperminfos)
#else
#define pgos_compat_init_range_table(estate, cstate) \
	ExecInitRangeTable(estate, (cstate)->range_table)
#endif

/* Index entries of a row that was inserted. */
#if PG_VERSION_NUM >= 190000
#define pgos_compat_insert_index_tuples(rri, slot, estate) \
	ExecInsertIndexTuples(rri, estate, 0, slot, NIL, NULL)
#elif PG_VERSION_NUM >= 160000
#define pgos_compat_insert_index_tuples(rri, slot, estate) \
	ExecInsertIndexTuples(rri, slot, estate, false, false, NULL, NIL, false)
#else
#define pgos_compat_insert_index_tuples(rri, slot, estate) \
	ExecInsertIndexTuples(rri, slot, estate, false, false, NULL, NIL)
#endif

/* 16: relfilenodes are relfilenumbers, and in the cache relfilelocators. */
#if PG_VERSION_NUM >= 160000
#define PGOS_COMPAT_NEW_FILE_SUBID(rel) ((rel)->rd_newRelfilelocatorSubid)
#define PGOS_COMPAT_FIRST_FILE_SUBID(rel) ((rel)->rd_firstRelfilelocatorSubid)
#else
#define PGOS_COMPAT_NEW_FILE_SUBID(rel) ((rel)->rd_newRelfilenodeSubid)
#define PGOS_COMPAT_FIRST_FILE_SUBID(rel) ((rel)->rd_firstRelfilenodeSubid)
#endif

/* 18: "\." alone on a line is data in csv. */
#define PGOS_COMPAT_COPY_CSV_MARKER (PG_VERSION_NUM < 180000)

/* 18: a primary key may be asked for even if it is deferrable, which is no key for ON CONFLICT. */
#if PG_VERSION_NUM >= 180000
#define pgos_compat_primary_key(rel) RelationGetPrimaryKeyIndex(rel, false)
#else
#define pgos_compat_primary_key(rel) RelationGetPrimaryKeyIndex(rel)
#endif

/* 19: pg_plan_query() has one argument more; a descriptor that was made by hand must be finished. */
#if PG_VERSION_NUM >= 190000
#define pgos_compat_plan_query(query, sql) pg_plan_query(query, sql, 0, NULL, NULL)
#define pgos_compat_tupledesc_finalize(desc) TupleDescFinalize(desc)
#else
#define pgos_compat_plan_query(query, sql) pg_plan_query(query, sql, 0, NULL)
#define pgos_compat_tupledesc_finalize(desc) ((void) (desc))
#endif

/* 18: generated columns that are computed when they are read. */
#define PGOS_COMPAT_VIRTUAL_COLUMNS (PG_VERSION_NUM >= 180000)
#if PG_VERSION_NUM >= 180000
#define PGOS_COMPAT_HAS_GENERATED_VIRTUAL(constr) ((constr)->has_generated_virtual)
#else
#define PGOS_COMPAT_HAS_GENERATED_VIRTUAL(constr) false
#endif

#endif
