/*
 * spec_pull.c
 *		The arguments and options of objstore_pull() that say how rows get into the relation.
 *
 * Runs in backends and workers; raises.  Results are in the current memory context.
 */
#include "postgres.h"

#include "compat.h"
#include "job/spec_internal.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/numeric.h"

const char *const pgos_pull_options[] = {
	"part_size",		"concurrency",	 "reject_limit", "max_line",
	"conflict_columns", "extra_columns", "path_column",	 "row_column",
	"hive_columns",		"skip_loaded",	 "datestyle",	 NULL,
};

/* In the order of PgosConflict. */
static const char *const conflicts[] = {"error", "nothing", "update", NULL};
static const char *const error_ways[] = {"stop", "skip", NULL};
static const char *const extra_ways[] = {"error", "ignore", NULL};

/* bytes */
#define PGOS_DEFAULT_MAX_LINE (64 * 1024 * 1024)

static void pgos_spec_pull_wrong(const char *name, const char *expected) pg_attribute_noreturn();

static void
pgos_spec_pull_wrong(const char *name, const char *expected)
{
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("invalid value for option \"%s\"", name), errhint("Use %s.", expected)));
	pg_unreachable();
}

static char *
pgos_spec_pull_string(const char *name, const JsonbValue *value, const char *expected)
{
	if (value->type != jbvString || value->val.string.len == 0)
		pgos_spec_pull_wrong(name, expected);
	return pnstrdup(value->val.string.val, value->val.string.len);
}

static bool
pgos_spec_pull_bool(const char *name, const JsonbValue *value)
{
	bool result = false;

	if (value->type == jbvBool)
		return value->val.boolean;
	if (value->type != jbvString ||
		!parse_bool_with_len(value->val.string.val, value->val.string.len, &result))
		pgos_spec_pull_wrong(name, "true or false");
	return result;
}

/* An array of names, or one name. */
static List *
pgos_spec_pull_names(const char *name, const JsonbValue *value)
{
	static const char *const expected = "an array of column names, such as [\"id\"]";
	List					*names = NIL;
	JsonbIterator			*it;
	JsonbValue				 v;
	JsonbIteratorToken		 token;

	if (value->type != jbvBinary || !JsonContainerIsArray(value->val.binary.data))
		return list_make1(pgos_spec_pull_string(name, value, expected));
	it = JsonbIteratorInit(value->val.binary.data);
	(void) JsonbIteratorNext(&it, &v, false);
	while ((token = JsonbIteratorNext(&it, &v, true)) == WJB_ELEM)
		names = lappend(names, pgos_spec_pull_string(name, &v, expected));
	if (names == NIL)
		pgos_spec_pull_wrong(name, expected);
	return names;
}

/* "5%", or rows. */
static void
pgos_spec_pull_limit(PgosSpec *spec, const char *name, const JsonbValue *value)
{
	if (value->type == jbvString && value->val.string.len > 1 &&
		value->val.string.val[value->val.string.len - 1] == '%')
	{
		char *text = pnstrdup(value->val.string.val, value->val.string.len - 1);
		char *end;

		errno = 0;
		spec->reject_percent = strtod(text, &end);
		if (errno != 0 || end == text || *end != '\0' ||
			!(spec->reject_percent >= 0 && spec->reject_percent <= 100))
			pgos_spec_pull_wrong(name, "a number of rows, or a percentage from \"0%\" to \"100%\"");
	}
	else
		spec->reject_limit = pgos_spec_number(name, value, 0, 0, PG_INT32_MAX);
}

void
pgos_spec_pull_words(PgosSpec *spec, const PgosSpecWords *words)
{
	spec->reject_limit = -1;
	spec->reject_percent = -1;
	spec->load.max_line = PGOS_DEFAULT_MAX_LINE;
	if (words->on_conflict != NULL)
		spec->load.on_conflict =
			(PgosConflict) pgos_spec_word("on_conflict", words->on_conflict, conflicts);
	if (words->on_error != NULL)
		spec->load.skip = pgos_spec_word("on_error", words->on_error, error_ways) == 1;
}

void
pgos_spec_pull_option(PgosSpec *spec, const char *name, const JsonbValue *value)
{
	if (strcmp(name, "reject_limit") == 0)
		pgos_spec_pull_limit(spec, name, value);
	else if (strcmp(name, "max_line") == 0)
		spec->load.max_line = 1024 * pgos_spec_number(name, value, GUC_UNIT_KB, 1, 1024 * 1024 - 1);
	else if (strcmp(name, "conflict_columns") == 0)
		spec->load.conflict_columns = pgos_spec_pull_names(name, value);
	else if (strcmp(name, "extra_columns") == 0)
		spec->load.ignore_extra =
			pgos_spec_word(name, pgos_spec_pull_string(name, value, "\"error\" or \"ignore\""),
						   extra_ways) == 1;
	else if (strcmp(name, "path_column") == 0)
		spec->load.path_column = pgos_spec_pull_string(name, value, "the name of a column");
	else if (strcmp(name, "row_column") == 0)
		spec->load.row_column = pgos_spec_pull_string(name, value, "the name of a column");
	else if (strcmp(name, "hive_columns") == 0)
		spec->load.hive_columns = pgos_spec_pull_bool(name, value);
	else if (strcmp(name, "skip_loaded") == 0)
		spec->skip_loaded = pgos_spec_pull_bool(name, value);
	else if (strcmp(name, "datestyle") == 0)
	{
		spec->load.datestyle =
			pgos_spec_pull_string(name, value, "a value of DateStyle, such as \"DMY\"");
		/* only looked at: raises if it is none */
		(void) set_config_option("datestyle", spec->load.datestyle, PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SET, false, ERROR, false);
	}
	else if (strcmp(name, "header") == 0)
		spec->load.map_header = value->type == jbvString && value->val.string.len == 3 &&
								memcmp(value->val.string.val, "map", 3) == 0;
}

static void
pgos_spec_pull_conflict(const char *option, const char *other)
{
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("option \"%s\" does not go together with %s", option, other)));
}

void
pgos_spec_pull_check(const PgosSpec *spec)
{
	const PgosLoadSpec *load = &spec->load;
	bool				binary = spec->has_format && spec->format == PGOS_FORMAT_BINARY;

	if (load->skip && binary)
		ereport(
			ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("on_error => 'skip' does not work with the format binary"),
			 errdetail("The format has no lines, so after a bad row nobody knows where the next "
					   "begins.")));
	if (!load->skip && (spec->reject_limit >= 0 || spec->reject_percent >= 0))
		pgos_spec_pull_conflict("reject_limit", "on_error => 'stop'");
	if (!load->skip && load->max_line != PGOS_DEFAULT_MAX_LINE)
		pgos_spec_pull_conflict("max_line", "on_error => 'stop'");
	if (load->conflict_columns != NIL && load->on_conflict == PGOS_CONFLICT_ERROR)
		pgos_spec_pull_conflict("conflict_columns", "on_conflict => 'error'");
	if (spec->skip_loaded && spec->mode != PGOS_MODE_APPEND)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("option \"skip_loaded\" works with mode => 'append' only"),
						errdetail("Rows of objects that were loaded before would be missing.")));
	if (load->map_header && binary)
		pgos_spec_pull_conflict("header", "the format binary");
}

const char *
pgos_spec_pull_unsplittable(const PgosSpec *spec)
{
	if (spec->skip_loaded)
		return "skip_loaded must see what is loaded in one transaction.";
	if (spec->load.skip)
		return "on_error => 'skip' counts the rejected rows in one place.";
	if (spec->load.on_conflict != PGOS_CONFLICT_ERROR)
		return "on_conflict is decided in one transaction.";
	if (spec->load.map_header || spec->load.ignore_extra || spec->load.path_column != NULL ||
		spec->load.row_column != NULL || spec->load.hive_columns)
		return "Columns that are mapped or added are loaded by one worker.";
	return NULL;
}
