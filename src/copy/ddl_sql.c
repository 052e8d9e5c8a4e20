/*
 * ddl_sql.c
 *		SQL text out of a manifest becomes parse trees; parse trees are run.
 *
 * How a text is held to being one thing: it is parsed behind a fixed prefix that makes it a statement; the
 * thing is taken out of the tree; what is left must be equal to what is left of a sample that was parsed in
 * the same way.  So nothing can come along with it: no second statement, no second command, no other clause.
 * The text itself is not used again.
 *
 * Trees are in the current memory context.  Runs in a worker, inside a transaction; raises.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "copy/copy_options.h"
#include "copy/ddl_internal.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parser.h"
#include "tcop/dest.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"
#include "utils/varlena.h"

/* One kind of text: where the thing stands in the statement that prefix and text make, or NULL if nowhere. */
typedef struct PgosDdlPiece
{
	const char *kind; /* for messages */
	const char *prefix;
	const char *sample;
	Node **(*slot)(Node *statement);
} PgosDdlPiece;

/* What is being parsed or run, for the error context. */
typedef struct PgosDdlPlace
{
	const char *kind;
	const char *name;
	const char *text;
} PgosDdlPlace;

/* ---------------------------------------------------------------- settings */

int
pgos_ddl_settings_push(void)
{
	/* pg_temp is last, or temporary objects would be found before those of pg_catalog. */
	static const char *const settings[][2] = {
		{"search_path", "pg_catalog, pg_temp"},
		{"quote_all_identifiers", "off"},
		{"standard_conforming_strings", "on"},
		{"transform_null_equals", "off"},
		{"array_nulls", "on"},
		{"timezone", "UTC"},
	};
	int level = pgos_copy_settings_pin();

	for (int i = 0; i < (int) lengthof(settings); i++)
		(void) set_config_option(settings[i][0], settings[i][1], PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, 0, false);
	return level;
}

void
pgos_ddl_settings_pop(int level)
{
	AtEOXact_GUC(true, level);
}

/* ---------------------------------------------------------------- error context */

/* The position is one in a text that the user never wrote: drop it. */
static void
pgos_ddl_parse_error(void *arg)
{
	PgosDdlPlace *place = arg;

	errposition(0);
	if (geterrcode() == ERRCODE_SYNTAX_ERROR)
		errhint("The dataset may have been written by a newer PostgreSQL, or its manifest was "
				"damaged or "
				"changed by hand.  Create the table before pulling into it.");
	errcontext("%s of \"%s\" in the manifest: %s", place->kind, place->name, place->text);
}

static void
pgos_ddl_run_error(void *arg)
{
	PgosDdlPlace *place = arg;

	errposition(0);
	errcontext("%s, as the manifest describes it", place->text);
}

static void
pgos_ddl_bad_piece(const PgosDdlPlace *place)
{
	ereport(
		ERROR,
		(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
		 errmsg("malformed %s of \"%s\" in the manifest", place->kind, place->name),
		 place->text == NULL ? errdetail("It is missing.") : errdetail("It is: %s", place->text),
		 errhint("The manifest was damaged or changed by hand.  Write the dataset again, "
				 "or create the table before pulling into it.")));
}

/* ---------------------------------------------------------------- one thing exactly */

static List *
pgos_ddl_raw_parse(PgosDdlPlace *place, const char *sql, RawParseMode mode)
{
	ErrorContextCallback callback;
	List				*statements;

	callback.callback = pgos_ddl_parse_error;
	callback.arg = place;
	callback.previous = error_context_stack;
	error_context_stack = &callback;
	statements = raw_parser(sql, mode);
	error_context_stack = callback.previous;
	return statements;
}

static Node *
pgos_ddl_parse_piece(const PgosDdlPiece *piece, const char *name, const char *text)
{
	PgosDdlPlace place = {piece->kind, name, text};
	List		*statements = NIL;

	if (text != NULL)
		statements =
			pgos_ddl_raw_parse(&place, psprintf("%s%s", piece->prefix, text), RAW_PARSE_DEFAULT);
	if (list_length(statements) == 1)
	{
		Node  *statement = linitial_node(RawStmt, statements)->stmt;
		Node  *sample = pgos_ddl_parse_statement(psprintf("%s%s", piece->prefix, piece->sample));
		Node **slot = nodeTag(statement) == nodeTag(sample) ? piece->slot(statement) : NULL;

		if (slot != NULL && *slot != NULL)
		{
			Node *result = *slot;

			*slot = *piece->slot(sample);
			if (equal(statement, sample))
				return result;
		}
	}
	pgos_ddl_bad_piece(&place);
	return NULL;
}

static Node **
pgos_ddl_slot_expression(Node *statement)
{
	SelectStmt *select = (SelectStmt *) statement;

	if (list_length(select->targetList) != 1)
		return NULL;
	return &linitial_node(ResTarget, select->targetList)->val;
}

static Node **
pgos_ddl_slot_constraint(Node *statement)
{
	AlterTableStmt *alter = (AlterTableStmt *) statement;

	if (list_length(alter->cmds) != 1)
		return NULL;
	return &linitial_node(AlterTableCmd, alter->cmds)->def;
}

static Node **
pgos_ddl_slot_partition_key(Node *statement)
{
	return (Node **) &((CreateStmt *) statement)->partspec;
}

static Node **
pgos_ddl_slot_partition_bound(Node *statement)
{
	return (Node **) &((CreateStmt *) statement)->partbound;
}

static const PgosDdlPiece piece_expression = {"default or generation expression", "SELECT ", "NULL",
											  pgos_ddl_slot_expression};
static const PgosDdlPiece piece_constraint = {"definition", "ALTER TABLE x ADD CONSTRAINT y ",
											  "CHECK (true)", pgos_ddl_slot_constraint};
static const PgosDdlPiece piece_partition_key = {"partition key",
												 "CREATE TABLE x (a int) PARTITION BY ", "LIST (a)",
												 pgos_ddl_slot_partition_key};
static const PgosDdlPiece piece_partition_bound = {
	"partition bound", "CREATE TABLE x PARTITION OF y ", "DEFAULT", pgos_ddl_slot_partition_bound};

/* ---------------------------------------------------------------- names that change */

/* A regclass constant in a default: a sequence, mostly. */
static void
pgos_ddl_rename_regclass(A_Const *constant, const PgosDdlRename *rename)
{
	char *text = strVal(&constant->val);
	List *names = textToQualifiedNameList(cstring_to_text(text));

	if (rename->new_sequence != NULL && list_length(names) == 2 &&
		strcmp(strVal(linitial(names)), rename->old_sequence_schema) == 0 &&
		strcmp(strVal(lsecond(names)), rename->old_sequence) == 0)
		constant->val.sval.sval = pstrdup(rename->new_sequence);
	else if (!OidIsValid(RangeVarGetRelid(makeRangeVarFromNameList(names), NoLock, true)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation \"%s\" does not exist, which %s refers to", text, rename->what),
				 errhint("It does not belong to the column, so the manifest does not describe it.  "
						 "Create it first, or create the table before pulling into it.")));
}

static bool
pgos_ddl_rename_walker(Node *node, void *context)
{
	const PgosDdlRename *rename = context;

	if (node == NULL)
		return false;
	if (IsA(node, IndexElem))
		return pgos_ddl_rename_walker(((IndexElem *) node)->expr, context);
	if (IsA(node, PartitionElem))
		return pgos_ddl_rename_walker(((PartitionElem *) node)->expr, context);
	if (IsA(node, ColumnRef))
	{
		List *fields = ((ColumnRef *) node)->fields;

		/* The whole row is written as "relation.*"; nothing else names the relation. */
		if (list_length(fields) == 2 && IsA(linitial(fields), String) &&
			IsA(lsecond(fields), A_Star) && rename->old_relation != NULL &&
			strcmp(strVal(linitial(fields)), rename->old_relation) == 0)
			linitial(fields) = makeString(pstrdup(rename->new_relation));
		return false;
	}
	if (IsA(node, TypeCast))
	{
		TypeCast *cast = (TypeCast *) node;

		if (IsA(cast->arg, A_Const) && !((A_Const *) cast->arg)->isnull &&
			IsA(&((A_Const *) cast->arg)->val, String) && cast->typeName->names != NIL &&
			cast->typeName->arrayBounds == NIL &&
			strcmp(strVal(llast(cast->typeName->names)), "regclass") == 0)
			pgos_ddl_rename_regclass((A_Const *) cast->arg, rename);
	}
	return raw_expression_tree_walker(node, pgos_ddl_rename_walker, context);
}

static void
pgos_ddl_rename(void *node, const PgosDdlRename *rename)
{
	(void) pgos_ddl_rename_walker(node, unconstify(PgosDdlRename *, rename));
}

/* ---------------------------------------------------------------- the kinds of text */

TypeName *
pgos_ddl_parse_type(const char *column, const char *text)
{
	PgosDdlPlace place = {"type", column, text};
	TypeName	*type;

	if (text == NULL)
		pgos_ddl_bad_piece(&place);
	type = linitial_node(TypeName, pgos_ddl_raw_parse(&place, text, RAW_PARSE_TYPE_NAME));
	if (type->setof || type->pct_type)
		pgos_ddl_bad_piece(&place);
	return type;
}

Node *
pgos_ddl_parse_expression(const char *column, const char *text, const PgosDdlRename *rename)
{
	Node *expression = pgos_ddl_parse_piece(&piece_expression, column, text);

	pgos_ddl_rename(expression, rename);
	return expression;
}

Constraint *
pgos_ddl_parse_constraint(const char *name, const char *text, ConstrType type,
						  const PgosDdlRename *rename)
{
	Node	   *node = pgos_ddl_parse_piece(&piece_constraint, name, text);
	Constraint *constraint = (Constraint *) node;

	if (!IsA(node, Constraint) || constraint->contype != type || constraint->indexname != NULL)
	{
		PgosDdlPlace place = {piece_constraint.kind, name, text};

		pgos_ddl_bad_piece(&place);
	}
	constraint->conname = NULL;
	constraint->indexspace = NULL;
	pgos_ddl_rename(constraint->raw_expr, rename);
	pgos_ddl_rename(constraint->where_clause, rename);
	pgos_ddl_rename(constraint->exclusions, rename);
	return constraint;
}

/* What is not of the index itself (its name, table, tablespace) is cleared. */
IndexStmt *
pgos_ddl_parse_index(const char *name, const char *text, const PgosDdlRename *rename)
{
	PgosDdlPlace place = {"definition", name, text};
	List		*statements = NIL;
	IndexStmt	*index;

	if (text != NULL)
		statements = pgos_ddl_raw_parse(&place, text, RAW_PARSE_DEFAULT);
	if (list_length(statements) != 1 || !IsA(linitial_node(RawStmt, statements)->stmt, IndexStmt))
		pgos_ddl_bad_piece(&place);
	index = (IndexStmt *) linitial_node(RawStmt, statements)->stmt;
	index->relation = NULL;
	index->idxname = NULL;
	index->tableSpace = NULL;
	index->concurrent = false;
	index->if_not_exists = false;
	pgos_ddl_rename(index->indexParams, rename);
	pgos_ddl_rename(index->whereClause, rename);
	return index;
}

PartitionSpec *
pgos_ddl_parse_partition_key(const char *relation, const char *text, const PgosDdlRename *rename)
{
	PartitionSpec *key =
		(PartitionSpec *) pgos_ddl_parse_piece(&piece_partition_key, relation, text);

	pgos_ddl_rename(key->partParams, rename);
	return key;
}

PartitionBoundSpec *
pgos_ddl_parse_partition_bound(const char *relation, const char *text)
{
	return (PartitionBoundSpec *) pgos_ddl_parse_piece(&piece_partition_bound, relation, text);
}

/* ---------------------------------------------------------------- running */

Node *
pgos_ddl_parse_statement(const char *sql)
{
	return linitial_node(RawStmt, raw_parser(sql, RAW_PARSE_DEFAULT))->stmt;
}

void
pgos_ddl_run(Node *statement, const char *sql)
{
	PgosDdlPlace		 place = {NULL, NULL, sql};
	PlannedStmt			*wrapper = makeNode(PlannedStmt);
	ErrorContextCallback callback;

	wrapper->commandType = CMD_UTILITY;
	wrapper->utilityStmt = statement;

	callback.callback = pgos_ddl_run_error;
	callback.arg = &place;
	callback.previous = error_context_stack;
	error_context_stack = &callback;
	PushActiveSnapshot(GetTransactionSnapshot());
	ProcessUtility(wrapper, sql, false, PROCESS_UTILITY_QUERY, NULL, NULL, None_Receiver, NULL);
	PopActiveSnapshot();
	CommandCounterIncrement();
	error_context_stack = callback.previous;
}

void
pgos_ddl_run_sql(const char *sql)
{
	pgos_ddl_run(pgos_ddl_parse_statement(sql), sql);
}
