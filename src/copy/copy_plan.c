/*
 * copy_plan.c
 *		Which column of the file goes where, and which way the rows take.
 *
 * Names in a header line are compared as they are, then without regard to case and to blanks around them: what
 * other tools write is seldom folded as PostgreSQL folds.
 *
 * Runs in a worker; raises.
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "copy/copy_load_internal.h"
#include "copy/copy_stream.h"
#include "core/hive.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "parser/scansup.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

typedef struct PgosPlanner
{
	PgosLoad  *load;
	PgosPlan  *plan;
	TupleDesc  desc;
	Bitmapset *from_elsewhere; /* columns of the relation that are not filled from the file */
	Bitmapset *used;		   /* columns of the relation that are */
	List	  *extra;		   /* names (char *) of columns that the relation does not have */
} PgosPlanner;

static const char *
pgos_plan_name(const PgosPlanner *planner, AttrNumber attno)
{
	return NameStr(TupleDescAttr(planner->desc, attno - 1)->attname);
}

/* The column of that name, or 0.  loosely: without regard to case, if just one matches so. */
static AttrNumber
pgos_plan_find(const PgosPlanner *planner, const char *name, bool loosely)
{
	AttrNumber found = 0;

	for (int i = 0; i < planner->desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(planner->desc, i);

		if (!att->attisdropped && strcmp(NameStr(att->attname), name) == 0)
			return att->attnum;
	}
	for (int i = 0; loosely && i < planner->desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(planner->desc, i);

		if (att->attisdropped || pg_strcasecmp(NameStr(att->attname), name) != 0)
			continue;
		if (found != 0)
			ereport(ERROR,
					(errcode(ERRCODE_AMBIGUOUS_COLUMN),
					 errmsg("column \"%s\" of the file may be \"%s\" or \"%s\" of relation \"%s\"",
							name, pgos_plan_name(planner, found), NameStr(att->attname),
							RelationGetRelationName(planner->load->rel)),
					 errhint("Write the header line with just the names that the columns have.")));
		found = att->attnum;
	}
	return found;
}

static bool
pgos_plan_is_generated(const PgosPlanner *planner, AttrNumber attno)
{
	return TupleDescAttr(planner->desc, attno - 1)->attgenerated != '\0';
}

/* A column that an option says is filled from elsewhere. */
static AttrNumber
pgos_plan_option_column(PgosPlanner *planner, const char *name, const char *option)
{
	AttrNumber attno = pgos_plan_find(planner, name, false);

	if (attno == 0)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
						errmsg("column \"%s\" of relation \"%s\" does not exist", name,
							   RelationGetRelationName(planner->load->rel)),
						errdetail("It is named by the option \"%s\".", option)));
	if (pgos_plan_is_generated(planner, attno))
		ereport(ERROR, (errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
						errmsg("column \"%s\" is a generated column", name),
						errdetail("It is named by the option \"%s\".", option)));
	if (bms_is_member(attno, planner->from_elsewhere))
		ereport(ERROR, (errcode(ERRCODE_DUPLICATE_COLUMN),
						errmsg("column \"%s\" is named by two options", name)));
	planner->from_elsewhere = bms_add_member(planner->from_elsewhere, attno);
	return attno;
}

typedef struct PgosConstantContext
{
	const char *column;
	const char *value;
} PgosConstantContext;

static void
pgos_plan_constant_context(void *arg)
{
	PgosConstantContext *context = arg;

	errcontext("column %s: \"%s\", out of the object's name", context->column, context->value);
}

/* A value that all rows of the object have; NULL for null. */
static void
pgos_plan_constant(PgosPlanner *planner, AttrNumber attno, const char *text)
{
	PgosConstant		*constant = &planner->plan->constants[planner->plan->constant_count++];
	Form_pg_attribute	 att = TupleDescAttr(planner->desc, attno - 1);
	PgosConstantContext	 names = {NameStr(att->attname), text};
	ErrorContextCallback context;
	Oid					 function;
	Oid					 ioparam;

	constant->attno = attno;
	constant->isnull = text == NULL;
	if (text == NULL)
		return;
	getTypeInputInfo(att->atttypid, &function, &ioparam);
	context.callback = pgos_plan_constant_context;
	context.arg = &names;
	context.previous = error_context_stack;
	error_context_stack = &context;
	constant->value = OidInputFunctionCall(function, pstrdup(text), ioparam, att->atttypmod);
	error_context_stack = context.previous;
}

static char *
pgos_plan_from_utf8(const char *text)
{
	return pg_any_to_server(text, (int) strlen(text), PG_UTF8);
}

static void
pgos_plan_hive_columns(PgosPlanner *planner)
{
	size_t position = 0;
	char  *name;
	char  *value;

	while (pgos_hive_next(planner->plan->object->key, &position, &name, &value))
	{
		AttrNumber attno;

		name = pgos_plan_from_utf8(name);
		attno = pgos_plan_find(planner, name, true);
		if (attno == 0 || pgos_plan_is_generated(planner, attno))
		{
			planner->extra = lappend(planner->extra, name);
			continue;
		}
		if (bms_is_member(attno, planner->from_elsewhere))
			ereport(ERROR, (errcode(ERRCODE_DUPLICATE_COLUMN),
							errmsg("column \"%s\" has more than one value in the folders of \"%s\"",
								   pgos_plan_name(planner, attno), planner->plan->object->url)));
		planner->from_elsewhere = bms_add_member(planner->from_elsewhere, attno);
		pgos_plan_constant(planner, attno, value != NULL ? pgos_plan_from_utf8(value) : NULL);
	}
}

/* Columns of the relation that are filled from the object's name and the row's number. */
static void
pgos_plan_from_elsewhere(PgosPlanner *planner)
{
	const PgosLoadSpec *spec = planner->load->spec;
	PgosPlan		   *plan = planner->plan;

	plan->constants = palloc0((planner->desc->natts + 1) * sizeof(PgosConstant));
	if (spec->row_column != NULL)
		plan->row_attno = pgos_plan_option_column(planner, spec->row_column, "row_column");
	if (spec->path_column != NULL)
		pgos_plan_constant(planner,
						   pgos_plan_option_column(planner, spec->path_column, "path_column"),
						   plan->object->url);
	if (spec->hive_columns)
		pgos_plan_hive_columns(planner);
}

static bool
pgos_plan_list_has(List *names, const char *name)
{
	ListCell *lc;

	foreach (lc, names)
	{
		if (strcmp(lfirst(lc), name) == 0)
			return true;
	}
	return false;
}

/* The file's next column; attno 0: left out. */
static void
pgos_plan_add(PgosPlanner *planner, const char *name, AttrNumber attno)
{
	PgosFileColumn *column = &planner->plan->columns[planner->plan->column_count++];

	if (attno != 0 && bms_is_member(attno, planner->used))
		ereport(ERROR, (errcode(ERRCODE_DUPLICATE_COLUMN),
						errmsg("column \"%s\" is in the file more than once",
							   pgos_plan_name(planner, attno))));
	if (attno != 0)
		planner->used = bms_add_member(planner->used, attno);
	column->name = name;
	column->attno = attno;
}

/* The file's next column, called by its name.  wanted: names of the relation's columns, NIL for all. */
static void
pgos_plan_add_named(PgosPlanner *planner, char *name, bool loosely, List *wanted)
{
	AttrNumber attno = pgos_plan_find(planner, name, loosely);

	if (wanted != NIL &&
		!pgos_plan_list_has(wanted, attno != 0 ? pgos_plan_name(planner, attno) : name))
		attno = 0;
	else if (attno != 0 && bms_is_member(attno, planner->from_elsewhere))
	{
		/* what the folder says holds for its files */
		attno = 0;
	}
	else if (attno == 0 || pgos_plan_is_generated(planner, attno))
	{
		planner->extra = lappend(planner->extra, name);
		attno = 0;
	}
	pgos_plan_add(planner, name, attno);
}

/* Every name of the list must be one of the file's columns. */
static void
pgos_plan_check_wanted(PgosPlanner *planner, List *wanted)
{
	ListCell *lc;

	foreach (lc, wanted)
	{
		AttrNumber attno = pgos_plan_find(planner, lfirst(lc), false);

		if (attno == 0)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("column \"%s\" of relation \"%s\" does not exist", (char *) lfirst(lc),
							RelationGetRelationName(planner->load->rel))));
		if (!bms_is_member(attno, planner->used) && !bms_is_member(attno, planner->from_elsewhere))
			ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
							errmsg("object \"%s\" has no column \"%s\"", planner->plan->object->url,
								   (char *) lfirst(lc)),
							errdetail("Argument \"columns\" names it.")));
	}
}

/* A name of the header line without blanks around it, unless a column is called just so. */
static char *
pgos_plan_trim(const PgosPlanner *planner, char *name)
{
	char  *trimmed = pstrdup(name);
	size_t len = strlen(trimmed);

	if (pgos_plan_find(planner, name, false) != 0)
		return name;
	while (len > 0 && scanner_isspace(trimmed[len - 1]))
		trimmed[--len] = '\0';
	while (scanner_isspace(*trimmed))
		trimmed++;
	return trimmed;
}

/* The columns of the file, in order. */
static void
pgos_plan_columns(PgosPlanner *planner, List *fields, int field_count)
{
	const PgosLoadObject *object = planner->plan->object;
	bool  map = planner->load->spec->map_header && object->format != PGOS_FORMAT_BINARY;
	List *names = map ? fields : object->columns;
	/* with a header line that says what is there, a list of columns says what is wanted of it */
	List	 *wanted = map && !object->own ? object->columns : object->wanted;
	int		  size = Max(Max(list_length(names), field_count), planner->desc->natts);
	ListCell *lc;

	planner->plan->columns = palloc0(Max(size, 1) * sizeof(PgosFileColumn));
	foreach (lc, names)
		pgos_plan_add_named(planner, map ? pgos_plan_trim(planner, lfirst(lc)) : lfirst(lc), map,
							wanted);
	for (int i = 0; !map && names == NIL && i < planner->desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(planner->desc, i);

		if (!att->attisdropped && att->attgenerated == '\0' &&
			!bms_is_member(att->attnum, planner->from_elsewhere))
			pgos_plan_add(planner, NameStr(att->attname), att->attnum);
	}
	while (!map && planner->load->spec->ignore_extra && planner->plan->column_count < field_count)
		pgos_plan_add(planner, psprintf("#%d", planner->plan->column_count + 1), 0);
	pgos_plan_check_wanted(planner, wanted);
}

static void
pgos_plan_check_extra(const PgosPlanner *planner)
{
	StringInfoData names;
	ListCell	  *lc;

	if (planner->extra == NIL || planner->load->spec->ignore_extra)
		return;
	initStringInfo(&names);
	foreach (lc, planner->extra)
		appendStringInfo(&names, "%s\"%s\"", names.len > 0 ? ", " : "", (char *) lfirst(lc));
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_COLUMN),
			 errmsg("object \"%s\" has columns that relation \"%s\" does not have",
					planner->plan->object->url, RelationGetRelationName(planner->load->rel)),
			 errdetail("They are: %s.", names.data),
			 errhint("Add the columns, or leave them out with options => '{\"extra_columns\": "
					 "\"ignore\"}'.")));
}

/* What COPY FROM cannot do, or NULL. */
static const char *
pgos_plan_insert_reason(const PgosPlanner *planner)
{
	const PgosLoad *load = planner->load;
	const PgosPlan *plan = planner->plan;
	TriggerDesc	   *triggers = load->rel->trigdesc;

	if (load->spec->on_conflict != PGOS_CONFLICT_ERROR)
		return "on_conflict";
	if (load->rls)
		return "row-level security";
	if (plan->constant_count > 0 || plan->row_attno != 0)
		return "columns that are not in the file";
	for (int i = 0; i < plan->column_count; i++)
	{
		if (plan->columns[i].attno == 0)
			return "columns that are left out";
	}
	if (load->rel->rd_rel->relkind == RELKIND_VIEW &&
		!(triggers != NULL && triggers->trig_insert_instead_row))
		return "a view";
	return NULL;
}

static void
pgos_plan_check_copy(PgosPlanner *planner)
{
	List *names = NIL;

	for (int i = 0; i < planner->plan->column_count; i++)
		names = lappend(
			names, unconstify(char *, pgos_plan_name(planner, planner->plan->columns[i].attno)));
	pgos_copy_from_check(planner->load->rel, names);
}

/* Options that COPY FROM has for itself are taken out of the list: freeze; or cannot be had: default. */
static void
pgos_plan_options(PgosPlanner *planner)
{
	static const char *const own_names[] = {"header", "freeze", NULL};
	PgosLoad				*load = planner->load;
	PgosPlan				*plan = planner->plan;
	bool	  freeze = load->new_relation && load->rel->rd_rel->relkind == RELKIND_RELATION;
	ListCell *lc;

	foreach (lc, plan->object->options)
	{
		DefElem *def = lfirst(lc);
		bool	 is_freeze = strcmp(def->defname, "freeze") == 0;

		if (is_freeze)
			freeze = defGetBoolean(def);
		if (((is_freeze && freeze) || strcmp(def->defname, "default") == 0) && plan->insert)
			ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
							errmsg("option \"%s\" does not go together with %s", def->defname,
								   plan->insert_reason)));
		if (is_freeze && freeze && load->spec->skip)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("option \"freeze\" does not go together with on_error => 'skip'")));
	}
	plan->freeze = freeze && !plan->insert && !load->spec->skip;
	plan->options = pgos_copy_options_without(plan->object->options, own_names);
}

PgosPlan *
pgos_plan_make(PgosLoad *load, const PgosLoadObject *object, List *fields, int field_count)
{
	PgosPlanner planner = {0};
	PgosPlan   *plan = palloc0(sizeof(PgosPlan));

	planner.load = load;
	planner.plan = plan;
	planner.desc = RelationGetDescr(load->rel);
	plan->object = object;
	pgos_plan_from_elsewhere(&planner);
	pgos_plan_columns(&planner, fields, field_count);
	pgos_plan_check_extra(&planner);
	if (planner.used == NULL && plan->constant_count == 0 && plan->row_attno == 0 &&
		plan->column_count > 0)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
						errmsg("object \"%s\" has no column that relation \"%s\" has", object->url,
							   RelationGetRelationName(load->rel))));
	plan->insert_reason = pgos_plan_insert_reason(&planner);
	plan->insert = plan->insert_reason != NULL;
	if (!plan->insert)
		pgos_plan_check_copy(&planner);
	pgos_plan_options(&planner);
	return plan;
}
