/*
 * ddl_internal.h
 *		What the files of ddl.h share: settings, reading the JSON, SQL text that is made into parse trees.
 *
 * The JSON comes out of a bucket, so whoever can write there chose it.  Invariant: no text of it is ever put
 * into a statement's text, except names and literals that are quoted here.  Types, expressions, constraints,
 * indexes and partition bounds are parsed alone, must be exactly one of what they claim to be, and are hung
 * into a parse tree as nodes.  What they mean is then checked by the server as for any statement of the
 * current user.
 *
 * Everything is allocated in the current memory context.  Runs inside a transaction; everything may raise.
 */
#ifndef PGOS_DDL_INTERNAL_H
#define PGOS_DDL_INTERNAL_H

#include "postgres.h"

#include "copy/ddl.h"
#include "nodes/bitmapset.h"
#include "nodes/parsenodes.h"
#include "utils/relcache.h"

/* pg_constraint.contype of the not-null constraints and pg_attribute.attgenerated of virtual columns (18). */
#define PGOS_CONTYPE_NOT_NULL 'n'
#define PGOS_GENERATED_VIRTUAL 'v'

/* ---------------------------------------------------------------- settings (ddl_sql.c) */

/*
 * Settings in which definitions are written and read: names outside pg_catalog are always qualified, constants
 * look the same everywhere.  Undone by pgos_ddl_settings_pop(), or by the end of the transaction.
 */
extern int	pgos_ddl_settings_push(void);
extern void pgos_ddl_settings_pop(int level);

/* ---------------------------------------------------------------- JSON (ddl_json.c) */

/*
 * Append to an object or array; the comma before it is their business.  A text in the server's encoding; NULL
 * is null.
 */
extern void pgos_ddl_comma(StringInfo out);
extern void pgos_ddl_put_key(StringInfo out, const char *key);
extern void pgos_ddl_put_text(StringInfo out, const char *key, const char *value);
extern void pgos_ddl_put_bool(StringInfo out, const char *key, bool value);
extern void pgos_ddl_put_int64(StringInfo out, const char *key, int64 value);

/* The object itself; raises if the JSON is something else. */
extern JsonbContainer *pgos_ddl_root(Jsonb *relation);

/* Members of an object.  Absent and null are the same; a member of another type is an error. */
extern char *pgos_ddl_text(JsonbContainer *object, const char *key); /* or NULL */
extern char *pgos_ddl_name(JsonbContainer *object, const char *key); /* an identifier; required */
extern bool	 pgos_ddl_bool(JsonbContainer *object, const char *key); /* absent: false */
extern bool
pgos_ddl_int64(JsonbContainer *object, const char *key, int64 *value);			 /* false: absent */
extern JsonbContainer *pgos_ddl_object(JsonbContainer *object, const char *key); /* or NULL */
extern List *
pgos_ddl_objects(JsonbContainer *object, const char *key); /* of JsonbContainer *; NIL */

/* The columns (JsonbContainer *); there must be such a list. */
extern List *pgos_ddl_column_objects(Jsonb *relation);

/* Member names (char *) and text values of an object, in pairs. */
extern List *pgos_ddl_pairs(JsonbContainer *object);

/* ---------------------------------------------------------------- SQL (ddl_sql.c) */

/*
 * What names that occur in the definitions become: the relation's own name (in whole-row references), and the
 * sequence that a column owns.  A NULL member changes nothing.
 */
typedef struct PgosDdlRename
{
	const char *old_relation;
	const char *new_relation;
	const char *old_sequence_schema;
	const char *old_sequence;
	const char *new_sequence; /* qualified and quoted */
	const char *what;		  /* for messages: "column \"x\"" */
} PgosDdlRename;

/*
 * Each parses text that must be nothing but the thing; name is for messages (the column, constraint, ... that
 * the text belongs to).
 */
extern TypeName *pgos_ddl_parse_type(const char *column, const char *text);
extern Node *
pgos_ddl_parse_expression(const char *column, const char *text, const PgosDdlRename *rename);
extern Constraint *pgos_ddl_parse_constraint(const char *name, const char *text, ConstrType type,
											 const PgosDdlRename *rename);
extern IndexStmt *
pgos_ddl_parse_index(const char *name, const char *text, const PgosDdlRename *rename);
extern PartitionSpec *
pgos_ddl_parse_partition_key(const char *relation, const char *text, const PgosDdlRename *rename);
extern PartitionBoundSpec *pgos_ddl_parse_partition_bound(const char *relation, const char *text);

/* One statement of our own making, parsed; what follows may hang nodes of the above into it. */
extern Node *pgos_ddl_parse_statement(const char *sql);

/* Runs a parsed statement (sql: the text for logs and hooks), or a text, as the current user. */
extern void pgos_ddl_run(Node *statement, const char *sql);
extern void pgos_ddl_run_sql(const char *sql);

/* ---------------------------------------------------------------- catalogs */

/* One relation (the exported one, or a partition of it) while it is described. */
typedef struct PgosDdlSource
{
	StringInfo out;
	Relation   rel;
	List	  *columns;	   /* names (char *) that are exported, NIL for all */
	bool	   local_only; /* a partition: leave out what comes from its parent */
} PgosDdlSource;

/*
 * The name that a partition is given if it is free: its old one, with the old name of the table at its
 * beginning replaced by the new (ddl_create.c).
 */
extern char *pgos_ddl_partition_name(JsonbContainer *json, const PgosDdlRename *rename);

/* Members that describe the constraints and indexes of source->rel (ddl_describe_keys.c). */
extern void pgos_ddl_put_keys(PgosDdlSource *source);
/* Columns (attribute numbers) that are declared not null, but may hold nulls: NOT NULL NOT VALID. */
extern Bitmapset *pgos_ddl_unproven_not_null(Relation rel);

/* Of ddl_describe.c. */
extern void pgos_ddl_put_relation(StringInfo out, const char *prefix, Oid relid);
extern void pgos_ddl_put_options(StringInfo out, Oid relid, Oid toast_relid);
/* Whether a column, or every column in an expression over the relation (a node or list), is exported. */
extern bool pgos_ddl_is_exported(PgosDdlSource *source, AttrNumber attnum);
extern bool pgos_ddl_uses_exported(PgosDdlSource *source, Node *expression);
/* The result of pg_get_...(argument1, argument2) on the relation; never NULL. */
extern char *
pgos_ddl_catalog_text(PGFunction function, Datum argument1, Datum argument2, Oid relid);

/* "FOR VALUES ..." of a partition, as pg_get_expr() writes it; NULL if it is none. */
extern char *pgos_ddl_partition_bound(Oid relid);

/*
 * The sequence that the column owns, or InvalidOid: an identity column's own, else the one that the expression
 * (may be NULL) refers to, else the first.
 */
extern Oid pgos_ddl_owned_sequence(Oid relid, AttrNumber attnum, Node *expression);

#endif
