/*
 * spec.c
 *		The arguments of objstore_push and objstore_pull: checked, to JSON and back.
 *
 * Runs in backends and workers; raises.  Results are in the current memory context.
 */
#include "postgres.h"

#include "copy/copy_options.h"
#include "errors.h"
#include "guc.h"
#include "job/spec.h"
#include "job/spec_internal.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/numeric.h"

static const char *const pgos_formats[] = {"csv", "text", "binary", NULL};
/* Both in the order of PgosCompression: what a push writes, what a pull reads. */
static const char *const pgos_push_compressions[] = {"none", "zstd", NULL};
static const char *const pgos_pull_compressions[] = {"none", "zstd", "gzip", "lz4", NULL};
static const char *const pgos_if_exists[] = {"error", "replace", NULL};
static const char *const pgos_modes[] = {"append", "replace", "create", NULL};

static const char *const pgos_push_transfer_options[] = {
	"level", "part_size", "concurrency", "frame_size", NULL,
};
static const char *const pgos_tables_transfer_options[] = {"part_size", "concurrency", NULL};
static const char *const pgos_no_options[] = {NULL};

/* In the order of PgosJobKind. */
static const char *const pgos_job_kinds[] = {"push", "pull", "push_tables", "pull_tables", NULL};
static const char *const pgos_layouts[] = {"files", "packed", NULL};

const char *
pgos_job_kind_name(PgosJobKind kind)
{
	return pgos_job_kinds[kind];
}

PgosJobKind
pgos_job_kind_parse(const char *name)
{
	for (int i = 0; pgos_job_kinds[i] != NULL; i++)
	{
		if (strcmp(name, pgos_job_kinds[i]) == 0)
			return (PgosJobKind) i;
	}
	elog(ERROR, "unknown kind of job \"%s\"", name);
}

int
pgos_spec_word(const char *argument, const char *word, const char *const *list)
{
	const char *nearest;

	for (int i = 0; list[i] != NULL; i++)
	{
		if (strcmp(word, list[i]) == 0)
			return i;
	}
	nearest = pgos_nearest_word(word, list);
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("invalid value for argument \"%s\": \"%s\"", argument, word),
					errdetail("Valid values are: %s.", pgos_join_words(list)),
					nearest ? errhint("Perhaps you meant \"%s\".", nearest) : 0));
	return -1;
}

int64
pgos_spec_number(const char *name, const JsonbValue *value, int unit, int64 min, int64 max)
{
	char	   *text = NULL;
	int			number;
	const char *hint = NULL;

	if (value->type == jbvNumeric)
		text =
			DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(value->val.numeric)));
	else if (value->type == jbvString)
		text = pnstrdup(value->val.string.val, value->val.string.len);
	/* parse_int() would round */
	if (text == NULL || (unit == 0 && strpbrk(text, ".eE") != NULL) ||
		!parse_int(text, &number, unit, &hint))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for option \"%s\"%s%s%s", name, text ? ": \"" : "",
						text ? text : "", text ? "\"" : ""),
				 unit == GUC_UNIT_KB
					 ? errhint("Use a size such as \"16MB\"; a bare number counts kilobytes.")
					 : errhint("Use a whole number.")));
	if (number < min || number > max)
	{
		if (unit == GUC_UNIT_KB)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("option \"%s\" is out of range: \"%s\"", name, text),
					 errdetail("It must be between " INT64_FORMAT "kB and " INT64_FORMAT "kB.", min,
							   max)));
		else
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
							errmsg("option \"%s\" is out of range: \"%s\"", name, text),
							errdetail("It must be between " INT64_FORMAT " and " INT64_FORMAT ".",
									  min, max)));
	}
	return number;
}

/* Every member of options must be known; those of the transfer are read into the spec. */
static void
pgos_spec_options(PgosJobKind kind, Jsonb *options, PgosSpec *spec)
{
	const char *const *transfer = pgos_job_kind_is_push(kind) ? pgos_push_transfer_options
								  : kind == PGOS_JOB_PULL	  ? pgos_pull_options
															  : pgos_tables_transfer_options;
	const char *const *copy = pgos_job_kind_is_push(kind) ? pgos_copy_to_options
							  : kind == PGOS_JOB_PULL	  ? pgos_copy_from_options
														  : pgos_no_options;
	const char		  *known[48];
	int				   n = 0;
	JsonbIterator	  *it;
	JsonbValue		   v;

	if (!JB_ROOT_IS_OBJECT(options))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("argument \"options\" must be a JSON object"),
						errhint("For example: options => '{\"delimiter\": \";\"}'.")));
	for (int i = 0; copy[i] != NULL; i++)
		known[n++] = copy[i];
	for (int i = 0; transfer[i] != NULL; i++)
		known[n++] = transfer[i];
	known[n] = NULL;

	it = JsonbIteratorInit(&options->root);
	(void) JsonbIteratorNext(&it, &v, false);
	while (JsonbIteratorNext(&it, &v, true) == WJB_KEY)
	{
		char *name = pnstrdup(v.val.string.val, v.val.string.len);
		bool  found = false;

		(void) JsonbIteratorNext(&it, &v, true);
		for (int i = 0; i < n && !found; i++)
			found = strcmp(name, known[i]) == 0;
		if (!found)
		{
			const char *nearest = pgos_nearest_word(name, known);

			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("unknown option \"%s\" for a %s", name, pgos_job_kind_name(kind)),
					 errdetail("Valid options are: %s.", pgos_join_words(known)),
					 nearest ? errhint("Perhaps you meant \"%s\".", nearest) : 0));
		}
		if (v.type == jbvNull)
			continue;
		if (strcmp(name, "level") == 0)
			spec->level = (int) pgos_spec_number(name, &v, 0, -7, 19);
		else if (strcmp(name, "part_size") == 0)
			spec->part_size =
				1024 * pgos_spec_number(name, &v, GUC_UNIT_KB, 5 * 1024, 5 * 1024 * 1024);
		else if (strcmp(name, "concurrency") == 0)
			spec->concurrency = (int) pgos_spec_number(name, &v, 0, 1, 64);
		else if (strcmp(name, "frame_size") == 0)
			spec->frame_size = 1024 * pgos_spec_number(name, &v, GUC_UNIT_KB, 64, 1024 * 1024);
		else if (kind == PGOS_JOB_PULL)
			pgos_spec_pull_option(spec, name, &v);
	}
}

PgosSpec *
pgos_spec_parse(PgosJobKind kind, const PgosSpecWords *words)
{
	PgosSpec *spec = palloc0(sizeof(PgosSpec));

	spec->format = PGOS_FORMAT_CSV;
	spec->compression = PGOS_COMPRESSION_ZSTD;
	spec->level = pgos_compression_level;
	spec->frame_size = (int64) pgos_frame_size_kb * 1024;
	spec->columns = words->columns;
	spec->options = words->options;
	spec->own_folder = words->own_folder != NULL;
	spec->parallel = words->parallel;
	spec->relids = words->relids;
	spec->relations = words->relations;
	if (words->layout != NULL)
		spec->packed = pgos_spec_word("layout", words->layout, pgos_layouts) == 1;
	if (words->schema != NULL)
		spec->schema = pstrdup(words->schema);
	if (words->table != NULL)
		spec->table = pstrdup(words->table);
	if (words->format != NULL)
	{
		spec->format = (PgosFormat) pgos_spec_word("format", words->format, pgos_formats);
		spec->has_format = true;
	}
	if (words->compression != NULL)
	{
		spec->compression = (PgosCompression) pgos_spec_word(
			"compression", words->compression,
			pgos_job_kind_is_push(kind) ? pgos_push_compressions : pgos_pull_compressions);
		spec->has_compression = true;
	}
	if (words->if_exists != NULL)
		spec->if_exists =
			(PgosIfExists) pgos_spec_word("if_exists", words->if_exists, pgos_if_exists);
	if (words->mode != NULL)
		spec->mode = (PgosPullMode) pgos_spec_word("mode", words->mode, pgos_modes);
	pgos_spec_pull_words(spec, words);
	if (words->options != NULL)
		pgos_spec_options(kind, words->options, spec);
	if (kind == PGOS_JOB_PULL)
		pgos_spec_pull_check(spec);
	if (pgos_job_kind_is_push(kind) || spec->has_format)
		(void) pgos_copy_options_build(!pgos_job_kind_is_push(kind), spec->format, spec->options);
	return spec;
}

static void
pgos_json_put_string(JsonbParseState **state, const char *name, const char *value)
{
	JsonbValue v;

	if (value == NULL)
		return;
	v.type = jbvString;
	v.val.string.val = pstrdup(name);
	v.val.string.len = strlen(name);
	pushJsonbValue(state, WJB_KEY, &v);
	v.val.string.val = pstrdup(value);
	v.val.string.len = strlen(value);
	pushJsonbValue(state, WJB_VALUE, &v);
}

static void
pgos_json_put_list(JsonbParseState **state, const char *name, List *words)
{
	JsonbValue v;
	ListCell  *lc;

	if (words == NIL)
		return;
	v.type = jbvString;
	v.val.string.val = pstrdup(name);
	v.val.string.len = strlen(name);
	pushJsonbValue(state, WJB_KEY, &v);
	pushJsonbValue(state, WJB_BEGIN_ARRAY, NULL);
	foreach (lc, words)
	{
		v.type = jbvString;
		v.val.string.val = lfirst(lc);
		v.val.string.len = strlen(lfirst(lc));
		pushJsonbValue(state, WJB_ELEM, &v);
	}
	pushJsonbValue(state, WJB_END_ARRAY, NULL);
}

static List *
pgos_json_list(Jsonb *json, const char *name)
{
	List		  *words = NIL;
	JsonbIterator *it;
	JsonbValue	   v;

	if (getKeyJsonValueFromContainer(&json->root, name, strlen(name), &v) == NULL)
		return NIL;
	it = JsonbIteratorInit(v.val.binary.data);
	(void) JsonbIteratorNext(&it, &v, false);
	while (JsonbIteratorNext(&it, &v, true) == WJB_ELEM)
		words = lappend(words, pnstrdup(v.val.string.val, v.val.string.len));
	return words;
}

static List *
pgos_oids_to_words(List *oids)
{
	List	 *words = NIL;
	ListCell *lc;

	foreach (lc, oids)
		words = lappend(words, psprintf("%u", lfirst_oid(lc)));
	return words;
}

Jsonb *
pgos_spec_to_json(const PgosSpecWords *words)
{
	JsonbParseState *state = NULL;
	JsonbValue		 v;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	pgos_json_put_string(&state, "format", words->format);
	pgos_json_put_string(&state, "compression", words->compression);
	pgos_json_put_string(&state, "if_exists", words->if_exists);
	pgos_json_put_string(&state, "own_folder", words->own_folder);
	if (words->parallel > 0)
		pgos_json_put_string(&state, "parallel", psprintf("%d", words->parallel));
	pgos_json_put_string(&state, "mode", words->mode);
	pgos_json_put_string(&state, "on_conflict", words->on_conflict);
	pgos_json_put_string(&state, "on_error", words->on_error);
	pgos_json_put_string(&state, "schema", words->schema);
	pgos_json_put_string(&state, "table", words->table);
	pgos_json_put_string(&state, "layout", words->layout);
	pgos_json_put_list(&state, "columns", words->columns);
	pgos_json_put_list(&state, "relations", words->relations);
	pgos_json_put_list(&state, "relids", pgos_oids_to_words(words->relids));
	if (words->options != NULL)
	{
		v.type = jbvString;
		v.val.string.val = pstrdup("options");
		v.val.string.len = strlen("options");
		pushJsonbValue(&state, WJB_KEY, &v);
		v.type = jbvBinary;
		v.val.binary.data = &words->options->root;
		v.val.binary.len = VARSIZE(words->options) - VARHDRSZ;
		pushJsonbValue(&state, WJB_VALUE, &v);
	}
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

char *
pgos_json_string(Jsonb *object, const char *name)
{
	JsonbValue v;

	if (!JB_ROOT_IS_OBJECT(object) ||
		getKeyJsonValueFromContainer(&object->root, name, strlen(name), &v) == NULL ||
		v.type != jbvString)
		return NULL;
	return pnstrdup(v.val.string.val, v.val.string.len);
}

PgosSpec *
pgos_spec_from_json(PgosJobKind kind, Jsonb *json)
{
	PgosSpecWords words = {0};
	JsonbValue	  v;
	char		 *parallel;
	ListCell	 *lc;

	words.format = pgos_json_string(json, "format");
	words.compression = pgos_json_string(json, "compression");
	words.if_exists = pgos_json_string(json, "if_exists");
	parallel = pgos_json_string(json, "parallel");
	words.parallel = parallel != NULL ? atoi(parallel) : 0;
	words.own_folder = pgos_json_string(json, "own_folder");
	words.mode = pgos_json_string(json, "mode");
	words.on_conflict = pgos_json_string(json, "on_conflict");
	words.on_error = pgos_json_string(json, "on_error");
	words.schema = pgos_json_string(json, "schema");
	words.table = pgos_json_string(json, "table");
	words.layout = pgos_json_string(json, "layout");
	words.columns = pgos_json_list(json, "columns");
	words.relations = pgos_json_list(json, "relations");
	foreach (lc, pgos_json_list(json, "relids"))
		words.relids = lappend_oid(words.relids, (Oid) strtoul(lfirst(lc), NULL, 10));
	if (getKeyJsonValueFromContainer(&json->root, "options", strlen("options"), &v) != NULL)
		words.options = JsonbValueToJsonb(&v);
	return pgos_spec_parse(kind, &words);
}
