/*
 * ddl_create_keys.c
 *		What comes after the load: primary key, unique and exclusion constraints, indexes, check constraints
 *		that are NOT VALID, and foreign keys.
 *
 * A constraint or index keeps its name when that is free in the table's schema; otherwise the server chooses
 * one.  Partitions get theirs from the parent; what only a partition has is made on that partition, which is
 * found by its place under the parent (its bound), because its name may be another here.
 * Runs in a worker, inside a transaction, as the current user; raises.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "copy/ddl_internal.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

typedef struct PgosDdlTable
{
	JsonbContainer *json;
	Oid				relid;
	Oid				nspid;
	char		   *nspname;
	char		   *relname;
	char		   *qualified;
	PgosDdlRename	rename;
} PgosDdlTable;

static void
pgos_ddl_table_init(PgosDdlTable *table, JsonbContainer *json, Oid relid)
{
	memset(table, 0, sizeof(*table));
	table->json = json;
	table->relid = relid;
	table->nspid = get_rel_namespace(relid);
	table->nspname = get_namespace_name(table->nspid);
	table->relname = get_rel_name(relid);
	table->qualified = quote_qualified_identifier(table->nspname, table->relname);
	table->rename.old_relation = pgos_ddl_text(json, "name");
	table->rename.new_relation = table->relname;
}

/* ---------------------------------------------------------------- one index */

static List *
pgos_ddl_index_list(Oid relid)
{
	Relation rel = relation_open(relid, NoLock);
	List	*result = RelationGetIndexList(rel);

	relation_close(rel, NoLock);
	return result;
}

/* The name, if an index may have it. */
static char *
pgos_ddl_free_name(PgosDdlTable *table, char *name)
{
	return OidIsValid(get_relname_relid(name, table->nspid)) ? NULL : name;
}

/* What the manifest says of the index that is not in before; kind: "INDEX" or "CONSTRAINT". */
static void
pgos_ddl_finish_index(PgosDdlTable *table, JsonbContainer *json, List *before, bool constraint)
{
	List	   *added = list_difference_oid(pgos_ddl_index_list(table->relid), before);
	char	   *comment = pgos_ddl_text(json, "comment");
	const char *name;

	if (list_length(added) != 1)
		return;
	name = quote_identifier(get_rel_name(linitial_oid(added)));
	if (comment != NULL && constraint)
		pgos_ddl_run_sql(psprintf("COMMENT ON CONSTRAINT %s ON %s IS %s", name, table->qualified,
								  quote_literal_cstr(comment)));
	else if (comment != NULL)
		pgos_ddl_run_sql(psprintf("COMMENT ON INDEX %s.%s IS %s", quote_identifier(table->nspname),
								  name, quote_literal_cstr(comment)));
	if (pgos_ddl_bool(json, "replica_identity"))
		pgos_ddl_run_sql(
			psprintf("ALTER TABLE %s REPLICA IDENTITY USING INDEX %s", table->qualified, name));
	if (pgos_ddl_bool(json, "clustered"))
		pgos_ddl_run_sql(psprintf("ALTER TABLE %s CLUSTER ON %s", table->qualified, name));
}

static void
pgos_ddl_add_constraint(PgosDdlTable *table, Constraint *constraint)
{
	AlterTableStmt *alter = castNode(
		AlterTableStmt,
		pgos_ddl_parse_statement(psprintf("ALTER TABLE %s ADD CHECK (true)", table->qualified)));

	linitial_node(AlterTableCmd, alter->cmds)->def = (Node *) constraint;
	pgos_ddl_run((Node *) alter, psprintf("ALTER TABLE %s ADD CONSTRAINT", table->qualified));
}

static void
pgos_ddl_add_key(PgosDdlTable *table, JsonbContainer *json, ConstrType type)
{
	char		   *name = pgos_ddl_name(json, "name");
	List		   *before = pgos_ddl_index_list(table->relid);
	JsonbContainer *options = pgos_ddl_object(json, "options");
	List		   *pairs = options == NULL ? NIL : pgos_ddl_pairs(options);
	Constraint	   *constraint;
	ListCell	   *lc;

	table->rename.what = psprintf("constraint \"%s\"", name);
	constraint =
		pgos_ddl_parse_constraint(name, pgos_ddl_text(json, "definition"), type, &table->rename);
	constraint->conname = pgos_ddl_free_name(table, name);
	for (lc = list_head(pairs); lc != NULL; lc = lnext(pairs, lc))
	{
		char *option = lfirst(lc);

		lc = lnext(pairs, lc);
		constraint->options =
			lappend(constraint->options, makeDefElem(option, (Node *) makeString(lfirst(lc)), -1));
	}
	pgos_ddl_add_constraint(table, constraint);
	pgos_ddl_finish_index(table, json, before, true);
}

static void
pgos_ddl_add_index(PgosDdlTable *table, JsonbContainer *json)
{
	char	  *name = pgos_ddl_name(json, "name");
	List	  *before = pgos_ddl_index_list(table->relid);
	IndexStmt *index;

	table->rename.what = psprintf("index \"%s\"", name);
	index = pgos_ddl_parse_index(name, pgos_ddl_text(json, "definition"), &table->rename);
	index->relation = makeRangeVar(table->nspname, table->relname, -1);
	index->idxname = pgos_ddl_free_name(table, name);
	pgos_ddl_run((Node *) index, psprintf("CREATE INDEX ON %s", table->qualified));
	pgos_ddl_finish_index(table, json, before, false);
}

static void
pgos_ddl_add_not_valid_check(PgosDdlTable *table, JsonbContainer *json)
{
	char	   *name = pgos_ddl_name(json, "name");
	char	   *comment = pgos_ddl_text(json, "comment");
	Constraint *constraint;

	table->rename.what = psprintf("check constraint \"%s\"", name);
	constraint = pgos_ddl_parse_constraint(name, pgos_ddl_text(json, "definition"), CONSTR_CHECK,
										   &table->rename);
	if (!constraint->skip_validation)
		return;
	constraint->conname = name;
	pgos_ddl_add_constraint(table, constraint);
	if (comment != NULL)
		pgos_ddl_run_sql(psprintf("COMMENT ON CONSTRAINT %s ON %s IS %s", quote_identifier(name),
								  table->qualified, quote_literal_cstr(comment)));
}

/* ---------------------------------------------------------------- one table */

static void
pgos_ddl_add_keys(PgosDdlTable *table)
{
	JsonbContainer *primary_key = pgos_ddl_object(table->json, "primary_key");
	ListCell	   *lc;

	if (primary_key != NULL)
		pgos_ddl_add_key(table, primary_key, CONSTR_PRIMARY);
	foreach (lc, pgos_ddl_objects(table->json, "unique"))
		pgos_ddl_add_key(table, lfirst(lc), CONSTR_UNIQUE);
	foreach (lc, pgos_ddl_objects(table->json, "exclusion"))
		pgos_ddl_add_key(table, lfirst(lc), CONSTR_EXCLUSION);
	foreach (lc, pgos_ddl_objects(table->json, "indexes"))
		pgos_ddl_add_index(table, lfirst(lc));
	foreach (lc, pgos_ddl_objects(table->json, "checks"))
		pgos_ddl_add_not_valid_check(table, lfirst(lc));
}

/* ---------------------------------------------------------------- partitions */

/* Whether the partition may have something that its parent does not give it. */
static bool
pgos_ddl_has_keys(JsonbContainer *json)
{
	static const char *const lists[] = {"unique", "exclusion", "indexes", "checks"};

	for (int i = 0; i < (int) lengthof(lists); i++)
	{
		if (pgos_ddl_objects(json, lists[i]) != NIL)
			return true;
	}
	return pgos_ddl_object(json, "primary_key") != NULL;
}

static bool
pgos_ddl_is_partition(Oid relid, Oid parent, const char *bound)
{
	char *here = pgos_ddl_partition_bound(relid);

	return here != NULL && strcmp(here, bound) == 0 && get_partition_parent(relid, false) == parent;
}

/*
 * The table here that is partitions[n] of the manifest, or InvalidOid.  Its parent is the table itself or one
 * that stands before it in the list.
 */
static Oid
pgos_ddl_find_partition(PgosDdlTable *root, List *partitions, int n)
{
	JsonbContainer *json = list_nth(partitions, n);
	char		   *parent_schema = pgos_ddl_name(json, "parent_schema");
	char		   *parent_name = pgos_ddl_name(json, "parent_name");
	char		   *bound = pgos_ddl_text(json, "bound");
	Oid				parent = InvalidOid;
	Oid				relid;
	ListCell	   *lc;

	if (strcmp(parent_name, pgos_ddl_name(root->json, "name")) == 0 &&
		strcmp(parent_schema, pgos_ddl_name(root->json, "schema")) == 0)
		parent = root->relid;
	for (int i = 0; i < n && !OidIsValid(parent); i++)
	{
		JsonbContainer *other = list_nth(partitions, i);

		if (strcmp(parent_name, pgos_ddl_name(other, "name")) != 0 ||
			strcmp(parent_schema, pgos_ddl_name(other, "schema")) != 0)
			continue;
		parent = pgos_ddl_find_partition(root, partitions, i);
		break;
	}
	if (!OidIsValid(parent) || bound == NULL)
		return InvalidOid;

	/* It mostly has the name that was intended. */
	relid = get_relname_relid(pgos_ddl_partition_name(json, &root->rename), root->nspid);
	if (OidIsValid(relid) && get_rel_relispartition(relid) &&
		pgos_ddl_is_partition(relid, parent, bound))
		return relid;
	foreach (lc, find_inheritance_children(parent, NoLock))
	{
		CHECK_FOR_INTERRUPTS();
		if (pgos_ddl_is_partition(lfirst_oid(lc), parent, bound))
			return lfirst_oid(lc);
	}
	return InvalidOid;
}

static void
pgos_ddl_add_partition_keys(PgosDdlTable *root, JsonbContainer *partitioning)
{
	List *partitions = pgos_ddl_objects(partitioning, "partitions");

	for (int i = 0; i < list_length(partitions); i++)
	{
		JsonbContainer *json = list_nth(partitions, i);
		PgosDdlTable	table;
		Oid				relid;

		if (!pgos_ddl_has_keys(json))
			continue;
		relid = pgos_ddl_find_partition(root, partitions, i);
		if (!OidIsValid(relid))
		{
			ereport(WARNING, (errmsg("indexes that only partition \"%s\" had are not created",
									 pgos_ddl_name(json, "name")),
							  errdetail("No partition of \"%s\" has its bounds as the manifest "
										"writes them.",
										root->relname)));
			continue;
		}
		pgos_ddl_table_init(&table, json, relid);
		pgos_ddl_add_keys(&table);
	}
}

void
pgos_ddl_create_indexes(Jsonb *relation, Oid relid)
{
	JsonbContainer *root = pgos_ddl_root(relation);
	JsonbContainer *partitioning = pgos_ddl_object(root, "partitioning");
	int				level = pgos_ddl_settings_push();
	PgosDdlTable	table;

	pgos_ddl_table_init(&table, root, relid);
	pgos_ddl_add_keys(&table);
	if (partitioning != NULL)
		pgos_ddl_add_partition_keys(&table, partitioning);
	pgos_ddl_settings_pop(level);
}

void
pgos_ddl_create_foreign_keys(Jsonb *relation, Oid relid, List **left_out)
{
	JsonbContainer *root = pgos_ddl_root(relation);
	int				level = pgos_ddl_settings_push();
	PgosDdlTable	table;
	ListCell	   *lc;

	pgos_ddl_table_init(&table, root, relid);
	foreach (lc, pgos_ddl_objects(root, "foreign_keys"))
	{
		JsonbContainer *json = lfirst(lc);
		char		   *name = pgos_ddl_name(json, "name");
		Constraint	   *constraint;

		table.rename.what = psprintf("foreign key \"%s\"", name);
		constraint = pgos_ddl_parse_constraint(name, pgos_ddl_text(json, "definition"),
											   CONSTR_FOREIGN, &table.rename);
		if (!OidIsValid(RangeVarGetRelid(constraint->pktable, NoLock, true)))
		{
			*left_out =
				lappend(*left_out, psprintf("%s on %s", quote_identifier(name), table.qualified));
			continue;
		}
		constraint->conname = name;
		pgos_ddl_add_constraint(&table, constraint);
	}
	pgos_ddl_settings_pop(level);
}
