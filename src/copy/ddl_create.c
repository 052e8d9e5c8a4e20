/*
 * ddl_create.c
 *		CREATE TABLE from the manifest's JSON: columns, checks, sequences, partitions, comments.
 *
 * The statement's frame is text of our own (quoted names, placeholders where the manifest's types and
 * expressions go); it is parsed, and then the trees that ddl_sql.c has made of the manifest's texts are put in
 * the places.  No subtransaction is begun, so the caller may load with FREEZE.
 *
 * Everything is created in one schema.  Partitions and sequences are not named by the caller: a partition
 * keeps its name, with the table's old name at its beginning replaced by the new, or gets another one if that
 * is taken.  Runs in a worker, inside a transaction, as the current user; raises.
 */
#include "postgres.h"

#include "access/toast_compression.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "compat.h"
#include "copy/ddl_internal.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parse_type.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

typedef struct PgosDdlColumn
{
	JsonbContainer *json;
	char		   *name;
	TypeName	   *type;
	char		   *collation;	  /* qualified and quoted, or NULL */
	char		   *generated;	  /* "stored", "virtual" or NULL */
	char		   *identity;	  /* "always", "by default" or NULL */
	char			storage;	  /* or 0 */
	JsonbContainer *sequence;	  /* the one it owns, or NULL */
	char		   *new_sequence; /* of a serial column: qualified and quoted */
	Node		   *expression;	  /* default or generation expression, or NULL */
} PgosDdlColumn;

/* The table that is being made. */
typedef struct PgosDdlTarget
{
	JsonbContainer *json;
	const char	   *nspname;
	const char	   *relname;
	char		   *qualified; /* quoted */
	Oid				nspid;
	bool			unlogged;
	PgosDdlRename	rename;
} PgosDdlTarget;

static void
pgos_ddl_target_init(PgosDdlTarget *target, JsonbContainer *json, Oid nspid, const char *nspname,
					 const char *relname)
{
	const char *persistence = pgos_ddl_text(json, "persistence");

	memset(target, 0, sizeof(*target));
	target->json = json;
	target->nspname = nspname;
	target->relname = relname;
	target->qualified = quote_qualified_identifier(nspname, relname);
	target->nspid = nspid;
	target->unlogged = persistence != NULL && strcmp(persistence, "unlogged") == 0;
	target->rename.old_relation = pgos_ddl_text(json, "name");
	target->rename.new_relation = relname;
}

/* ---------------------------------------------------------------- types and collations */

static void
pgos_ddl_missing(PgosDdlColumn *column, const char *kind, const char *name)
{
	char *extension = pgos_ddl_text(column->json, "extension");

	ereport(
		ERROR,
		(errcode(ERRCODE_UNDEFINED_OBJECT),
		 errmsg("%s %s of column \"%s\" does not exist", kind, name, column->name),
		 extension != NULL && strcmp(kind, "type") == 0
			 ? errhint("Where the dataset was written it belongs to the extension \"%s\".  "
					   "Create the extension, with its objects in the same schema, first.",
					   extension)
			 : errhint("Create the %s first, or create the table before pulling into it.", kind)));
}

/* Resolves the type; its OID. */
static Oid
pgos_ddl_resolve_type(PgosDdlColumn *column)
{
	char *text = pgos_ddl_text(column->json, "type");
	Type  type;
	Oid	  result;

	column->type = pgos_ddl_parse_type(column->name, text);
	type = LookupTypeName(NULL, column->type, NULL, true);
	if (type == NULL || !((Form_pg_type) GETSTRUCT(type))->typisdefined)
		pgos_ddl_missing(column, "type", text);
	result = ((Form_pg_type) GETSTRUCT(type))->oid;
	ReleaseSysCache(type);
	return result;
}

static void
pgos_ddl_resolve_collation(PgosDdlColumn *column)
{
	JsonbContainer *json = pgos_ddl_object(column->json, "collation");
	char		   *schema;
	char		   *name;

	if (json == NULL)
		return;
	schema = pgos_ddl_name(json, "schema");
	name = pgos_ddl_name(json, "name");
	column->collation = quote_qualified_identifier(schema, name);
	if (!OidIsValid(get_collation_oid(list_make2(makeString(schema), makeString(name)), true)))
		pgos_ddl_missing(column, "collation", column->collation);
}

static char
pgos_ddl_read_storage(PgosDdlColumn *column, Oid typid)
{
	char *storage = pgos_ddl_text(column->json, "storage");

	/* A type that is never stored out of line cannot have another storage. */
	if (storage == NULL || !TypeIsToastable(typid))
		return 0;
	if (strcmp(storage, "plain") == 0)
		return TYPSTORAGE_PLAIN;
	if (strcmp(storage, "external") == 0)
		return TYPSTORAGE_EXTERNAL;
	if (strcmp(storage, "extended") == 0)
		return TYPSTORAGE_EXTENDED;
	if (strcmp(storage, "main") == 0)
		return TYPSTORAGE_MAIN;
	return 0;
}

/* A text that must be one of two, or absent. */
static char *
pgos_ddl_read_choice(JsonbContainer *json, const char *key, const char *one, const char *other)
{
	char *text = pgos_ddl_text(json, key);

	if (text != NULL && strcmp(text, one) != 0 && strcmp(text, other) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 errmsg("invalid relation in the manifest: \"%s\" is neither \"%s\" nor \"%s\"",
						key, one, other),
				 errdetail("It is: %s", text)));
	return text;
}

/* ---------------------------------------------------------------- sequences */

static void
pgos_ddl_append_sequence_options(StringInfo sql, JsonbContainer *sequence)
{
	static const char *const options[][2] = {
		{"increment", "INCREMENT BY"}, {"min", "MINVALUE"}, {"max", "MAXVALUE"},
		{"start", "START WITH"},	   {"cache", "CACHE"},
	};

	for (int i = 0; i < (int) lengthof(options); i++)
	{
		int64 value;

		if (pgos_ddl_int64(sequence, options[i][0], &value))
			appendStringInfo(sql, " %s " INT64_FORMAT, options[i][1], value);
	}
	appendStringInfoString(sql, pgos_ddl_bool(sequence, "cycle") ? " CYCLE" : " NO CYCLE");
}

static void
pgos_ddl_create_sequence(PgosDdlTarget *target, PgosDdlColumn *column)
{
	char		  *type = pgos_ddl_text(column->sequence, "type");
	StringInfoData sql;

	if (type != NULL && strcmp(type, "smallint") != 0 && strcmp(type, "integer") != 0 &&
		strcmp(type, "bigint") != 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
						errmsg("invalid relation in the manifest: a sequence of type %s", type)));
	column->new_sequence = quote_qualified_identifier(
		target->nspname,
		ChooseRelationName(target->relname, column->name, "seq", target->nspid, false));
	initStringInfo(&sql);
	appendStringInfo(&sql, "CREATE %sSEQUENCE %s AS %s", target->unlogged ? "UNLOGGED " : "",
					 column->new_sequence, type == NULL ? "bigint" : type);
	pgos_ddl_append_sequence_options(&sql, column->sequence);
	pgos_ddl_run_sql(sql.data);
}

/* ---------------------------------------------------------------- columns */

static void
pgos_ddl_read_expression(PgosDdlTarget *target, PgosDdlColumn *column)
{
	char		 *text = pgos_ddl_text(column->json, "default");
	PgosDdlRename rename = target->rename;

	if (text == NULL && column->generated == NULL)
		return;
	rename.what = psprintf("%s of column \"%s\"",
						   column->generated != NULL ? "the generation expression" : "the default",
						   column->name);
	if (column->new_sequence != NULL)
	{
		rename.old_sequence_schema = pgos_ddl_name(column->sequence, "schema");
		rename.old_sequence = pgos_ddl_name(column->sequence, "name");
		rename.new_sequence = column->new_sequence;
	}
	column->expression = pgos_ddl_parse_expression(column->name, text, &rename);
}

static PgosDdlColumn *
pgos_ddl_read_column(PgosDdlTarget *target, JsonbContainer *json)
{
	PgosDdlColumn *column = palloc0(sizeof(PgosDdlColumn));

	column->json = json;
	column->name = pgos_ddl_name(json, "name");
	column->storage = pgos_ddl_read_storage(column, pgos_ddl_resolve_type(column));
	pgos_ddl_resolve_collation(column);
	column->generated = pgos_ddl_read_choice(json, "generated", "stored", "virtual");
	column->identity = pgos_ddl_read_choice(json, "identity", "always", "by default");
	column->sequence = pgos_ddl_object(json, "sequence");
	if (column->generated != NULL && strcmp(column->generated, "virtual") == 0 &&
		!PGOS_COMPAT_VIRTUAL_COLUMNS)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("column \"%s\" is a virtual generated column, which this version of "
						"PostgreSQL does not have",
						column->name),
				 errhint("Create the table, with a stored generated column for example, before "
						 "pulling into it.")));
	if (column->sequence != NULL && column->identity == NULL)
		pgos_ddl_create_sequence(target, column);
	pgos_ddl_read_expression(target, column);
	return column;
}

/* The column with a placeholder for its type and its expression. */
static void
pgos_ddl_append_column(StringInfo sql, PgosDdlColumn *column)
{
	char *compression = pgos_ddl_text(column->json, "compression");

	appendStringInfo(sql, "%s pg_catalog.int4", quote_identifier(column->name));
	if (compression != NULL)
		appendStringInfo(sql, " COMPRESSION %s", quote_identifier(compression));
	if (column->collation != NULL)
		appendStringInfo(sql, " COLLATE %s", column->collation);
	if (pgos_ddl_bool(column->json, "not_null"))
		appendStringInfoString(sql, " NOT NULL");
	if (column->generated != NULL)
		appendStringInfo(sql, " GENERATED ALWAYS AS (NULL) %s",
						 strcmp(column->generated, "stored") == 0 ? "STORED" : "VIRTUAL");
	else if (column->identity != NULL)
	{
		appendStringInfo(sql, " GENERATED %s AS IDENTITY",
						 strcmp(column->identity, "always") == 0 ? "ALWAYS" : "BY DEFAULT");
		if (column->sequence != NULL)
		{
			appendStringInfoString(sql, " (");
			pgos_ddl_append_sequence_options(sql, column->sequence);
			appendStringInfoChar(sql, ')');
		}
	}
	else if (column->expression != NULL)
		appendStringInfoString(sql, " DEFAULT NULL");
}

static void
pgos_ddl_fill_column(ColumnDef *definition, PgosDdlColumn *column)
{
	ListCell *lc;

	definition->typeName = column->type;
	definition->storage = column->storage;
	foreach (lc, definition->constraints)
	{
		Constraint *constraint = lfirst_node(Constraint, lc);

		if (constraint->contype == CONSTR_DEFAULT || constraint->contype == CONSTR_GENERATED)
			constraint->raw_expr = column->expression;
	}
}

/* ---------------------------------------------------------------- the statement */

/*
 * Check constraints that hold for every row.  Those that are NOT VALID need not hold for the rows that are
 * loaded; they come afterwards.
 */
static List *
pgos_ddl_read_checks(PgosDdlTarget *target)
{
	List	 *result = NIL;
	ListCell *lc;

	foreach (lc, pgos_ddl_objects(target->json, "checks"))
	{
		JsonbContainer *json = lfirst(lc);
		char		   *name = pgos_ddl_name(json, "name");
		Constraint	   *constraint;

		target->rename.what = psprintf("check constraint \"%s\"", name);
		constraint = pgos_ddl_parse_constraint(name, pgos_ddl_text(json, "definition"),
											   CONSTR_CHECK, &target->rename);
		if (constraint->skip_validation)
			continue;
		constraint->conname = name;
		result = lappend(result, constraint);
	}
	return result;
}

static void
pgos_ddl_append_options(StringInfo sql, JsonbContainer *json)
{
	JsonbContainer *options = pgos_ddl_object(json, "options");
	const char	   *separator = " WITH (";
	List		   *pairs = options == NULL ? NIL : pgos_ddl_pairs(options);
	ListCell	   *lc;

	for (lc = list_head(pairs); lc != NULL; lc = lnext(pairs, lc))
	{
		char *name = lfirst(lc);

		appendStringInfoString(sql, separator);
		if (strncmp(name, "toast.", 6) == 0)
		{
			appendStringInfoString(sql, "toast.");
			name += 6;
		}
		lc = lnext(pairs, lc);
		appendStringInfo(sql, "%s = %s", quote_identifier(name), quote_literal_cstr(lfirst(lc)));
		separator = ", ";
	}
	if (pairs != NIL)
		appendStringInfoChar(sql, ')');
}

/*
 * Parses the frame and runs it with the parts put in: columns (PgosDdlColumn *), bound (NULL for a table that
 * is no partition) and partition key (NULL for one that has none).  Returns the table's OID.
 */
static Oid
pgos_ddl_create_table(PgosDdlTarget *target, const char *frame, List *columns,
					  PartitionBoundSpec *bound, PartitionSpec *key)
{
	CreateStmt *create = castNode(CreateStmt, pgos_ddl_parse_statement(frame));
	ListCell   *definition;
	ListCell   *column;

	forboth(definition, create->tableElts, column, columns)
		pgos_ddl_fill_column(lfirst_node(ColumnDef, definition), lfirst(column));
	create->partbound = bound;
	create->partspec = key;
	create->tableElts = list_concat(create->tableElts, pgos_ddl_read_checks(target));
	pgos_ddl_run((Node *) create, psprintf("CREATE TABLE %s", target->qualified));
	return get_relname_relid(target->relname, target->nspid);
}

static void
pgos_ddl_comment(const char *object, JsonbContainer *json)
{
	char *comment = pgos_ddl_text(json, "comment");

	if (comment != NULL)
		pgos_ddl_run_sql(psprintf("COMMENT ON %s IS %s", object, quote_literal_cstr(comment)));
}

/* What is set once the table is there, and does not slow the load down. */
static void
pgos_ddl_finish_table(PgosDdlTarget *target, Oid relid)
{
	char	 *replica_identity = pgos_ddl_text(target->json, "replica_identity");
	ListCell *lc;

	pgos_ddl_comment(psprintf("TABLE %s", target->qualified), target->json);
	foreach (lc, pgos_ddl_objects(target->json, "checks"))
	{
		char *name = pgos_ddl_name(lfirst(lc), "name");

		if (OidIsValid(get_relation_constraint_oid(relid, name, true)))
			pgos_ddl_comment(
				psprintf("CONSTRAINT %s ON %s", quote_identifier(name), target->qualified),
				lfirst(lc));
	}
	if (replica_identity != NULL && strcmp(replica_identity, "index") != 0)
		pgos_ddl_run_sql(psprintf("ALTER TABLE %s REPLICA IDENTITY %s", target->qualified,
								  strcmp(replica_identity, "full") == 0 ? "FULL" : "NOTHING"));
}

/* ---------------------------------------------------------------- partitions */

typedef struct PgosDdlPartition
{
	char *schema; /* in the manifest */
	char *name;
	char *qualified; /* here */
} PgosDdlPartition;

static PgosDdlPartition *
pgos_ddl_remember(List **partitions, JsonbContainer *json, char *qualified)
{
	PgosDdlPartition *partition = palloc(sizeof(PgosDdlPartition));

	partition->schema = pgos_ddl_name(json, "schema");
	partition->name = pgos_ddl_name(json, "name");
	partition->qualified = qualified;
	*partitions = lappend(*partitions, partition);
	return partition;
}

static const char *
pgos_ddl_find_parent(List *partitions, JsonbContainer *json)
{
	char	 *schema = pgos_ddl_name(json, "parent_schema");
	char	 *name = pgos_ddl_name(json, "parent_name");
	ListCell *lc;

	foreach (lc, partitions)
	{
		PgosDdlPartition *partition = lfirst(lc);

		if (strcmp(partition->schema, schema) == 0 && strcmp(partition->name, name) == 0)
			return partition->qualified;
	}
	ereport(
		ERROR,
		(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
		 errmsg("invalid relation in the manifest: parent \"%s\" of partition \"%s\" is not in it",
				name, pgos_ddl_text(json, "name"))));
	return NULL;
}

char *
pgos_ddl_partition_name(JsonbContainer *json, const PgosDdlRename *rename)
{
	char	   *name = pgos_ddl_name(json, "name");
	const char *old = rename->old_relation;

	if (old != NULL && strncmp(name, old, strlen(old)) == 0 &&
		strlen(rename->new_relation) + strlen(name) - strlen(old) < NAMEDATALEN)
		name = psprintf("%s%s", rename->new_relation, name + strlen(old));
	return name;
}

static void
pgos_ddl_create_partition(PgosDdlTarget *table, JsonbContainer *json, List **partitions)
{
	PgosDdlTarget		target;
	const char		   *parent = pgos_ddl_find_parent(*partitions, json);
	char			   *name = pgos_ddl_name(json, "name");
	char			   *new_name = pgos_ddl_partition_name(json, &table->rename);
	char			   *key_text = pgos_ddl_text(json, "key");
	PartitionSpec	   *key = NULL;
	PartitionBoundSpec *bound;
	StringInfoData		frame;
	Oid					relid;

	if (OidIsValid(get_relname_relid(new_name, table->nspid)))
		new_name = ChooseRelationName(new_name, NULL, "part", table->nspid, false);
	pgos_ddl_target_init(&target, json, table->nspid, table->nspname, new_name);
	target.rename.what = psprintf("the partition key of \"%s\"", name);
	if (key_text != NULL)
		key = pgos_ddl_parse_partition_key(name, key_text, &target.rename);
	bound = pgos_ddl_parse_partition_bound(name, pgos_ddl_text(json, "bound"));

	initStringInfo(&frame);
	appendStringInfo(&frame, "CREATE %sTABLE %s PARTITION OF %s DEFAULT",
					 target.unlogged && key == NULL ? "UNLOGGED " : "", target.qualified, parent);
	pgos_ddl_append_options(&frame, json);
	relid = pgos_ddl_create_table(&target, frame.data, NIL, bound, key);
	pgos_ddl_finish_table(&target, relid);
	(void) pgos_ddl_remember(partitions, json, target.qualified);
}

static void
pgos_ddl_create_partitions(PgosDdlTarget *table, JsonbContainer *partitioning)
{
	List	 *partitions = NIL;
	ListCell *lc;

	(void) pgos_ddl_remember(&partitions, table->json, table->qualified);
	foreach (lc, pgos_ddl_objects(partitioning, "partitions"))
	{
		CHECK_FOR_INTERRUPTS();
		pgos_ddl_create_partition(table, lfirst(lc), &partitions);
	}
}

/* ---------------------------------------------------------------- the table */

static void
pgos_ddl_finish_columns(PgosDdlTarget *target, List *columns)
{
	ListCell *lc;

	foreach (lc, columns)
	{
		PgosDdlColumn *column = lfirst(lc);
		char *qualified = psprintf("%s.%s", target->qualified, quote_identifier(column->name));

		if (column->new_sequence != NULL)
			pgos_ddl_run_sql(
				psprintf("ALTER SEQUENCE %s OWNED BY %s", column->new_sequence, qualified));
		pgos_ddl_comment(psprintf("COLUMN %s", qualified), column->json);
	}
}

Oid
pgos_ddl_create(Jsonb *relation, const char *nspname, const char *relname)
{
	int				level = pgos_ddl_settings_push();
	PgosDdlTarget	target;
	JsonbContainer *partitioning;
	PartitionSpec  *key = NULL;
	List		   *columns = NIL;
	StringInfoData	frame;
	ListCell	   *lc;
	Oid				relid;

	pgos_ddl_target_init(&target, pgos_ddl_root(relation), get_namespace_oid(nspname, false),
						 nspname, relname);
	partitioning = pgos_ddl_object(target.json, "partitioning");
	if (partitioning != NULL)
	{
		target.rename.what = psprintf("the partition key of \"%s\"", relname);
		key = pgos_ddl_parse_partition_key(relname, pgos_ddl_text(partitioning, "key"),
										   &target.rename);
		target.unlogged = false;
	}

	initStringInfo(&frame);
	foreach (lc, pgos_ddl_column_objects(relation))
	{
		PgosDdlColumn *column = pgos_ddl_read_column(&target, lfirst(lc));

		if (columns != NIL)
			appendStringInfoString(&frame, ", ");
		pgos_ddl_append_column(&frame, column);
		columns = lappend(columns, column);
	}
	frame.data = psprintf("CREATE %sTABLE %s (%s)", target.unlogged ? "UNLOGGED " : "",
						  target.qualified, frame.data);
	frame.len = strlen(frame.data);
	frame.maxlen = frame.len + 1;
	pgos_ddl_append_options(&frame, target.json);

	relid = pgos_ddl_create_table(&target, frame.data, columns, NULL, key);
	pgos_ddl_finish_columns(&target, columns);
	pgos_ddl_finish_table(&target, relid);
	if (partitioning != NULL)
		pgos_ddl_create_partitions(&target, partitioning);
	pgos_ddl_settings_pop(level);
	return relid;
}

/* ---------------------------------------------------------------- of the columns */

void
pgos_ddl_set_sequences(Jsonb *relation, Oid relid)
{
	ListCell *lc;

	foreach (lc, pgos_ddl_column_objects(relation))
	{
		JsonbContainer *sequence = pgos_ddl_object(lfirst(lc), "sequence");
		AttrNumber		attnum = get_attnum(relid, pgos_ddl_name(lfirst(lc), "name"));
		int64			last_value;
		Oid				seqid;

		if (sequence == NULL || attnum <= 0 || !pgos_ddl_int64(sequence, "last_value", &last_value))
			continue;
		seqid = pgos_ddl_owned_sequence(relid, attnum, NULL);
		if (OidIsValid(seqid))
			(void) DirectFunctionCall3(setval3_oid, ObjectIdGetDatum(seqid),
									   Int64GetDatum(last_value),
									   BoolGetDatum(pgos_ddl_bool(sequence, "is_called")));
	}
}

List *
pgos_ddl_columns(Jsonb *relation)
{
	List	 *result = NIL;
	ListCell *lc;

	foreach (lc, pgos_ddl_column_objects(relation))
	{
		if (pgos_ddl_text(lfirst(lc), "generated") == NULL)
			result = lappend(result, pgos_ddl_name(lfirst(lc), "name"));
	}
	return result;
}
