/*
 * ddl_describe.c
 *		A relation's definition as JSON, from the catalogs.
 *
 * Everything is read under locks that are kept to the end of the transaction (AccessShareLock, as COPY takes),
 * with settings under which the server's own deparsing qualifies every name.  The members are documented in
 * docs/MANIFEST.md.  Memory: the caller's context.  Runs in a worker, inside a transaction; raises.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/reloptions.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/toast_compression.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_sequence.h"
#include "catalog/pg_type.h"
#include "commands/comment.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "commands/sequence.h"
#include "copy/ddl_internal.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "optimizer/optimizer.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"

void
pgos_ddl_put_relation(StringInfo out, const char *prefix, Oid relid)
{
	pgos_ddl_put_text(out, psprintf("%sschema", prefix),
					  get_namespace_name(get_rel_namespace(relid)));
	pgos_ddl_put_text(out, psprintf("%sname", prefix), get_rel_name(relid));
}

/* ---------------------------------------------------------------- catalog texts */

/*
 * A text from one of the server's pg_get_...() functions.  They look with the transaction's snapshot, which
 * may be older than what is in the catalogs now.
 */
char *
pgos_ddl_catalog_text(PGFunction function, Datum argument1, Datum argument2, Oid relid)
{
	LOCAL_FCINFO(fcinfo, 2);
	Datum result;

	InitFunctionCallInfoData(*fcinfo, NULL, 2, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = argument1;
	fcinfo->args[0].isnull = false;
	fcinfo->args[1].value = argument2;
	fcinfo->args[1].isnull = false;
	result = (*function)(fcinfo);
	if (fcinfo->isnull)
		ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
						errmsg("definition of relation \"%s\" was changed while it was read",
							   get_rel_name(relid)),
						errhint("Run the job again.")));
	return TextDatumGetCString(result);
}

char *
pgos_ddl_partition_bound(Oid relid)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	char	 *result = NULL;
	Datum	  bound;
	bool	  isnull;

	if (!HeapTupleIsValid(tuple))
		return NULL;
	bound = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_relpartbound, &isnull);
	if (!isnull)
		result = pgos_ddl_catalog_text(pg_get_expr, bound, ObjectIdGetDatum(relid), relid);
	ReleaseSysCache(tuple);
	return result;
}

/* Storage parameters as an object of strings; those of the TOAST table with "toast." before the name. */
void
pgos_ddl_put_options(StringInfo out, Oid relid, Oid toast_relid)
{
	Oid relids[] = {relid, toast_relid};

	pgos_ddl_put_key(out, "options");
	appendStringInfoChar(out, '{');
	for (int i = 0; i < (int) lengthof(relids); i++)
	{
		HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relids[i]));
		Datum	  options;
		bool	  isnull;
		ListCell *lc;

		if (!HeapTupleIsValid(tuple))
			continue;
		options = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_reloptions, &isnull);
		if (!isnull)
		{
			foreach (lc, untransformRelOptions(options))
			{
				DefElem *option = lfirst_node(DefElem, lc);

				pgos_ddl_put_text(out, psprintf("%s%s", i == 0 ? "" : "toast.", option->defname),
								  option->arg == NULL ? "true" : defGetString(option));
			}
		}
		ReleaseSysCache(tuple);
	}
	appendStringInfoChar(out, '}');
}

/* ---------------------------------------------------------------- which columns */

bool
pgos_ddl_is_exported(PgosDdlSource *source, AttrNumber attnum)
{
	const char *name;
	ListCell   *lc;

	/* Of the other attributes only the whole row, number 0, depends on the columns. */
	if (source->columns == NIL || attnum < 0)
		return true;
	if (attnum == 0)
		return false;
	name = NameStr(TupleDescAttr(RelationGetDescr(source->rel), attnum - 1)->attname);
	foreach (lc, source->columns)
	{
		if (strcmp(name, (char *) lfirst(lc)) == 0)
			return true;
	}
	return false;
}

/* Whether an expression over the relation (or a list of them) uses exported columns alone. */
bool
pgos_ddl_uses_exported(PgosDdlSource *source, Node *expression)
{
	Bitmapset *attributes = NULL;
	int		   i = -1;

	pull_varattnos(expression, 1, &attributes);
	while ((i = bms_next_member(attributes, i)) >= 0)
	{
		if (!pgos_ddl_is_exported(source, i + FirstLowInvalidHeapAttributeNumber))
			return false;
	}
	return true;
}

static Node *
pgos_ddl_default(Relation rel, AttrNumber attnum)
{
	TupleConstr *constr = RelationGetDescr(rel)->constr;

	for (int i = 0; constr != NULL && i < constr->num_defval; i++)
	{
		if (constr->defval[i].adnum == attnum)
			return stringToNode(constr->defval[i].adbin);
	}
	return NULL;
}

/* ---------------------------------------------------------------- sequences */

static bool
pgos_ddl_refers_walker(Node *node, void *context)
{
	Oid seqid = *(Oid *) context;

	if (node == NULL)
		return false;
	if (IsA(node, Const))
		return ((Const *) node)->consttype == REGCLASSOID && !((Const *) node)->constisnull &&
			   DatumGetObjectId(((Const *) node)->constvalue) == seqid;
	return expression_tree_walker(node, pgos_ddl_refers_walker, context);
}

Oid
pgos_ddl_owned_sequence(Oid relid, AttrNumber attnum, Node *expression)
{
	Oid		  first = InvalidOid;
	ListCell *lc;

	foreach (lc, getOwnedSequences(relid))
	{
		Oid	  seqid = lfirst_oid(lc);
		Oid	  owner_relid;
		int32 owner_attnum;

		if (sequenceIsOwned(seqid, DEPENDENCY_INTERNAL, &owner_relid, &owner_attnum) &&
			owner_attnum == attnum)
			return seqid;
		if (!sequenceIsOwned(seqid, DEPENDENCY_AUTO, &owner_relid, &owner_attnum) ||
			owner_attnum != attnum)
			continue;
		if (pgos_ddl_refers_walker(expression, &seqid))
			return seqid;
		if (!OidIsValid(first))
			first = seqid;
	}
	return first;
}

/*
 * Where the sequence stands.  Sequences have no versions, so the one tuple is read as it is now.  Whoever may
 * neither read nor use it is not told.
 */
static void
pgos_ddl_put_sequence_state(StringInfo out, Oid seqid)
{
	Relation				  rel;
	Buffer					  buffer;
	Page					  page;
	HeapTupleData			  tuple;
	FormData_pg_sequence_data state;

	if (pg_class_aclcheck(seqid, GetUserId(), ACL_SELECT | ACL_USAGE) != ACLCHECK_OK)
	{
		pgos_ddl_put_text(out, "last_value", NULL);
		pgos_ddl_put_bool(out, "is_called", false);
		return;
	}
	rel = relation_open(seqid, AccessShareLock);
	buffer = ReadBuffer(rel, 0);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	tuple.t_data = (HeapTupleHeader) PageGetItem(page, PageGetItemId(page, FirstOffsetNumber));
	memcpy(&state, GETSTRUCT(&tuple), sizeof(state));
	UnlockReleaseBuffer(buffer);
	relation_close(rel, NoLock);
	pgos_ddl_put_int64(out, "last_value", state.last_value);
	pgos_ddl_put_bool(out, "is_called", state.is_called);
}

static void
pgos_ddl_put_sequence(StringInfo out, Oid seqid)
{
	HeapTuple		 tuple;
	Form_pg_sequence form;

	pgos_ddl_put_key(out, "sequence");
	if (OidIsValid(seqid))
		LockRelationOid(seqid, AccessShareLock);
	tuple = SearchSysCache1(SEQRELID, ObjectIdGetDatum(seqid));
	if (!HeapTupleIsValid(tuple))
	{
		appendStringInfoString(out, "null");
		return;
	}
	form = (Form_pg_sequence) GETSTRUCT(tuple);
	appendStringInfoChar(out, '{');
	pgos_ddl_put_relation(out, "", seqid);
	pgos_ddl_put_text(out, "type", format_type_be(form->seqtypid));
	pgos_ddl_put_int64(out, "start", form->seqstart);
	pgos_ddl_put_int64(out, "increment", form->seqincrement);
	pgos_ddl_put_int64(out, "min", form->seqmin);
	pgos_ddl_put_int64(out, "max", form->seqmax);
	pgos_ddl_put_int64(out, "cache", form->seqcache);
	pgos_ddl_put_bool(out, "cycle", form->seqcycle);
	ReleaseSysCache(tuple);
	pgos_ddl_put_sequence_state(out, seqid);
	appendStringInfoChar(out, '}');
}

/* ---------------------------------------------------------------- columns */

static void
pgos_ddl_put_type(StringInfo out, Oid typid, int32 typmod)
{
	Oid element = get_element_type(typid);
	Oid extension = getExtensionOfObject(TypeRelationId, OidIsValid(element) ? element : typid);

	pgos_ddl_put_text(out, "type", format_type_extended(typid, typmod, FORMAT_TYPE_TYPEMOD_GIVEN));
	if (OidIsValid(extension))
		pgos_ddl_put_text(out, "extension", get_extension_name(extension));
}

static void
pgos_ddl_put_collation(StringInfo out, Form_pg_attribute attribute)
{
	HeapTuple tuple = NULL;

	pgos_ddl_put_key(out, "collation");
	if (OidIsValid(attribute->attcollation) &&
		attribute->attcollation != get_typcollation(attribute->atttypid))
		tuple = SearchSysCache1(COLLOID, ObjectIdGetDatum(attribute->attcollation));
	if (!HeapTupleIsValid(tuple))
	{
		appendStringInfoString(out, "null");
		return;
	}
	appendStringInfoChar(out, '{');
	pgos_ddl_put_text(out, "schema",
					  get_namespace_name(((Form_pg_collation) GETSTRUCT(tuple))->collnamespace));
	pgos_ddl_put_text(out, "name", NameStr(((Form_pg_collation) GETSTRUCT(tuple))->collname));
	appendStringInfoChar(out, '}');
	ReleaseSysCache(tuple);
}

static const char *
pgos_ddl_storage_name(char storage)
{
	switch (storage)
	{
		case TYPSTORAGE_PLAIN:
			return "plain";
		case TYPSTORAGE_EXTERNAL:
			return "external";
		case TYPSTORAGE_EXTENDED:
			return "extended";
		default:
			return "main";
	}
}

/* What a table's column has beyond name, type and collation. */
static void
pgos_ddl_put_column_details(PgosDdlSource *source, Form_pg_attribute attribute, Bitmapset *unproven)
{
	StringInfo out = source->out;
	Relation   rel = source->rel;
	Node	  *expression = pgos_ddl_default(rel, attribute->attnum);
	char	   generated = attribute->attgenerated;

	pgos_ddl_put_bool(out, "not_null",
					  attribute->attnotnull && !bms_is_member(attribute->attnum, unproven));

	/* Named by the caller, the column is among the rows' values, so it is an ordinary one for a pull. */
	if (generated != '\0' && source->columns != NIL)
	{
		expression = NULL;
		generated = '\0';
	}
	pgos_ddl_put_text(out, "default",
					  expression == NULL
						  ? NULL
						  : deparse_expression(expression,
											   deparse_context_for(RelationGetRelationName(rel),
																   RelationGetRelid(rel)),
											   false, false));
	pgos_ddl_put_text(out, "generated",
					  generated == '\0'						? NULL
					  : generated == PGOS_GENERATED_VIRTUAL ? "virtual"
															: "stored");
	pgos_ddl_put_text(out, "identity",
					  attribute->attidentity == ATTRIBUTE_IDENTITY_ALWAYS		? "always"
					  : attribute->attidentity == ATTRIBUTE_IDENTITY_BY_DEFAULT ? "by default"
																				: NULL);
	pgos_ddl_put_sequence(
		out, pgos_ddl_owned_sequence(RelationGetRelid(rel), attribute->attnum, expression));
	if (attribute->attstorage != get_typstorage(attribute->atttypid))
		pgos_ddl_put_text(out, "storage", pgos_ddl_storage_name(attribute->attstorage));
	if (CompressionMethodIsValid(attribute->attcompression))
		pgos_ddl_put_text(out, "compression", GetCompressionMethodName(attribute->attcompression));
}

static void
pgos_ddl_put_column(PgosDdlSource *source, Form_pg_attribute attribute, bool is_table,
					Bitmapset *unproven)
{
	StringInfo out = source->out;

	pgos_ddl_comma(out);
	appendStringInfoChar(out, '{');
	pgos_ddl_put_text(out, "name", NameStr(attribute->attname));
	pgos_ddl_put_type(out, attribute->atttypid, attribute->atttypmod);
	pgos_ddl_put_collation(out, attribute);
	if (is_table)
		pgos_ddl_put_column_details(source, attribute, unproven);
	pgos_ddl_put_text(
		out, "comment",
		GetComment(RelationGetRelid(source->rel), RelationRelationId, attribute->attnum));
	appendStringInfoChar(out, '}');
}

static AttrNumber
pgos_ddl_column_number(PgosDdlSource *source, const char *name)
{
	AttrNumber attnum = get_attnum(RelationGetRelid(source->rel), name);

	if (attnum <= 0)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
						errmsg("column \"%s\" of relation \"%s\" does not exist", name,
							   RelationGetRelationName(source->rel))));
	return attnum;
}

static void
pgos_ddl_put_columns(PgosDdlSource *source, bool is_table, Bitmapset *unproven)
{
	TupleDesc desc = RelationGetDescr(source->rel);
	ListCell *lc;

	pgos_ddl_put_key(source->out, "columns");
	appendStringInfoChar(source->out, '[');
	foreach (lc, source->columns)
	{
		AttrNumber attnum = pgos_ddl_column_number(source, lfirst(lc));

		pgos_ddl_put_column(source, TupleDescAttr(desc, attnum - 1), is_table, unproven);
	}
	for (int i = 0; source->columns == NIL && i < desc->natts; i++)
	{
		if (!TupleDescAttr(desc, i)->attisdropped)
			pgos_ddl_put_column(source, TupleDescAttr(desc, i), is_table, unproven);
	}
	appendStringInfoChar(source->out, ']');
}

/* ---------------------------------------------------------------- partitions */

/* Whether the relation, if it is partitioned, can be so with the exported columns alone. */
static bool
pgos_ddl_key_exported(PgosDdlSource *source)
{
	PartitionKey key = RelationGetPartitionKey(source->rel);

	for (int i = 0; key != NULL && i < key->partnatts; i++)
	{
		if (key->partattrs[i] != 0 && !pgos_ddl_is_exported(source, key->partattrs[i]))
			return false;
	}
	return key == NULL || pgos_ddl_uses_exported(source, (Node *) key->partexprs);
}

static void
pgos_ddl_put_partition_key(PgosDdlSource *source)
{
	Oid relid = RelationGetRelid(source->rel);

	pgos_ddl_put_text(
		source->out, "key",
		source->rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE
			? pgos_ddl_catalog_text(pg_get_partkeydef, ObjectIdGetDatum(relid), (Datum) 0, relid)
			: NULL);
}

/* Members that the exported table and each of its partitions have. */
static void
pgos_ddl_put_table(PgosDdlSource *source)
{
	StringInfo	  out = source->out;
	Form_pg_class form = source->rel->rd_rel;

	pgos_ddl_put_text(out, "persistence",
					  form->relpersistence == RELPERSISTENCE_UNLOGGED ? "unlogged" : "permanent");
	pgos_ddl_put_options(out, RelationGetRelid(source->rel), form->reltoastrelid);
	pgos_ddl_put_text(out, "replica_identity",
					  form->relreplident == REPLICA_IDENTITY_FULL	   ? "full"
					  : form->relreplident == REPLICA_IDENTITY_NOTHING ? "nothing"
					  : form->relreplident == REPLICA_IDENTITY_INDEX   ? "index"
																	   : NULL);
	pgos_ddl_put_keys(source);
}

static void
pgos_ddl_put_partition(PgosDdlSource *source)
{
	StringInfo out = source->out;
	Oid		   relid = RelationGetRelid(source->rel);

	pgos_ddl_comma(out);
	appendStringInfoChar(out, '{');
	pgos_ddl_put_relation(out, "", relid);
	pgos_ddl_put_relation(out, "parent_", get_partition_parent(relid, false));
	pgos_ddl_put_text(out, "bound", pgos_ddl_partition_bound(relid));
	pgos_ddl_put_partition_key(source);
	pgos_ddl_put_text(out, "comment", GetComment(relid, RelationRelationId, 0));
	pgos_ddl_put_table(source);
	appendStringInfoChar(out, '}');
}

/*
 * Parents stand before their partitions, and those of one parent in the order of their creation.  Without the
 * columns of a partition key the table is described as a plain one.
 */
static void
pgos_ddl_put_partitioning(PgosDdlSource *source)
{
	StringInfo out = source->out;
	List	  *partitions = NIL;
	bool	   exported = true;
	ListCell  *lc;

	if (source->rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		partitions = find_all_inheritors(RelationGetRelid(source->rel), AccessShareLock, NULL);
	foreach (lc, partitions)
	{
		PgosDdlSource partition = *source;

		partition.rel = relation_open(lfirst_oid(lc), NoLock);
		exported = exported && pgos_ddl_key_exported(&partition);
		relation_close(partition.rel, NoLock);
	}

	pgos_ddl_put_key(out, "partitioning");
	if (partitions == NIL || !exported)
	{
		appendStringInfoString(out, "null");
		return;
	}
	appendStringInfoChar(out, '{');
	pgos_ddl_put_partition_key(source);
	pgos_ddl_put_key(out, "partitions");
	appendStringInfoChar(out, '[');
	for_each_from(lc, partitions, 1)
	{
		PgosDdlSource partition = *source;

		partition.rel = relation_open(lfirst_oid(lc), NoLock);
		partition.local_only = true;
		pgos_ddl_put_partition(&partition);
		relation_close(partition.rel, NoLock);
	}
	appendStringInfoString(out, "]}");
}

static void
pgos_ddl_put_inherits(PgosDdlSource *source)
{
	StringInfo	out = source->out;
	Relation	inherits = table_open(InheritsRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	pgos_ddl_put_key(out, "inherits");
	appendStringInfoChar(out, '[');
	ScanKeyInit(&key, Anum_pg_inherits_inhrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationGetRelid(source->rel)));
	scan = systable_beginscan(inherits, InheritsRelidSeqnoIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		pgos_ddl_comma(out);
		appendStringInfoChar(out, '{');
		pgos_ddl_put_relation(out, "", ((Form_pg_inherits) GETSTRUCT(tuple))->inhparent);
		appendStringInfoChar(out, '}');
	}
	systable_endscan(scan);
	table_close(inherits, AccessShareLock);
	appendStringInfoChar(out, ']');
}

/* ---------------------------------------------------------------- the relation */

static const char *
pgos_ddl_kind(Relation rel)
{
	switch (rel->rd_rel->relkind)
	{
		case RELKIND_RELATION:
			return "table";
		case RELKIND_PARTITIONED_TABLE:
			return "partitioned table";
		case RELKIND_VIEW:
			return "view";
		case RELKIND_MATVIEW:
			return "materialized view";
		case RELKIND_FOREIGN_TABLE:
			return "foreign table";
		default:
			ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
							errmsg("cannot describe relation \"%s\"", RelationGetRelationName(rel)),
							errdetail_relkind_not_supported(rel->rd_rel->relkind)));
	}
	return NULL;
}

void
pgos_ddl_describe(Oid relid, List *columns, StringInfo out)
{
	PgosDdlSource source = {out, NULL, columns, false};
	int			  level = pgos_ddl_settings_push();
	char		  relkind;
	bool		  is_table;

	source.rel = relation_open(relid, AccessShareLock);
	relkind = source.rel->rd_rel->relkind;
	is_table = relkind == RELKIND_RELATION || relkind == RELKIND_PARTITIONED_TABLE;

	appendStringInfoChar(out, '{');
	pgos_ddl_put_relation(out, "", relid);
	pgos_ddl_put_text(out, "kind", pgos_ddl_kind(source.rel));
	pgos_ddl_put_text(out, "comment", GetComment(relid, RelationRelationId, 0));
	pgos_ddl_put_columns(&source, is_table,
						 is_table ? pgos_ddl_unproven_not_null(source.rel) : NULL);
	if (is_table)
	{
		pgos_ddl_put_bool(out, "row_security", source.rel->rd_rel->relrowsecurity);
		pgos_ddl_put_inherits(&source);
		pgos_ddl_put_table(&source);
		pgos_ddl_put_partitioning(&source);
	}
	appendStringInfoChar(out, '}');

	relation_close(source.rel, NoLock);
	pgos_ddl_settings_pop(level);
}
