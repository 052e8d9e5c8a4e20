/*
 * ddl_describe_keys.c
 *		The constraints and indexes of a table as members of its JSON object.
 *
 * A constraint or index that uses a column that is not exported is left out, and of a partition that is
 * described with its parent also what it has from there.  Runs in a worker, inside a transaction; raises.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "catalog/pg_type.h"
#include "commands/comment.h"
#include "copy/ddl_internal.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

typedef struct PgosDdlKey
{
	Oid		 oid;	/* of the constraint */
	Oid		 index; /* behind it, or InvalidOid */
	char	 type;	/* pg_constraint.contype */
	bool	 valid;
	bool	 no_inherit;
	NameData name;
} PgosDdlKey;

/* ---------------------------------------------------------------- what is described */

static bool
pgos_ddl_index_exported(PgosDdlSource *source, Relation index)
{
	for (int i = 0; i < index->rd_index->indnatts; i++)
	{
		AttrNumber attnum = index->rd_index->indkey.values[i];

		/* 0 stands for an expression */
		if (attnum != 0 && !pgos_ddl_is_exported(source, attnum))
			return false;
	}
	return pgos_ddl_uses_exported(source, (Node *) RelationGetIndexExpressions(index)) &&
		   pgos_ddl_uses_exported(source, (Node *) RelationGetIndexPredicate(index));
}

/* Number of columns in conkey; *attnums points into a copy of it. */
static int
pgos_ddl_constraint_columns(HeapTuple tuple, Relation constraints, int16 **attnums)
{
	bool  isnull;
	Datum value =
		heap_getattr(tuple, Anum_pg_constraint_conkey, RelationGetDescr(constraints), &isnull);
	ArrayType *array;

	if (isnull)
		return 0;
	array = DatumGetArrayTypePCopy(value);
	if (ARR_NDIM(array) != 1 || ARR_HASNULL(array) || ARR_ELEMTYPE(array) != INT2OID)
		elog(ERROR, "conkey is not a 1-D smallint array");
	*attnums = (int16 *) ARR_DATA_PTR(array);
	return ARR_DIMS(array)[0];
}

/*
 * Foreign keys that reference a partitioned table have a constraint of their own for each of its partitions,
 * below the one that was declared.
 */
static bool
pgos_ddl_constraint_implied(PgosDdlSource *source, Form_pg_constraint form)
{
	HeapTuple parent;
	bool	  implied;

	if (source->local_only)
		return OidIsValid(form->conparentid) || form->coninhcount > 0;
	parent = SearchSysCache1(CONSTROID, ObjectIdGetDatum(form->conparentid));
	if (!HeapTupleIsValid(parent))
		return false;
	implied = ((Form_pg_constraint) GETSTRUCT(parent))->conrelid == form->conrelid;
	ReleaseSysCache(parent);
	return implied;
}

static bool
pgos_ddl_constraint_exported(PgosDdlSource *source, HeapTuple tuple, Relation constraints)
{
	Form_pg_constraint form = (Form_pg_constraint) GETSTRUCT(tuple);
	int16			  *attnums = NULL;
	int				   nattnums;

	if (form->contype == CONSTRAINT_PRIMARY || form->contype == CONSTRAINT_UNIQUE ||
		form->contype == CONSTRAINT_EXCLUSION)
	{
		Relation index = index_open(form->conindid, AccessShareLock);
		bool	 exported = pgos_ddl_index_exported(source, index);

		index_close(index, NoLock);
		return exported;
	}
	nattnums = pgos_ddl_constraint_columns(tuple, constraints, &attnums);
	for (int i = 0; i < nattnums; i++)
	{
		if (!pgos_ddl_is_exported(source, attnums[i]))
			return false;
	}
	return true;
}

/* Constraints to describe (PgosDdlKey *), by name. */
static List *
pgos_ddl_list_constraints(PgosDdlSource *source)
{
	Relation	constraints = table_open(ConstraintRelationId, AccessShareLock);
	List	   *result = NIL;
	ScanKeyData scankey;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&scankey, Anum_pg_constraint_conrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationGetRelid(source->rel)));
	scan =
		systable_beginscan(constraints, ConstraintRelidTypidNameIndexId, true, NULL, 1, &scankey);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_constraint form = (Form_pg_constraint) GETSTRUCT(tuple);
		PgosDdlKey		  *key;

		if (form->contype == PGOS_CONTYPE_NOT_NULL || form->contype == CONSTRAINT_TRIGGER ||
			pgos_ddl_constraint_implied(source, form) ||
			!pgos_ddl_constraint_exported(source, tuple, constraints))
			continue;
		key = palloc0(sizeof(PgosDdlKey));
		key->oid = form->oid;
		key->type = form->contype;
		key->valid = form->convalidated;
		key->no_inherit = form->connoinherit;
		key->name = form->conname;
		if (form->contype != CONSTRAINT_FOREIGN)
			key->index = form->conindid;
		result = lappend(result, key);
	}
	systable_endscan(scan);
	table_close(constraints, AccessShareLock);
	return result;
}

Bitmapset *
pgos_ddl_unproven_not_null(Relation rel)
{
	Relation	constraints = table_open(ConstraintRelationId, AccessShareLock);
	Bitmapset  *result = NULL;
	ScanKeyData scankey;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&scankey, Anum_pg_constraint_conrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationGetRelid(rel)));
	scan =
		systable_beginscan(constraints, ConstraintRelidTypidNameIndexId, true, NULL, 1, &scankey);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_constraint form = (Form_pg_constraint) GETSTRUCT(tuple);
		int16			  *attnums = NULL;

		if (form->contype == PGOS_CONTYPE_NOT_NULL && !form->convalidated &&
			pgos_ddl_constraint_columns(tuple, constraints, &attnums) == 1)
			result = bms_add_member(result, attnums[0]);
	}
	systable_endscan(scan);
	table_close(constraints, AccessShareLock);
	return result;
}

/* ---------------------------------------------------------------- members */

/* Members that an index has, with or without a constraint. */
static void
pgos_ddl_put_index_flags(StringInfo out, Oid index)
{
	HeapTuple	  tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
	Form_pg_index form;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", index);
	form = (Form_pg_index) GETSTRUCT(tuple);
	if (form->indisreplident)
		pgos_ddl_put_bool(out, "replica_identity", true);
	if (form->indisclustered)
		pgos_ddl_put_bool(out, "clustered", true);
	ReleaseSysCache(tuple);
}

static void
pgos_ddl_put_constraint(PgosDdlSource *source, PgosDdlKey *key)
{
	StringInfo out = source->out;

	pgos_ddl_comma(out);
	appendStringInfoChar(out, '{');
	pgos_ddl_put_text(out, "name", NameStr(key->name));
	pgos_ddl_put_text(out, "definition",
					  pgos_ddl_catalog_text(pg_get_constraintdef, ObjectIdGetDatum(key->oid),
											(Datum) 0, RelationGetRelid(source->rel)));
	if (OidIsValid(key->index))
	{
		/* The definition of a constraint says nothing of its index. */
		pgos_ddl_put_options(out, key->index, InvalidOid);
		pgos_ddl_put_index_flags(out, key->index);
	}
	else
		pgos_ddl_put_bool(out, "valid", key->valid);
	if (key->type == CONSTRAINT_CHECK)
		pgos_ddl_put_bool(out, "no_inherit", key->no_inherit);
	pgos_ddl_put_text(out, "comment", GetComment(key->oid, ConstraintRelationId, 0));
	appendStringInfoChar(out, '}');
}

static void
pgos_ddl_put_constraints(PgosDdlSource *source, List *keys, char type)
{
	ListCell *lc;

	foreach (lc, keys)
	{
		if (((PgosDdlKey *) lfirst(lc))->type == type)
			pgos_ddl_put_constraint(source, lfirst(lc));
	}
}

static void
pgos_ddl_put_index(PgosDdlSource *source, Oid indexid)
{
	StringInfo out = source->out;
	Relation   index;

	/* DROP INDEX CONCURRENTLY takes no lock on the table that would have stopped it. */
	LockRelationOid(indexid, AccessShareLock);
	if (!SearchSysCacheExists1(INDEXRELID, ObjectIdGetDatum(indexid)))
		return;
	index = index_open(indexid, NoLock);
	if (index->rd_index->indisvalid && !OidIsValid(get_index_constraint(indexid)) &&
		!(source->local_only && index->rd_rel->relispartition) &&
		pgos_ddl_index_exported(source, index))
	{
		pgos_ddl_comma(out);
		appendStringInfoChar(out, '{');
		pgos_ddl_put_text(out, "name", RelationGetRelationName(index));
		pgos_ddl_put_text(out, "definition",
						  pgos_ddl_catalog_text(pg_get_indexdef, ObjectIdGetDatum(indexid),
												(Datum) 0, RelationGetRelid(source->rel)));
		pgos_ddl_put_index_flags(out, indexid);
		pgos_ddl_put_text(out, "comment", GetComment(indexid, RelationRelationId, 0));
		appendStringInfoChar(out, '}');
	}
	index_close(index, NoLock);
}

void
pgos_ddl_put_keys(PgosDdlSource *source)
{
	static const struct
	{
		char		type;
		const char *key;
	} lists[] = {{CONSTRAINT_UNIQUE, "unique"},
				 {CONSTRAINT_EXCLUSION, "exclusion"},
				 {CONSTRAINT_CHECK, "checks"},
				 {CONSTRAINT_FOREIGN, "foreign_keys"}};
	StringInfo out = source->out;
	List	  *keys = pgos_ddl_list_constraints(source);
	int		   length;
	ListCell  *lc;

	pgos_ddl_put_key(out, "primary_key");
	length = out->len;
	pgos_ddl_put_constraints(source, keys, CONSTRAINT_PRIMARY);
	if (out->len == length)
		appendStringInfoString(out, "null");

	for (int i = 0; i < (int) lengthof(lists); i++)
	{
		pgos_ddl_put_key(out, lists[i].key);
		appendStringInfoChar(out, '[');
		pgos_ddl_put_constraints(source, keys, lists[i].type);
		appendStringInfoChar(out, ']');
	}

	pgos_ddl_put_key(out, "indexes");
	appendStringInfoChar(out, '[');
	foreach (lc, RelationGetIndexList(source->rel))
		pgos_ddl_put_index(source, lfirst_oid(lc));
	appendStringInfoChar(out, ']');
}
